"""Models that recalibration makes, with their intervals and sets."""

import keras
import numpy as np
from keras import ops

from keras_likelihood import likelihoods
from keras_likelihood.backend.registration import serializable
from keras_likelihood.layers.conformal_scores import scores_layer
from keras_likelihood.layers.serving import LikelihoodPrediction
from keras_likelihood.likelihoods.output import distribution_of
from keras_likelihood.models import conformal


@serializable
class ConformalInterval(keras.Layer):
    """Calibrated intervals of one coverage; see `ConformalDistribution`.

    The bound of the calibration is `(1, ...)`.
    """

    def __init__(self, bound, likelihood, trust, units, **kwargs):
        super().__init__(**kwargs)
        self.bound, self.likelihood = np.asarray(bound), likelihood
        self.trust, self.units = trust, units

    def call(self, inputs):
        found = distribution_of(likelihoods.get(self.likelihood), inputs)
        found = conformal.tempered(found, self.trust, self.units)
        lower, upper = conformal.inner_interval(found, self.bound)
        further = conformal.beyond_level(self.bound)
        if further.any():
            first, last = found.interval(conformal.LEVEL)
            spread = ops.where(last > first, last - first, 1.0)
            spread = spread * ops.cast(further, spread.dtype)
            lower, upper = lower - spread, upper + spread
        return {"prediction": found.prediction, "lower": lower, "upper": upper}


