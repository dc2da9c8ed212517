"""Finds the distribution that a trained regressor predicts."""

import functools

import keras
import numpy as np

from keras_likelihood.likelihoods import LocationScale, Normal
from keras_likelihood.reading import ModelGraph


class RegressorGraph:
    """The likelihood of a trained regressor, normal if it is unknown.

    `values` are its parameters by name, in its order: symbolic tensors, or
    numbers where the loss holds them. A scale that is not known for new
    examples is 1 (`has_scale`). With `with_features="optional"` the prediction
    takes the place of features that cannot be found. Other arguments are those
    of `ModelGraph`.
    """

    def __init__(self, model, x=None, *, with_features=False, **options):
        self._source = ModelGraph(model, x, **options)
        self.prediction = self._source.prediction
        self.likelihood = self._source.likelihood or Normal
        given = dict(self._source.parameters)
        self.has_scale = "scale" in given
        if issubclass(self.likelihood, LocationScale):
            given.setdefault("scale", 1.0)
        names = [p.name for p in self.likelihood.parameters]
        missing = sorted(set(names) - set(given))
        if missing:
            raise ValueError(
                f"A {self.likelihood.__name__} model needs a value of "
                f"{missing} for new examples. Values learned for each training "
                f"example cannot be used. Received: {sorted(given)}"
            )
        self.values = {name: given[name] for name in names}
        self.features = None
        self._tensors = {
            name: value
            for name, value in self.values.items()
            if isinstance(value, keras.KerasTensor)
        }
        self._tensors["prediction"] = self.prediction
        if with_features:
            optional = with_features == "optional"
            found = self._source.features(optional=optional)
            self.features = self.prediction if found is None else found
            self._tensors["features"] = self.features

    def outputs(self, x, y=None, weight=None, batch_size=32):
        """Returns `(distribution, features or None, y, weight or None)`."""
        found, y, weight = self._source.run(
            self._tensors, x, y, weight, batch_size
        )
        features = found.pop("features", None)
        # The outputs of a model in mixed precision may be narrow.
        found = {k: np.asarray(v).astype("float32") for k, v in found.items()}
        for name in self.values.keys() - found.keys():
            value = np.asarray(self.values[name], "float32")
            found[name] = value[None] if value.ndim else float(value)
        return self.likelihood(**found), features, y, weight

    def extend(self, recalibrator, **options) -> keras.Model:
        """Returns the model that ends in the layers of a recalibrator."""
        build = functools.partial(recalibrator._graph, self)
        return self._source.extend(self._tensors, build, **options)


def as_tensor(like, value, name: str):
    """A symbolic tensor; a number becomes the same for every example."""
    if isinstance(value, keras.KerasTensor):
        return value
    values = np.squeeze(np.asarray(value, "float64"))
    # A vector does not have the length of the prediction.
    like = like[..., :1] if values.ndim else like
    return keras.layers.Rescaling(0.0, values.tolist(), name=name)(like)
