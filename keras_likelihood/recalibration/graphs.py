"""Outputs of trained models, and the layers that recalibrate them."""

import functools
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.types import Tensor
from keras_likelihood.likelihoods import LocationScale, Normal
from keras_likelihood.reading import ModelGraph
from keras_likelihood.recalibration.inputs import LOGIT_BOUND


class _Graph:
    """The tensors of a trained model that a recalibrator needs."""

    _output: Callable[[Any], Any]

    def __init__(self, model: Any, x: Any, options: dict[str, Any]) -> None:
        self._source = ModelGraph(model, x, **options)
        self._tensors: dict[str, Tensor] = {}
        self.features: Tensor | None = None

    def _find_features(self, wanted: bool | str, instead: Any = None) -> None:
        if wanted:
            tensor = self._source.features(optional=wanted == "optional")
            self.features = instead if tensor is None else tensor
        if self.features is not None:
            self._tensors["features"] = self.features

    def columns(self, name: str) -> int | None:
        """Size of the last axis of the logits or the features."""
        tensor = self._tensors.get(name)
        return None if tensor is None else tensor.shape[-1]

    def extend(self, recalibrator: Any) -> keras.Model:
        """Returns the model that ends in the layers of a recalibrator."""
        build = functools.partial(self._output, recalibrator)
        model_class = recalibrator.model_class
        return self._source.extend(self._tensors, build, model_class)


class ClassifierGraph(_Graph):
    """Finds the logits and the features of a trained classifier.

    `with_features` is True, False or `"optional"`, which uses features if
    there are any. Other arguments are those of `ClassifierRecalibrator.fit`.
    """

    def __init__(
        self,
        model: Any,
        x: Any = None,
        *,
        from_logits: bool | None = None,
        multi_label: bool | None = None,
        with_features: bool | str = False,
        **options: Any,
    ) -> None:
        super().__init__(model, x, options)
        self._tensors["logits"], self.multi_label = self._source.logits(
            from_logits, multi_label, LOGIT_BOUND
        )
        self._find_features(with_features)

    def outputs(self, *data: Any) -> tuple[Any, ...]:
        """Returns `(logits, features or None, y, sample_weight or None)`."""
        arrays, y, weight = self._source.run(self._tensors, *data)
        return arrays["logits"], arrays.get("features"), y, weight

    def _output(self, recalibrator: Any) -> Tensor:
        z = self._tensors["logits"]
        questions = recalibrator.questions_
        if questions is None:
            z = _calibrated_logits(recalibrator, z, self.features)
        else:
            columns = ops.split(z, z.shape[-1], axis=-1)
            pairs = zip(questions, columns, strict=True)
            parts = [_calibrated_logits(*p, self.features) for p in pairs]
            z = ops.concatenate(parts, axis=-1)
        is_sigmoid = self.multi_label or z.shape[-1] == 1
        activation = "sigmoid" if is_sigmoid else "softmax"
        output = keras.layers.Activation(activation, name="calibrated")(z)
        if len(self._source.prediction.shape) == 1:
            output = keras.layers.Reshape((), name="plain_vector")(output)
        return recalibrator._finish(output)


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


class RegressorGraph(_Graph):
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
        *,
        with_features: bool | str = False,
        **options: Any,
    ) -> None:
        super().__init__(model, x, options)
        self.prediction = self._source.prediction
        self.likelihood = self._source.likelihood or Normal
        values = dict(self._source.parameters)
        self.has_scale = "scale" in values
        if issubclass(self.likelihood, LocationScale):
            values.setdefault("scale", 1.0)
        names = [p.name for p in self.likelihood.parameters]
        missing = sorted(set(names) - set(values))
        if missing:
            raise ValueError(
                f"A {self.likelihood.__name__} model needs a value of "
                f"{missing} for new examples. Values learned for each training "
                f"example cannot be used. Received: {sorted(values)}"
            )
        self.values = {name: values[name] for name in names}
        self._tensors = {
            name: value
            for name, value in self.values.items()
            if isinstance(value, keras.KerasTensor)
        }
        self._tensors["prediction"] = self.prediction
        self._find_features(with_features, instead=self.prediction)

    def outputs(self, *data: Any) -> tuple[Any, ...]:
        """Returns `(distribution, features or None, y, weight or None)`."""
        arrays, y, weight = self._source.run(self._tensors, *data)
        features = arrays.pop("features", None)
        # The outputs of a model in mixed precision may be float16.
        arrays = {k: np.asarray(v, "float32") for k, v in arrays.items()}
        for name in self.values.keys() - arrays.keys():
            value = np.asarray(self.values[name], "float32")
            arrays[name] = value[None] if value.ndim else float(value)
        return self.likelihood(**arrays), features, y, weight

    def _output(self, recalibrator: Any) -> list[Tensor]:
        return recalibrator._graph(self)


def as_tensor(like: Tensor, value: Any, name: str) -> Tensor:
    """A symbolic tensor; a number is repeated for every example."""
    if isinstance(value, keras.KerasTensor):
        return value
    values = np.squeeze(np.asarray(value, "float64"))
    # A vector does not have the length of the prediction.
    like = like[..., :1] if values.ndim else like
    return keras.layers.Rescaling(0.0, values.tolist(), name=name)(like)