@serializable
class ConformalSet(keras.Layer):
    """Calibrated sets of one coverage; see `class_scores`.

    The bound of the calibration is `(1, ...)`, or `(classes,)`. Input:
    probabilities `(batch, ..., classes)`, or those of yes.
    """

    def __init__(
        self,
        bound,
        score,
        penalty,
        free_classes,
        allow_empty,
        by_class,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.bound, self.score, self.penalty = bound, score, penalty
        self.free_classes, self.allow_empty = free_classes, allow_empty
        self.by_class = by_class

    def call(self, inputs):
        p = inputs
        if len(p.shape) == 1:
            p = ops.expand_dims(p, axis=-1)
        if p.shape[-1] == 1:
            p = ops.concatenate([1 - p, p], axis=-1)
        order = ops.argsort(-p, axis=-1)
        falling = ops.take_along_axis(p, order, axis=-1)
        if self.score == "lac":
            tiny = float(np.finfo("float32").tiny)
            found = -ops.log(ops.maximum(falling, tiny)) - conformal.ROUNDING
        else:
            rising = ops.cumsum(ops.flip(falling, axis=-1), axis=-1)
            found = -(1 + conformal.ROUNDING) * ops.flip(rising, axis=-1)
        sets = ops.cast(found <= self._limits(order), p.dtype)
        rank = ops.argsort(order, axis=-1)
        sets = ops.take_along_axis(sets, rank, axis=-1) > 0.5
        if not self.allow_empty:
            sets = ops.logical_or(sets, rank == 0)
        return {"probabilities": inputs, "set": sets}

    def _limits(self, order):
        """Bounds less penalties, of the classes in falling order."""
        classes = order.shape[-1]
        bound = np.asarray(self.bound)[..., None]
        if self.score == "raps":
            # In float64, as penalties are far larger than some differences.
            beyond = np.arange(1, classes + 1) - self.free_classes
            bound = bound - self.penalty * np.maximum(beyond, 0)
        if not self.by_class:
            return ops.convert_to_tensor(bound.astype("float32"))
        table = np.broadcast_to(bound, (classes, classes)).ravel()
        table = ops.convert_to_tensor(table.astype("float32"))
        place = order * classes + ops.arange(classes, dtype=order.dtype)
        return ops.take(table, place)


@serializable
class ConformalClassifier(keras.Model):
    """A Keras model with calibrated prediction sets.

    `kl.recalibration.Conformal` makes it. Its outputs are probabilities. It is
    saved and loaded like any Keras model.

    ```python
    model = keras.saving.load_model("conformal.keras")
    sets = model.predict_set(x, 0.9)  # booleans (n, classes)
    ```
    """

    def predict_set(
        self, x, coverage: float = 0.9, *, groups=None, seed=None, **kwargs
    ) -> np.ndarray:
        """Sets that contain the true class with the given probability.

        They are booleans `(n, ..., classes)`, two for a yes/no question.

        Args:
            x: inputs `(n, ...)`, as for `predict`.
            coverage: in (0, 1). Defaults to 0.9.
            groups: label of every example, `(n,)`, if the model was
                calibrated by groups of examples.
            seed: the random seed of randomised sets. Defaults to a new one.
            **kwargs: passed on to `predict`.
        """
        layer = scores_layer(self)
        probabilities = self.predict(x, **{"verbose": 0, **kwargs})
        return conformal.prediction_sets(
            probabilities, layer.scores, layer.settings, coverage, groups, seed
        )

    def at_coverage(self, coverage: float = 0.9) -> keras.Model:
        """A Keras model with the outputs `probabilities` and `set`.

        Sets are booleans `(n, ..., classes)`. The calibration is part of the
        graph, so that `export` keeps it.
        """
        layer = scores_layer(self)
        settings, groups, count = dict(layer.settings), None, 1
        if settings.pop("randomized"):
            raise ValueError(
                "`at_coverage` needs sets that are not randomised. "
                "Received: a calibration with randomized=True"
            )
        if settings["by_class"]:
            count = max(self.outputs[0].shape[-1], 2)
            groups = np.arange(count)
        bound = layer.scores.threshold(coverage, groups, count)
        sets = ConformalSet(bound.tolist(), **settings)
        return keras.Model(self.input, sets(self.output))


@serializable
class ConformalRegressor(keras.Model):
    """A Keras model with calibrated intervals.

    `kl.recalibration.regression.Conformal` makes it. Its outputs are those of
    the model that was calibrated: the prediction and the parameters of its
    likelihood. It is saved and loaded like any Keras model.

    ```python
    model = keras.saving.load_model("conformal.keras")
    lower, upper = model.interval(x, 0.9)
    ```
    """

    def interval(self, x, coverage: float = 0.9, *, groups=None, **kwargs):
        """Intervals that contain new targets with the given probability.

        Their ends `(lower, upper)` are NumPy, of the prediction's shape.

        Args:
            x: inputs `(n, ...)`, as for `predict`.
            coverage: in (0, 1). Defaults to 0.9.
            groups: label of every example, `(n,)`, if the model was
                calibrated by groups.
            **kwargs: passed on to `predict`.
        """
        calibrated = self.predict_distribution(x, groups=groups, **kwargs)
        return calibrated.interval(coverage)

    def predict_distribution(
        self, x, *, groups=None, **kwargs
    ) -> conformal.ConformalDistribution:
        """The distribution of the targets of `x`, as in `interval`."""
        layer = scores_layer(self)
        output = self.predict(x, **{"verbose": 0, **kwargs})
        settings = layer.settings
        found = distribution_of(likelihoods.get(settings["likelihood"]), output)
        found = conformal.tempered(found, settings["trust"], settings["units"])
        return conformal.ConformalDistribution(
            found.as_numpy(), layer.scores, groups
        )

    def at_coverage(self, coverage: float = 0.9) -> keras.Model:
        """A Keras model with the outputs `prediction`, `lower` and `upper`.

        The calibration is part of its graph, so that `export` keeps it:
        `model.at_coverage(0.9).export("served")`.
        """
        layer = scores_layer(self)
        bound = layer.scores.threshold(coverage)
        interval = ConformalInterval(bound.tolist(), **layer.settings)
        return keras.Model(self.input, interval(self.output))


@serializable
class RecalibratedRegressor(keras.Model):
    """A Keras model whose outputs are the parameters of a distribution.

    The recalibrators of `kl.recalibration.regression` make it. It is saved and
    loaded like any Keras model.

    ```python
    model = keras.saving.load_model("calibrated.keras")
    lower, upper = model.interval(x, 0.9)
    ```
    """

    def predict_distribution(self, x, **kwargs) -> likelihoods.Likelihood:
        """The distribution of the targets of `x`, given as for `predict`."""
        output = self.predict(x, **{"verbose": 0, **kwargs})
        found = [v for v in self.layers if isinstance(v, LikelihoodPrediction)]
        likelihood = likelihoods.get(found[-1].likelihood)
        return distribution_of(likelihood, output).as_numpy()

    def interval(self, x, coverage: float = 0.9, **kwargs):
        """Ends `(lower, upper)` of central intervals, each NumPy `(n, 1)`.

        Args:
            x: inputs `(n, ...)`, as for `predict`.
            coverage: in (0, 1). Defaults to 0.9.
            **kwargs: passed on to `predict`.
        """
        return self.predict_distribution(x, **kwargs).interval(coverage)
