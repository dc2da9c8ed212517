"""A trained regressor as a frozen source of predictions and features."""

import keras
import numpy as np

from keras_likelihood.recalibration.frozen_model import load, numpy_batches


class FrozenRegressor:
    """Finds the prediction, the scale and the features of a regressor.

    Args:
        model: a `keras.Model` or the path of a `.keras` file.
        feature_layer: name of the layer of the features, or `None` for the
            input of the layer of the prediction.
        with_features: whether features are wanted.
    """

    def __init__(self, model, feature_layer=None, with_features=False):
        self.model = load(model)
        outputs = getattr(self.model, "outputs", None)
        if not outputs or len(outputs) > 2 or outputs[0].shape[-1] != 1:
            received = outputs and [tuple(o.shape) for o in outputs]
            raise ValueError(
                "`model` must be a graph whose output is a prediction "
                "(batch, 1), alone or with its scale. "
                f"Received: outputs {received}"
            )
        self.prediction = outputs[0]
        self.scale = outputs[1] if len(outputs) == 2 else None
        self.features = None
        if with_features:
            self.features = self._features(feature_layer)
        single = len(self.model.inputs) == 1
        self.inputs = self.model.inputs[0] if single else self.model.inputs

    def _features(self, name):
        if name is not None:
            return self.model.get_layer(name).output
        for layer in reversed(self.model.layers):
            try:
                made = layer.output
            except (AttributeError, ValueError):
                continue
            made = made if isinstance(made, list | tuple) else [made]
            if any(m is self.prediction for m in made):
                return layer.input
        raise ValueError(
            "The layer of the features was not found; name it by "
            f"`features=`. Received: {[x.name for x in self.model.layers]}"
        )

    def outputs(self, x, y=None, batch_size=32):
        """Computes prediction, scale and features once.

        Returns:
            `(prediction, scale or None, features or None, y)` as NumPy.
        """
        wanted = {"prediction": self.prediction}
        if self.scale is not None:
            wanted["scale"] = self.scale
        if self.features is not None:
            wanted["features"] = self.features
        extractor = keras.Model(self.inputs, wanted)
        if y is None:
            found, targets = [], []
            for batch in numpy_batches(x):
                found.append(extractor.predict_on_batch(batch[0]))
                targets.append(batch[1])
            y = np.concatenate(targets)
        else:
            found = [extractor.predict(x, batch_size=batch_size, verbose=0)]
        merged = {k: np.concatenate([f[k] for f in found]) for k in wanted}
        return (
            merged["prediction"],
            merged.get("scale"),
            merged.get("features"),
            np.asarray(y),
        )

    def extend(self, graph) -> keras.Model:
        """Returns the model with the graph's parameters as its output."""
        outputs = graph(self.prediction, self.scale, self.features)
        name = f"{self.model.name}_calibrated"
        return keras.Model(self.inputs, outputs, name=name)
