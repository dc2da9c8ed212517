"""Broken twins: each contract catches the object that breaks it."""

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


@keras.saving.register_keras_serializable("tests")
class LosesItsBeta(kl.losses.NormalLoss):
    def get_config(self):
        return {**super().get_config(), "beta": 0.0}


def catches(contract, *args):
    with pytest.raises((AssertionError, ValueError, UserWarning)):
        contract(*args)


def test_head_contracts_can_fail():
    catches(
        contracts.head_starts_at_the_initial_values,
        ForgetsItsStart(3),
        {"scale": 1.0},
    )
    catches(
        contracts.head_broadcasts_with_its_prediction,
        DropsTheBatchAxis(3),
        FEATURES,
    )
    catches(
        contracts.config_keeps_outputs,
        ForgetsAnArgument(3, activation="tanh"),
        FEATURES,
    )


def test_loss_contracts_can_fail(tmp_path):
    y = FEATURES[:, :3]
    model = contracts.small_model(kl.layers.ScaleHead(3), FEATURES)
    model.compile("sgd", loss=NeverMoves())
    catches(contracts.training_moves_every_weight, model, FEATURES, y)
    catches(
        contracts.sample_weight_counts_examples,
        IgnoresWeights(1.0, reduction="sum"),
        y,
        y + 1,
    )
    model.compile("sgd", loss=LosesItsBeta(beta=1.0))
    model.train_on_batch(FEATURES, y)
    catches(
        contracts.model_survives_saving,
        model,
        FEATURES,
        y,
        tmp_path / "model.keras",
    )
