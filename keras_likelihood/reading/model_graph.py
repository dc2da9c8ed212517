"""The symbolic prediction, parameters and features of a trained model."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_likelihood import serving
from keras_likelihood.backend.training_rows import numpy_batches
from keras_likelihood.backend.types import Tensor
from keras_likelihood.ensembles.ensemble_distribution import (
    EnsembleDistribution,
)
from keras_likelihood.likelihoods import Bernoulli, LocationScale, Softmax
from keras_likelihood.likelihoods.output import split_output
from keras_likelihood.losses.likelihood_loss import LikelihoodLoss
from keras_likelihood.reading import endings, stock_models
from keras_likelihood.reading.loading import copy_model, load_model
from keras_likelihood.reading.reading import likelihood_beside, too_many_outputs

_LEAST = float(np.exp(-60))
"""Smallest probability of a class, twice `recalibration.inputs.LOGIT_BOUND`."""


class ModelGraph:
    """A copy of a trained model, to which new layers can be added.

    If the model is not a graph, its shapes are taken from `x`: inputs, or
    batches `(x, y)` if `batched`. `features` is the name of the feature layer,
    by default the one before the prediction. The `parameters` of the likelihood
    are symbolic tensors if the model predicts them, and numbers if they belong
    to the loss.
    """

    def __init__(
        self,
        model: Any,
        x: Any = None,
        *,
        batched: bool = False,
        features: str | None = None,
    ) -> None:
        model = load_model(model)
        self.loss = getattr(model, "loss", None)
        if batched:
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
        self._example: Any = None
        kind = self.likelihood
        if kind and issubclass(kind, EnsembleDistribution):
            if kind.likelihood in (Softmax, Bernoulli):
                # An ensemble of classifiers is a classifier.
                with full_precision():
                    self.prediction = _pooled_logits(kind, self.parameters)
                self.likelihood, self.parameters = kind.likelihood, {}

    def logits(
        self, from_logits: bool | None = None, multi_label: bool | None = None
    ) -> tuple[Tensor, bool]:
        """Tempered logits `(batch, ..., units)`, and whether multi-label."""
        self._name_classes()
        self._refuse_regressor()
        kind = None if self.likelihood else endings.kind_of(self.prediction)
        if from_logits is None:
            layer = type(endings.deciding_layer(self.prediction)[0]).__name__
            from_logits = bool(self.likelihood) or (
                stock_models.returns_logits(kind, self.loss, layer)
            )
        many = self.prediction.shape[1:][-1:] not in ((), (1,))
        if multi_label is None:
            several = issubclass(self.likelihood or Softmax, Bernoulli)
            several = several or stock_models.is_binary(kind, self.loss)
            multi_label = many and several
        with full_precision():
            strip = not from_logits and kind in endings.PROBABILITIES
            logits, _ = endings.open_ending(self.prediction, strip)
            if not from_logits and (not strip or logits is None):
                p = keras.layers.Identity()(self.prediction)
                if multi_label or not many:
                    p = ops.clip(p, 1e-7, 1 - 1e-7)
                    logits = ops.log(p) - ops.log1p(-p)
                else:
                    logits = ops.log(ops.maximum(p, _LEAST))
            if len(logits.shape) == 1:
                logits = keras.layers.Reshape((1,))(logits)
            return self._tempered(logits), multi_label

    def _name_classes(self) -> None:
        """Turns the output of an ordinal model into logits of its classes."""
        kind = self.likelihood or Softmax
        is_ordered = hasattr(kind, "class_probabilities")
        is_ordered &= not issubclass(kind, Softmax | Bernoulli)
        if is_ordered and self.prediction.shape[-1] == 1:
            values, symbolic = self.parameters, keras.KerasTensor
            fixed = {
                name: np.asarray(value, "float64").tolist()
                for name, value in values.items()
                if not isinstance(value, symbolic)
            }
            predicted = [v for k, v in values.items() if k not in fixed]
            with full_precision():
                to_logits = serving.ClassLogits(kind.name(), fixed)
                self.prediction = to_logits([self.prediction, *predicted])
            self.likelihood, self.parameters = Softmax, {}

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

    def _tempered(self, logits: Tensor) -> Tensor:
        temperature = self.parameters.get("temperature", 1.0)
        if isinstance(temperature, keras.KerasTensor):
            logits = keras.layers.Identity()(logits)
            return logits / keras.layers.Identity()(temperature)
        if np.all(temperature == 1.0):
            return logits
        inverse = np.squeeze(1 / np.asarray(temperature, "float64"))
        return keras.layers.Rescaling(inverse.tolist())(logits)

    def features(self, *, optional: bool = False) -> Tensor:
        """The tensor of the features; may be `None` if `optional`."""
        names = [layer.name for layer in self.graph.layers]
        if self._feature_layer and self._feature_layer in names:
            return endings.layer_output(self.graph, self._feature_layer)
        if self._feature_layer is None:
            strip = endings.kind_of(self.prediction) in endings.PROBABILITIES
            _, tensor = endings.open_ending(self.prediction, strip)
            if tensor is not None or optional:
                return tensor
        raise ValueError(
            "The feature layer was not found. `features` must be one of the "
            f"layers {names}. Received: {self._feature_layer!r}"
        )

    def run(
        self,
        tensors: dict[str, Tensor],
        x: Any,
        y: Any = None,
        weight: Any = None,
        batch_size: int = 32,
    ) -> tuple[dict[str, Any], Any, Any]:
        """Evaluates symbolic tensors; also returns `y` and `sample_weight`.

        Without `y`, `x` yields batches `(x, y)` or `(x, y, sample_weight)`.
        """
        extractor = keras.Model(self.graph.input, tensors)
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
        self,
        base: Any,
        build: Callable[[], Any],
        model_class: Any = keras.Model,
    ) -> keras.Model:
        """The copy, with the output that `build` makes from `base`.

        The layers of the copy are not trainable.
        """
        if self._is_copy:
            below = keras.Model(self.graph.input, keras.tree.flatten(base))
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


def _pooled_logits(kind: Any, parameters: dict[str, Any]) -> Tensor:
    """Logits of the mean probabilities of an ensemble's members."""

    def by_member(value: Tensor) -> Tensor:
        shape = (*value.shape[1:-1], kind.components, -1)
        return keras.layers.Reshape(shape)(value)

    z, temperature = by_member(parameters["member"]), parameters["temperature"]
    is_predicted = isinstance(temperature, keras.KerasTensor)
    z = z / (by_member(temperature) if is_predicted else temperature)
    if kind.likelihood is Softmax:
        return ops.log(ops.mean(ops.softmax(z), axis=-2) + 1e-37)
    yes, no = (ops.mean(ops.sigmoid(v), axis=-2) for v in (z, -z))
    return ops.log(yes + 1e-37) - ops.log(no + 1e-37)


def _parameters(
    loss: Any, graph: keras.Model, beside: list[Tensor]
) -> tuple[Any, dict[str, Any]]:
    """The likelihood, and its parameters by name."""
    if isinstance(loss, LikelihoodLoss):
        sources = loss.sources(len(beside))
        names = [name for name in sources if sources[name] == "predicted"]
        predicted = dict(zip(names, beside, strict=True))
        return loss.likelihood, {**loss.parameter_values(), **predicted}
    likelihood, _ = likelihood_beside(graph, beside)
    if likelihood is not None:
        names = [p.name for p in likelihood.parameters]
        return likelihood, dict(zip(names, beside, strict=True))
    if len(beside) > 1:
        raise too_many_outputs(1 + len(beside))
    return None, {"scale": beside[0]} if beside else {}
