"""Graphs of trained models, to which calibrated layers are added."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.training_rows import numpy_batches
from keras_likelihood.backend.types import Tensor
from keras_likelihood.likelihoods import (
    Bernoulli,
    LocationScale,
    Normal,
    Softmax,
)
from keras_likelihood.likelihoods.checks import check_argument
from keras_likelihood.likelihoods.output import split_output
from keras_likelihood.losses.likelihood_loss import LikelihoodLoss
from keras_likelihood.reading import endings
from keras_likelihood.reading.loading import copy_model, load_model
from keras_likelihood.reading.reading import (
    is_binary,
    likelihood_beside,
    returns_logits,
    too_many_outputs,
)
from keras_likelihood.reading.targets import LOGIT_BOUND
from keras_likelihood.serving import ClassLogits

_LEAST = float(np.exp(-LOGIT_BOUND))
"""Smallest probability of a class."""


class ModelGraph:
    """A copy of a trained model, to which new layers can be added.

    If the model is not a graph, its shapes are taken from `x`: inputs, or
    batches `(x, y)` if `batched`. `features` is the name of the feature layer,
    by default the one before the prediction. The `parameters` of the likelihood
    are symbolic tensors if the model predicts them, and numbers if they belong
    to the loss. `tensors` are those that `run` evaluates, by name. Another
    graph as `model` is not copied again.
    """

    def __init__(
        self,
        model: Any,
        x: Any = None,
        *,
        batched: bool = False,
        features: str | None = None,
    ) -> None:
        if isinstance(model, ModelGraph):
            self.__dict__.update(vars(model))
            return
        model = load_model(model)
        self.loss = getattr(model, "loss", None)
        if batched:
            fits = not hasattr(x, "shape")
            check_argument("y", None, fits, "given if `x` is an array")
            # An iterator would lose the batch that is read here.
            x = None if isinstance(x, Iterator) else next(numpy_batches(x))[0]
        copy, self._is_copy = copy_model(model, x)
        self.graph = endings.open_models(copy, features)
        self._feature_layer = features
        output = self.graph.output
        if isinstance(output, dict) and len(output) == 1:
            ((key, output),) = output.items()
            if isinstance(self.loss, dict):
                self.loss = self.loss.get(key)
        if isinstance(output, dict):
            raise too_many_outputs(len(output))
        self.prediction, beside = split_output(output)
        self.likelihood, self.parameters = _parameters(
            self.loss, self.graph, beside
        )
        self.tensors = {"prediction": self.prediction}
        self.tensors |= predicted_of(self.parameters)
        self._example: Any = None

    def features(self, wanted: bool | str = True) -> dict[str, Tensor]:
        """A dict of the features; may be empty if `wanted` is `"optional"`."""
        if not wanted:
            return {}
        names = [layer.name for layer in self.graph.layers]
        if self._feature_layer and self._feature_layer in names:
            tensor = endings.layer_output(self.graph, self._feature_layer)
            return {"features": tensor}
        if self._feature_layer is None:
            strip = endings.kind_of(self.prediction) in endings.PROBABILITIES
            _, tensor = endings.open_ending(self.prediction, strip)
            if tensor is not None:
                return {"features": tensor}
            if wanted == "optional":
                return {}
        raise ValueError(
            "The feature layer was not found. `features` must be one of the "
            f"layers {names}. Received: {self._feature_layer!r}"
        )

    def run(
        self, x: Any, y: Any = None, weight: Any = None, batch_size: int = 32
    ) -> tuple[dict[str, Any], Any, Any]:
        """Evaluates `tensors`; also returns `y` and `sample_weight`.

        Without `y`, `x` yields batches `(x, y)` or `(x, y, sample_weight)`.
        """
        extractor = keras.Model(self.graph.input, self.tensors)
        if y is not None:
            self._example = keras.tree.map_structure(lambda a: a[:1], x)
            arrays = extractor.predict(x, batch_size=batch_size, verbose=0)
            return arrays, np.asarray(y), weight
        columns = []
        for batch, *others in numpy_batches(x):
            self._example = keras.tree.map_structure(lambda a: a[:1], batch)
            labels = dict(zip(("y", "weight"), others, strict=False))
            columns.append({**extractor.predict_on_batch(batch), **labels})
        merged = {
            name: np.concatenate([np.asarray(c[name]) for c in columns])
            for name in columns[0]
        }
        return merged, merged.pop("y"), merged.pop("weight", weight)

    def extend(
        self, build: Callable[[], Any], model_class: Any = keras.Model
    ) -> keras.Model:
        """The frozen copy, with the output that `build` makes."""
        if self._is_copy:
            below = keras.Model(self.graph.input, [*self.tensors.values()])
            below.trainable = False
        with full_precision():
            output = build()
        if self._is_copy:
            endings.rename_duplicates(self.graph, keras.tree.flatten(output))
        name = f"{self.graph.name}_calibrated"
        model = model_class(self.graph.input, output, name=name)
        if self._example is not None:
            # Some exports need a model that has been called.
            to_tensor = keras.ops.convert_to_tensor
            model(keras.tree.map_structure(to_tensor, self._example))
        return model


@contextlib.contextmanager
def full_precision() -> Iterator[None]:
    """Makes new layers compute in float32, whatever the global policy is."""
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("float32")
    try:
        yield
    finally:
        keras.config.set_dtype_policy(policy)


def predicted_of(parameters: dict[str, Any]) -> dict[str, Tensor]:
    """The parameters that a model predicts."""
    return {
        name: value
        for name, value in parameters.items()
        if isinstance(value, keras.KerasTensor)
    }


def _parameters(
    loss: Any, graph: keras.Model, beside: list[Tensor]
) -> tuple[Any, dict[str, Any]]:
    """The likelihood, and its parameters by name."""
    if isinstance(loss, LikelihoodLoss):
        names = loss.predicted(len(beside))
        predicted = dict(zip(names, beside, strict=True))
        return loss.likelihood, {**loss.parameter_values(), **predicted}
    likelihood, _ = likelihood_beside(graph, beside)
    if likelihood is not None:
        names = [p.name for p in likelihood.parameters]
        return likelihood, dict(zip(names, beside, strict=True))
    if len(beside) > 1:
        raise too_many_outputs(1 + len(beside))
    return None, {"scale": beside[0]} if beside else {}


class ClassifierGraph(ModelGraph):
    """The tempered logits and the features of a trained classifier.

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
        with full_precision():
            self._name_classes()
            self._refuse_regressor()
            is_vector = self.prediction.shape[1:][-1:] in ((), (1,))
            kind = None
            if self.likelihood is None:
                kind = endings.kind_of(self.prediction)
            if multi_label is None:
                several = issubclass(self.likelihood or Softmax, Bernoulli)
                several |= is_binary(kind, self.loss)
                multi_label = several and not is_vector
            self.multi_label = multi_label
            is_sigmoid = multi_label or is_vector
            z = self._logits(kind, from_logits, is_sigmoid)
            self.tensors = {"logits": self._tempered(z)}
        self.tensors |= self.features(with_features)
        self._activation = "sigmoid" if is_sigmoid else "softmax"

    def outputs(self, *data: Any) -> tuple[Any, ...]:
        """Returns `(logits, features or None, y, sample_weight or None)`."""
        arrays, y, weight = self.run(*data)
        return arrays["logits"], arrays.get("features"), y, weight

    def calibrated_model(
        self,
        maps: Sequence[Any],
        finish: Callable[[Tensor], Tensor] | None = None,
        model_class: Any = keras.Model,
    ) -> keras.Model:
        """The model whose logits pass a map, or each column its own.

        A map makes logits of the symbolic logits and features. `finish` adds
        layers after the probabilities.
        """

        def build() -> Tensor:
            # In mixed precision this casts the logits to float32.
            z = keras.layers.Identity()(self.tensors["logits"])
            x = self.tensors.get("features")
            columns = ops.split(z, len(maps), -1) if len(maps) > 1 else [z]
            pairs = zip(maps, columns, strict=True)
            parts = [_calibrated_logits(*pair, x) for pair in pairs]
            z = ops.concatenate(parts, -1) if len(parts) > 1 else parts[0]
            activate = keras.layers.Activation
            output = activate(self._activation, name="calibrated")(z)
            if len(self.prediction.shape) == 1:
                output = keras.layers.Reshape((), name="plain_vector")(output)
            return finish(output) if finish else output

        return self.extend(build, model_class)

    def _name_classes(self) -> None:
        """Turns outputs other than logits or probabilities into logits."""
        kind: Any = self.likelihood or Softmax
        member = getattr(kind, "likelihood", None)
        is_pooled = member in (Softmax, Bernoulli)
        is_ordered = hasattr(kind, "class_probabilities")
        is_ordered &= not issubclass(kind, Softmax | Bernoulli)
        is_ordered &= self.prediction.shape[-1] == 1
        if is_pooled or is_ordered:
            predicted = predicted_of(self.parameters)
            fixed = {
                name: np.asarray(value, "float64").tolist()
                for name, value in self.parameters.items()
                if name not in predicted
            }
            to_logits = ClassLogits(kind.name(), fixed)
            self.prediction = to_logits([self.prediction, *predicted.values()])
            self.likelihood = member if is_pooled else Softmax
            self.parameters = {}

    def _refuse_regressor(self) -> None:
        kind, advice = self.likelihood or Softmax, ""
        is_classifier = issubclass(kind, Softmax | Bernoulli)
        if is_classifier and "scale" not in self.parameters:
            return
        if issubclass(kind, LocationScale) or kind is Softmax:
            path = "keras_likelihood.recalibration.regression"
            advice = f"For regressors use `{path}`. "
        raise ValueError(
            f"`model` must be a classifier with one output. {advice}"
            f"Received: a prediction with {sorted(self.parameters)}"
            + (f" of {kind.name()}" if self.likelihood else "")
        )

    def _logits(
        self, kind: str | None, from_logits: bool | None, is_sigmoid: bool
    ) -> Tensor:
        """Logits `(batch, ..., units)`, before a temperature."""
        if from_logits is None:
            layer = type(endings.deciding_layer(self.prediction)[0]).__name__
            from_logits = bool(self.likelihood) or (
                returns_logits(kind, self.loss, layer)
            )
        strip = not from_logits and kind in endings.PROBABILITIES
        logits, _ = endings.open_ending(self.prediction, strip)
        if not from_logits and (not strip or logits is None):
            p = keras.layers.Identity()(self.prediction)
            if is_sigmoid:
                p = ops.clip(p, 1e-7, 1 - 1e-7)
                logits = ops.log(p) - ops.log1p(-p)
            else:
                logits = ops.log(ops.maximum(p, _LEAST))
        if len(logits.shape) == 1:
            logits = keras.layers.Reshape((1,))(logits)
        return logits

    def _tempered(self, logits: Tensor) -> Tensor:
        temperature = self.parameters.get("temperature", 1.0)
        if isinstance(temperature, keras.KerasTensor):
            logits = keras.layers.Identity()(logits)
            return logits / keras.layers.Identity()(temperature)
        if np.all(temperature == 1.0):
            return logits
        inverse = np.squeeze(1 / np.asarray(temperature, "float64"))
        return keras.layers.Rescaling(inverse.tolist())(logits)


