"""Outputs of trained models, and the layers that recalibrate them."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.types import Tensor
from keras_likelihood.likelihoods import LocationScale, Normal
from keras_likelihood.reading import ModelGraph
from keras_likelihood.recalibration.inputs import LOGIT_BOUND


class ClassifierGraph(ModelGraph):
    """Finds the logits and the features of a trained classifier.

    Both are in `tensors`. `with_features` is True, False or `"optional"`, which
    uses features if there are any. Other arguments are those of
    `ClassifierRecalibrator.fit` and of `ModelGraph`.
    """

    def __init__(
        self,
        model: Any,
        x: Any = None,
        with_features: bool | str = False,
        *,
        from_logits: bool | None = None,
        multi_label: bool | None = None,
        **options: Any,
    ) -> None:
        super().__init__(model, x, **options)
        z, self.multi_label = self.logits(from_logits, multi_label)
        self.tensors = {"logits": z, **_features_of(self, with_features)}

    def outputs(self, *data: Any) -> tuple[Any, ...]:
        """Returns `(logits, features or None, y, sample_weight or None)`."""
        arrays, y, weight = self.run(self.tensors, *data)
        return arrays["logits"], arrays.get("features"), y, weight

    def calibrated_model(self, recalibrator: Any) -> keras.Model:
        """Returns the model that ends in the layers of a recalibrator."""

        def build() -> Tensor:
            z, x = self.tensors["logits"], self.tensors.get("features")
            if (questions := recalibrator.questions_) is None:
                z = _calibrated_logits(recalibrator, z, x)
            else:
                columns = ops.split(z, z.shape[-1], axis=-1)
                pairs = zip(questions, columns, strict=True)
                parts = [_calibrated_logits(*pair, x) for pair in pairs]
                z = ops.concatenate(parts, axis=-1)
            is_sigmoid = self.multi_label or z.shape[-1] == 1
            activation = "sigmoid" if is_sigmoid else "softmax"
            output = keras.layers.Activation(activation, name="calibrated")(z)
            if len(self.prediction.shape) == 1:
                output = keras.layers.Reshape((), name="plain_vector")(output)
            return recalibrator._finish(output)

        return self.extend(self.tensors, build, recalibrator.model_class)


def _features_of(graph: ModelGraph, wanted: bool | str) -> dict[str, Tensor]:
    tensor = wanted and graph.features(optional=wanted == "optional")
    return {} if tensor is None or not wanted else {"features": tensor}


def _calibrated_logits(
    recalibrator: Any, logits: Tensor, features: Tensor | None
) -> Tensor:
    """Logits of the calibrated probabilities, by stock operations of Keras."""
    if logits.shape[-1] > 1:
        peak = ops.max(logits, axis=-1, keepdims=True)
        bounded = ops.maximum(logits, peak - LOGIT_BOUND)
        return recalibrator._graph(bounded, features)
    half = 0.5 * ops.clip(logits, -LOGIT_BOUND, LOGIT_BOUND)
    pair = ops.concatenate([-half, half], axis=-1)
    pair = recalibrator._graph(pair, features)
    return pair[..., 1:] - pair[..., :1]


class RegressorGraph(ModelGraph):
    """The likelihood of a trained regressor, normal if it is unknown.

    `values` are its parameters by name, in order: symbolic tensors, or numbers
    if they belong to the loss. If the scale of new examples is not known, it is
    1, and `has_scale` is False. With `with_features="optional"`, the prediction
    is used if no features are found. Other arguments are those of `ModelGraph`.
    """

    def __init__(
        self,
        model: Any,
        x: Any = None,
        with_features: bool | str = False,
        **options: Any,
    ) -> None:
        super().__init__(model, x, **options)
        self.likelihood = self.likelihood or Normal
        values = dict(self.parameters)
        self.has_scale = "scale" in values
        if issubclass(self.likelihood, LocationScale):
            values.setdefault("scale", 1.0)
        names = [p.name for p in self.likelihood.parameters]
        if missing := sorted(set(names) - set(values)):
            raise ValueError(
                f"A {self.likelihood.__name__} model needs a value of "
                f"{missing} for new examples. Values learned for each training "
                f"example cannot be used. Received: {sorted(values)}"
            )
        self.values = {name: values[name] for name in names}
        symbolic = {
            name: value
            for name, value in self.values.items()
            if isinstance(value, keras.KerasTensor)
        }
        self.tensors = {**symbolic, "prediction": self.prediction}
        if with_features:
            self.tensors["features"] = self.prediction
            self.tensors |= _features_of(self, with_features)

    def outputs(self, *data: Any) -> tuple[Any, ...]:
        """Returns `(distribution, features or None, y, weight or None)`."""
        arrays, y, weight = self.run(self.tensors, *data)
        features = arrays.pop("features", None)
        # The outputs of a model in mixed precision may be float16.
        arrays = {k: np.asarray(v, "float32") for k, v in arrays.items()}
        for name in self.values.keys() - arrays.keys():
            value = np.asarray(self.values[name], "float32")
            arrays[name] = value[None] if value.ndim else float(value)
        return self.likelihood(**arrays), features, y, weight

    def calibrated_model(self, recalibrator: Any) -> keras.Model:
        """Returns the model that ends in the layers of a recalibrator."""

        def build() -> list[Tensor]:
            return recalibrator._graph(self)

        return self.extend(self.tensors, build, recalibrator.model_class)


def as_tensor(like: Tensor, value: Any, name: str) -> Tensor:
    """A symbolic tensor; a number is repeated for every example."""
    if isinstance(value, keras.KerasTensor):
        return value
    values = np.squeeze(np.asarray(value, "float64"))
    # A vector does not have the length of the prediction.
    like = like[..., :1] if values.ndim else like
    return keras.layers.Rescaling(0.0, values.tolist(), name=name)(like)
