"""Each contract detects an object that breaks it."""

import functools

import keras
import numpy as np
import pytest
from keras import ops

import keras_likelihood as kl
from tests import contracts

FEATURES = np.random.default_rng(0).normal(size=(4, 5)).astype("float32")


class ForgetsItsStart(kl.layers.ScaleHead):
    def call(self, features):
        prediction, scale = super().call(features)
        return prediction, scale + 0.1


class DropsTheBatchAxis(kl.layers.ScaleHead):
    def call(self, features):
        prediction, scale = super().call(features)
        return prediction, scale[0]


@keras.saving.register_keras_serializable("tests")
class ForgetsAnArgument(kl.layers.ScaleHead):
    def get_config(self):
        config = super().get_config()
        config["initial"] = None
        config["activation"] = "linear"
        return config


class NeverMoves(kl.losses.NormalLoss):
    def elementwise(self, distribution, y_true):
        return ops.square(distribution.prediction - y_true)


class IgnoresWeights(kl.losses.NormalLoss):
    def __call__(self, y_true, y_pred, sample_weight=None):
        return super().__call__(y_true, y_pred)


class Broadcasts(kl.losses.NormalLoss):
    def __call__(self, y_true, y_pred, sample_weight=None):
        y_true = ops.broadcast_to(y_true, ops.shape(y_pred))
        return super().__call__(y_true, y_pred, sample_weight)


@keras.saving.register_keras_serializable("tests")
class LosesItsBeta(kl.losses.NormalLoss):
    def get_config(self):
        return {**super().get_config(), "beta": 0.0}


def catches(contract, *args):
    with pytest.raises((AssertionError, ValueError, UserWarning)):
        contract(*args)


def test_head_contracts_can_fail():
    start = contracts.head_starts_at_the_initial_values
    catches(start, ForgetsItsStart(3), {"scale": 1.0})
    shape = contracts.head_broadcasts_with_its_prediction
    catches(shape, DropsTheBatchAxis(3), FEATURES)
    broken = ForgetsAnArgument(3, activation="tanh")
    catches(contracts.config_keeps_outputs, broken, FEATURES)


def test_loss_contracts_can_fail(tmp_path):
    y = FEATURES[:, :3]
    model = contracts.small_model(kl.layers.ScaleHead(3), FEATURES)
    model.compile("sgd", loss=NeverMoves())
    catches(contracts.training_moves_every_weight, model, FEATURES, y)
    broken = IgnoresWeights(1.0, reduction="sum")
    catches(contracts.sample_weight_counts_examples, broken, y, y + 1)
    for cls in (IgnoresWeights, Broadcasts):
        loss = cls(1.0, reduction=None)
        catches(contracts.loss_takes_one_shape, loss, y, y + 1)
    model.compile("sgd", loss=LosesItsBeta(beta=1.0))
    model.train_on_batch(FEATURES, y)
    path = tmp_path / "model.keras"
    catches(contracts.model_survives_saving, model, FEATURES, y, path)


@keras.saving.register_keras_serializable("tests")
class ForgetsItsCoverage(kl.metrics.IntervalCoverage):
    def get_config(self):
        return {**super().get_config(), "coverage": 0.9}


class CountsEveryRow(kl.metrics.Sharpness):
    def update_state(self, y_true, y_pred, sample_weight=None):
        super().update_state(y_true, y_pred)


class ForgetsTheFirstBatch(kl.metrics.Sharpness):
    def update_state(self, y_true, y_pred, sample_weight=None):
        self.reset_state()
        super().update_state(y_true, y_pred, sample_weight)


def test_metric_contracts_can_fail(rng):
    y, mean, noise = rng.normal(size=(3, 40, 1)).astype("float32")
    y_pred = (mean, np.exp(noise))
    config = contracts.metric_survives_its_config
    catches(config, ForgetsItsCoverage(0.2), y, y_pred)
    catches(contracts.metric_counts_weights, CountsEveryRow, y, y_pred)
    catches(contracts.metric_streams, ForgetsTheFirstBatch, y, y_pred)


@pytest.mark.few(0)
def test_estimator_contracts_can_fail(rng, tmp_path):
    class Worse:
        def fit_arrays(self, **arrays):
            self.report_ = {"nll_before": 1.0, "nll_after": 1.1}
            return self

    class IgnoresItsWeights:
        def fit_arrays(self, y, sample_weight=None):
            self.report_ = {"nll_after": float(np.mean(y))}
            return self

    class TakesNaN(kl.outliers.PCAScale):
        def fit(self, X, y=None):  # noqa: N803
            return super().fit(np.nan_to_num(X), y)

    class Explodes(kl.regularizers.DRidge):
        def __call__(self, weight):
            return super().__call__(weight) * float("nan")

    y = rng.normal(size=30)
    with pytest.raises(AssertionError):
        contracts.recalibrator_is_no_worse(Worse, y=y)
    with pytest.raises(AssertionError):
        contracts.recalibrator_counts_weights(IgnoresItsWeights, y=y)
    x, path = rng.normal(size=(40, 3)).astype("float32"), tmp_path / "m.keras"
    broken = functools.partial(TakesNaN, steps=2, random_state=0)
    catches(contracts.detector_keeps_the_contract, broken, x)
    catches(
        contracts.regularizer_trains_in_any_layer,
        lambda: Explodes(num_examples=40),
        lambda r: keras.layers.Dense(2, kernel_regularizer=r),
        *(x, path),
    )
