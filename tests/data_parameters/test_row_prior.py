"""Rows with few examples stay close to the other rows."""

import keras
import numpy as np
import pytest

import keras_likelihood as kl
from keras_likelihood.data_parameters import FileTable, RowPrior

SIZES = np.array([60, 60, 2, 2])
TRUE = np.array([0.5, 2.0, 0.1, 4.0])


def learned(prior_scale, epochs=60):
    """Scales of four annotators, whose errors are all of size `TRUE`."""
    rater = np.repeat(np.arange(4), SIZES)
    y = (TRUE[rater] * np.where(np.arange(124) % 2, 1, -1)).astype("float32")
    prior = prior_scale and RowPrior(prior_scale, row_sizes=np.bincount(rater))
    scale = kl.DataParameter(4, prior=prior, learning_rate=0.05)
    inputs = keras.Input((1,))
    outputs = keras.layers.Dense(1, kernel_initializer="zeros")(inputs)
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile(
        keras.optimizers.SGD(0.0), loss=kl.losses.NormalLoss(scale=scale)
    )
    x = np.zeros((124, 1), "float32")
    # Two batches, each with half of the examples of every annotator.
    order = np.concatenate([np.arange(0, 124, 2), np.arange(1, 124, 2)])
    targets = kl.indexed(y[order], index=rater[order])
    model.fit(
        x, targets, batch_size=62, epochs=epochs, shuffle=False, verbose=0
    )
    return model, scale


@pytest.fixture(scope="module")
def pooled():
    return learned(0.5)


@pytest.mark.few(0)
def test_small_rows_stay_near_the_others(pooled):
    own = learned(None)[1].values()
    found = pooled[1].values()
    np.testing.assert_allclose(own, TRUE, rtol=0.15)
    np.testing.assert_allclose(found[:2], TRUE[:2], rtol=0.15)
    assert 2 * TRUE[2] < found[2] < found[1]
    assert found[0] < found[3] < 0.7 * TRUE[3]


@pytest.mark.few(0)
def test_a_narrow_prior_makes_rows_equal():
    found = learned(0.01)[1].values()
    assert np.ptp(found) < 0.1
    # The scale of all examples together.
    alike = np.sqrt(np.average(TRUE**2, weights=SIZES))
    np.testing.assert_allclose(found, alike, rtol=0.1)


@pytest.mark.few(0)
def test_prior_is_saved(pooled, tmp_path):
    model, scale = pooled
    np.testing.assert_allclose(scale.values([3]), scale.values()[3:], rtol=1e-6)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    again = loaded.data_parameters["scale"]
    assert again.prior.scale == 0.5
    np.testing.assert_array_equal(again.prior.row_sizes, SIZES)
    for old, new in zip(scale.variables, again.variables, strict=True):
        np.testing.assert_array_equal(
            keras.ops.convert_to_numpy(old), keras.ops.convert_to_numpy(new)
        )
    np.testing.assert_array_equal(again.values(), scale.values())
    with pytest.raises(ValueError, match="with their model"):
        again.save(tmp_path / "rows.npz")


@pytest.mark.one_backend
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"scale": 0.0, "row_sizes": 1}, "finite number > 0"),
        ({"scale": 1.0, "row_sizes": [1, 2, 3]}, r"np.bincount.*shape \(3,\)"),
        ({"scale": 1.0, "row_sizes": [1, 2, 3, -1]}, "smallest -1"),
    ],
)
def test_what_is_refused(options, words):
    with pytest.raises(ValueError, match=words):
        kl.DataParameter(4, prior=RowPrior(**options))


@pytest.mark.one_backend
def test_a_prior_needs_a_table_in_memory():
    prior = RowPrior(1.0, row_sizes=1)
    with pytest.raises(ValueError, match="needs a `MemoryTable`"):
        kl.DataParameter(4, prior=prior, table=FileTable("scale.npy"))


def test_a_running_mean_has_no_prior():
    memory = kl.DataParameter(4, prior=RowPrior(1.0, row_sizes=1))
    with pytest.raises(ValueError, match="running mean"):
        kl.losses.NoisyLabelsLoss(memory)
