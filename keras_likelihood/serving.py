"""Layers and models that recalibrated models consist of.

Files of recalibrated models contain them, so they need no SciPy. A recalibrated
stock classifier contains none of them. Arguments of layers are plain values,
which Keras saves without a `get_config`.
"""

from typing import Any

import keras
from keras import ops

from keras_likelihood import likelihoods
from keras_likelihood.backend.registration import serializable
from keras_likelihood.backend.types import Array, Tensor
from keras_likelihood.likelihoods.output import distribution_of

__all__ = ["ClassLogits", "LikelihoodPrediction", "RecalibratedRegressor"]


@serializable
class LikelihoodPrediction(keras.Layer):
    """Identity layer that stores the name of the prediction's likelihood."""

    def __init__(self, likelihood: str | None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.likelihood = likelihood

    def call(self, inputs: Tensor) -> Tensor:
        return inputs


@serializable
class ClassLogits(keras.Layer):
    """Logits of an ordinal likelihood of one unit, or of an ensemble.

    Args:
        likelihood: name of the likelihood.
        known: dict of the parameters that are not in the input.

    Input: `[prediction, parameter, ...]`. Output: log-probabilities
    `(batch, ..., classes)`; for an ensemble, the logits of its mean.
    """

    def __init__(
        self, likelihood: str, known: dict[str, Any], **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.likelihood = likelihood
        self.known = dict(known)

    def call(self, inputs: list[Tensor]) -> Tensor:
        kind = likelihoods.get(self.likelihood)
        distribution = distribution_of(kind, inputs, known=self.known)
        pooled = likelihoods.Softmax, likelihoods.Bernoulli
        if getattr(kind, "likelihood", None) in pooled:
            return distribution.prediction
        p = distribution.class_probabilities()[..., 0, :]
        return ops.log(ops.maximum(p, 1e-30))


@serializable
class RecalibratedRegressor(keras.Model):
    """A Keras model whose outputs are the parameters of a distribution.

    The recalibrators of `kl.recalibration.regression` create it. It is saved
    and loaded like any Keras model.

    ```python
    model = keras.saving.load_model("calibrated.keras")
    lower, upper = model.interval(x, 0.9)
    ```
    """

    def predict_distribution(self, x: Any, **kwargs: Any) -> Any:
        """The predicted distribution for inputs `x`, as for `predict`."""
        output = self.predict(x, **{"verbose": 0, **kwargs})
        names = [v for v in self.layers if isinstance(v, LikelihoodPrediction)]
        likelihood = likelihoods.get(names[-1].likelihood)
        return distribution_of(likelihood, output).as_numpy()

    def interval(
        self, x: Any, coverage: float = 0.9, **kwargs: Any
    ) -> tuple[Array, Array]:
        """Intervals that contain new targets with the given probability.

        The bounds `(lower, upper)` are NumPy arrays of the prediction's shape.

        Args:
            x: inputs `(n, ...)`, as for `predict`.
            coverage: in (0, 1). Defaults to 0.9.
            **kwargs: passed to `predict`. A `ConformalRegressor` that was
                calibrated by groups also needs `groups`, the group labels
                `(n,)`.
        """
        return self.predict_distribution(x, **kwargs).interval(coverage)
