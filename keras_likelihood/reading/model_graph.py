"""The symbolic prediction, parameters and features of a trained model."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np

from keras_likelihood.backend.training_rows import numpy_batches
from keras_likelihood.backend.types import Tensor
from keras_likelihood.likelihoods.output import split_output
from keras_likelihood.losses.likelihood_loss import LikelihoodLoss
from keras_likelihood.reading import endings
from keras_likelihood.reading.loading import copy_model, load_model
from keras_likelihood.reading.reading import likelihood_beside, too_many_outputs


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
        """The copy, with the output that `build` makes from `tensors`.

        The layers of the copy are not trainable.
        """
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
