"""Models with calibrated intervals."""

import keras
import numpy as np
import pytest

import keras_likelihood as kl


@pytest.mark.parametrize("trust", [1.0, 0.5])
def test_distributions_are_of_numpy_arrays(rng, trust):
    """Like the distributions of other models of this package."""
    x = rng.normal(size=(40, 3)).astype("float32")
    y = x[:, :1] + rng.normal(size=(40, 1)).astype("float32")
    inputs = keras.Input((3,))
    model = kl.LikelihoodModel(inputs, kl.layers.ScaleHead(1)(inputs))
    model.compile("sgd", loss=kl.losses.NormalLoss())
    fitted = kl.conformal.ConformalIntervals(trust=trust)
    fitted = fitted.fit(model, x, y).model
    found = fitted.predict_distribution(x)
    law = found.distribution
    for values in (law.prediction, law.scale, law.mean(), law.quantile(0.5)):
        assert isinstance(values, np.ndarray)
    lower, upper = found.interval(0.8)
    assert np.mean((lower <= y) & (y <= upper)) >= 0.8
    np.testing.assert_array_equal(fitted.interval(x, 0.8)[0], lower)
