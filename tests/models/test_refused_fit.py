"""After a refused or interrupted `fit` the model works as before."""

import keras
import numpy as np
import pytest

import keras_likelihood as kl
from tests import contracts
from tests.contracts import as_numpy


@pytest.fixture
def data(rng):
    x = rng.normal(size=(32, 3)).astype("float32")
    return x, x[:, :1] + 0.1 * rng.normal(size=(32, 1)).astype("float32")


def with_data_scale(x, **options):
    scale = kl.DataParameter(len(x), learning_rate=0.5, **options)
    model = contracts.small_model(keras.layers.Dense(1), x)
    model.compile("sgd", loss=kl.losses.NormalLoss(scale=scale))
    return model, scale


def weights_of(model):
    return [as_numpy(v.value) for v in model.trainable_variables]


def test_batches_of_ones_own_train_data_parameters(data):
    x, y = data
    model, scale = with_data_scale(x)
    model.train_on_batch(x, kl.indexed(y))
    assert (scale.values() != 1.0).all()
    assert np.isfinite(model.test_on_batch(x, y))


def batches(x, y):
    for _ in range(2):
        yield x, y


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["arrays", "generator", "batch"])
def test_a_fit_without_an_index_is_refused(data, kind):
    x, y = data
    model, scale = with_data_scale(x)
    before = weights_of(model)
    with pytest.raises(ValueError, match="kl.indexed"):
        if kind == "arrays":
            model.fit(x, y, verbose=0)
        elif kind == "generator":
            model.fit(batches(x, y), shuffle=False, verbose=0)
        else:
            model.train_on_batch(x, y)
    contracts.assert_equal_outputs(before, weights_of(model))
    model.fit(x, kl.indexed(y), verbose=0)
    assert (scale.values() != 1.0).all()
    assert np.isfinite(model.evaluate(x, y, verbose=0))


class Stops(keras.callbacks.Callback):
    def __init__(self, error, batch):
        super().__init__()
        self.error, self.batch = error, batch

    def on_train_batch_end(self, batch, logs=None):
        if batch == self.batch:
            raise self.error


@pytest.mark.few(2)
@pytest.mark.usefixtures("step_by_step")
@pytest.mark.parametrize("batch", [0, 1])
@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_interrupted_fit_keeps_the_last_step(data, error, batch):
    x, y = data
    model = contracts.small_model(kl.layers.ScaleHead(1), x)
    model.compile("sgd", loss=kl.losses.NormalLoss())
    before = weights_of(model)
    with pytest.raises(error):
        model.fit(
            x, y, batch_size=8, verbose=0, callbacks=[Stops(error, batch)]
        )
    after = weights_of(model)
    assert not np.array_equal(before[0], after[0])
    model.fit(x, y, verbose=0)
    assert np.isfinite(model.evaluate(x, y, verbose=0))


@keras.saving.register_keras_serializable("tests")
class Raises(keras.metrics.Mean):
    armed = False

    def update_state(self, y_true, y_pred, sample_weight=None):
        if self.armed:
            raise ValueError("a broken metric")
        super().update_state(y_true, sample_weight)


@pytest.mark.few(1)
@pytest.mark.parametrize("method", ["fit", "evaluate"])
def test_an_error_in_the_first_step_loses_nothing(data, method):
    x, y = data
    model = contracts.small_model(kl.layers.ScaleHead(1), x)
    model.compile(
        "sgd", loss=kl.losses.NormalLoss(), metrics=[Raises(name="m")]
    )
    model.fit(x, y, verbose=0)
    before = weights_of(model)
    Raises.armed = True
    model.compile(
        "sgd", loss=kl.losses.NormalLoss(), metrics=[Raises(name="m")]
    )
    with pytest.raises(Exception, match="a broken metric"):
        getattr(model, method)(x[:5], y[:5], batch_size=5, verbose=0)
    Raises.armed = False
    # PyTorch takes the step before it counts it.
    contracts.assert_equal_outputs(before, weights_of(model), atol=0.05)
    assert np.isfinite(model.evaluate(x, y, verbose=0)).all()


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "loss, bad",
    [("softmax", -1), ("softmax", 3), ("bernoulli", 7.0)],
)
@pytest.mark.parametrize("kind", ["arrays", "generator"])
def test_labels_outside_their_range_are_refused(data, loss, bad, kind):
    x, y = data
    y = np.zeros(32, "int32" if loss == "softmax" else "float32")
    y[4] = bad
    units = 3 if loss == "softmax" else 1
    model = contracts.small_model(keras.layers.Dense(units), x)
    model.compile("sgd", loss=kl.losses.LikelihoodLoss(loss))
    message = f"Received.*{bad}" if kind == "arrays" else "loss is NaN"
    with pytest.raises(ValueError, match=message):
        if kind == "arrays":
            model.fit(x, y, verbose=0)
        else:
            model.fit(batches(x, y), shuffle=False, verbose=0)


def test_train_on_batch_refuses_indices_outside(data):
    x, y = data
    model, scale = with_data_scale(x)
    index = np.arange(32)
    index[3] = 99
    with pytest.raises(ValueError, match="0 to 31"):
        model.train_on_batch(x, kl.indexed(y, index=index))
    model.train_on_batch(x, kl.indexed(y))
    assert np.isfinite(scale.values()).all()


@pytest.mark.few(0)
@pytest.mark.usefixtures("step_by_step")
def test_reading_a_strangers_model_touches_no_file(data, tmp_path):
    """Audit, diagnosis and recalibration do not open table files."""
    x, y = data
    store = tmp_path / "scale.npy"
    table = kl.data_parameters.FileTable(str(store))
    model, scale = with_data_scale(x, table=table)
    model.fit(x, kl.indexed(y), verbose=0)
    model.save(tmp_path / "m.keras")
    scale.close()
    store.unlink()
    before = sorted(p.name for p in tmp_path.iterdir())
    path = str(tmp_path / "m.keras")
    kl.diagnose(keras.models.load_model(path), x, y)
    kl.audit(path, x, y, output=None)
    kl.recalibration.regression.GlobalRescaling().fit(path, x, y)
    assert sorted(p.name for p in tmp_path.iterdir()) == before