def _calibrated_logits(
    to_logits: Any, logits: Tensor, features: Tensor | None
) -> Tensor:
    """Logits of the calibrated probabilities, by stock operations of Keras."""
    if logits.shape[-1] > 1:
        peak = ops.max(logits, axis=-1, keepdims=True)
        bounded = ops.maximum(logits, peak - LOGIT_BOUND)
        return to_logits(bounded, features)
    half = 0.5 * ops.clip(logits, -LOGIT_BOUND, LOGIT_BOUND)
    pair = ops.concatenate([-half, half], axis=-1)
    pair = to_logits(pair, features)
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
        if with_features:
            self.tensors["features"] = self.prediction
            self.tensors |= self.features(with_features)

    def outputs(self, *data: Any) -> tuple[Any, ...]:
        """Returns `(distribution, features or None, y, weight or None)`."""
        arrays, y, weight = self.run(*data)
        features = arrays.pop("features", None)
        # The outputs of a model in mixed precision may be float16.
        arrays = {k: np.asarray(v, "float32") for k, v in arrays.items()}
        for name in self.values.keys() - arrays.keys():
            value = np.asarray(self.values[name], "float32")
            arrays[name] = value[None] if value.ndim else float(value)
        return self.likelihood(**arrays), features, y, weight


def as_tensor(like: Tensor, value: Any, name: str) -> Tensor:
    """A symbolic tensor; a number is repeated for every example."""
    if isinstance(value, keras.KerasTensor):
        return value
    values = np.squeeze(np.asarray(value, "float64"))
    # A vector does not have the length of the prediction.
    like = like[..., :1] if values.ndim else like
    return keras.layers.Rescaling(0.0, values.tolist(), name=name)(like)
