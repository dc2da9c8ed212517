"""The symbolic prediction, parameters and features of a trained model."""

import contextlib
from collections.abc import Iterator

import keras
import numpy as np
from keras import ops

from keras_likelihood import serving
from keras_likelihood.backend.training_rows import numpy_batches
from keras_likelihood.likelihoods import Bernoulli, LocationScale, Softmax
from keras_likelihood.likelihoods.mixture import EnsembleDistribution
from keras_likelihood.likelihoods.output import split_output
from keras_likelihood.losses.likelihood_loss import LikelihoodLoss
from keras_likelihood.reading import endings, stock_models
from keras_likelihood.reading.loading import copy_model, load_model
from keras_likelihood.reading.reading import likelihood_beside, too_many_outputs


class ModelGraph:
    """A copy of a trained model, to which new layers can be added.

    If the model is not a graph, its shapes are taken from `x`: inputs, or
    batches `(x, y)` if `batched`. `features` is the name of the feature layer,
    by default the one before the prediction. The `parameters` of the likelihood
    are symbolic tensors if the model predicts them, and numbers if they belong
    to the loss.
    """

    def __init__(self, model, x=None, *, batched: bool = False, features=None):
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
        self._example = None
        kind = self.likelihood
        if kind and issubclass(kind, EnsembleDistribution):
            one = kind.likelihood
            if one in (Softmax, Bernoulli):
                # An ensemble of classifiers is a classifier.
                args = one.name(), kind.components
                self._end_in(one, lambda k: serving.PooledLogits(*args, **k))

    def _end_in(self, likelihood, layer_of, *first):
        """Makes this a classifier that ends in a layer of its parameters."""
        tensors, known = list(first), {}
        for name, value in self.parameters.items():
            if isinstance(value, keras.KerasTensor):
                tensors.append(value)
            else:
                known[name] = np.asarray(value, "float64").tolist()
        with full_precision():
            self.prediction = layer_of(known)(tensors)
        self.likelihood, self.parameters = likelihood, {}

    def logits(
        self,
        from_logits: bool | None = None,
        multi_label: bool | None = None,
        bound: float = 30.0,
    ):
        """Tempered logits `(batch, ..., units)`, and whether multi-label."""
        given = self.likelihood or Softmax
        plain = issubclass(given, Softmax | Bernoulli)
        ordered = hasattr(given, "class_probabilities") and not plain
        if ordered and self.prediction.shape[-1] == 1:
            self._end_in(
                Softmax,
                lambda known: serving.ClassLogits(given.name(), known),
                self.prediction,
            )
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
            if not from_logits and not (strip and logits is not None):
                p = keras.layers.Identity()(self.prediction)
                if multi_label or not many:
                    p = ops.clip(p, 1e-7, 1 - 1e-7)
                    logits = ops.log(p) - ops.log1p(-p)
                else:
                    logits = ops.log(ops.maximum(p, np.exp(-2 * bound)))
            if len(logits.shape) == 1:
                logits = keras.layers.Reshape((1,))(logits)
            return self._tempered(logits), multi_label

    def _refuse_regressor(self):
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

    def _tempered(self, logits):
        temperature = self.parameters.get("temperature", 1.0)
        if isinstance(temperature, keras.KerasTensor):
            logits = keras.layers.Identity()(logits)
            return logits / keras.layers.Identity()(temperature)
        if np.all(temperature == 1.0):
            return logits
        inverse = np.squeeze(1 / np.asarray(temperature, "float64"))
        return keras.layers.Rescaling(inverse.tolist())(logits)

    def features(self, *, optional: bool = False):
        """The tensor of the features; may be `None` if `optional`."""
        names = [layer.name for layer in self.graph.layers]
        if self._feature_layer in names:
            return endings.layer_output(self.graph, self._feature_layer)
        if self._feature_layer is None:
            strip = endings.kind_of(self.prediction) in endings.PROBABILITIES
            _, found = endings.open_ending(self.prediction, strip)
            if found is not None or optional:
                return found
        raise ValueError(
            "The feature layer was not found. `features` must be one of the "
            f"layers {names}. Received: {self._feature_layer!r}"
        )

    def run(self, tensors: dict, x, y=None, weight=None, batch_size=32):
        """Evaluates symbolic tensors; also returns `y` and `sample_weight`.

        Without `y`, `x` yields batches `(x, y)` or `(x, y, sample_weight)`.
        """
        extractor = keras.Model(self.graph.input, tensors)
        if y is not None:
            self._example = keras.tree.map_structure(lambda a: a[:1], x)
            found = extractor.predict(x, batch_size=batch_size, verbose=0)
            return found, np.asarray(y), weight
        columns = []
        for given, *others in numpy_batches(x):
            self._example = keras.tree.map_structure(lambda a: a[:1], given)
            beside = dict(zip(("y", "weight"), others, strict=False))
            columns.append({**extractor.predict_on_batch(given), **beside})
        merged = {
            name: np.concatenate([np.asarray(c[name]) for c in columns])
            for name in columns[0]
        }
        return merged, merged.pop("y"), merged.pop("weight", weight)

    def extend(
        self, base, build, *, trainable: bool = False, model_class=keras.Model
    ) -> keras.Model:
        """The copy, with the output that `build` makes from `base`."""
        if self._is_copy:
            below = keras.Model(self.graph.input, keras.tree.flatten(base))
            below.trainable = trainable
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
def full_precision():
    """Makes new layers compute in float32, whatever the global policy is."""
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("float32")
    try:
        yield
    finally:
        keras.config.set_dtype_policy(policy)


def _parameters(loss, graph, beside):
    """The likelihood, and its parameters by name."""
    if isinstance(loss, LikelihoodLoss):
        sources = loss.sources(len(beside))
        names = [name for name in sources if sources[name] == "predicted"]
        found = dict(zip(names, beside, strict=True))
        return loss.likelihood, {**loss.parameter_values(), **found}
    likelihood, _ = likelihood_beside(graph, beside)
    if likelihood is not None:
        names = [p.name for p in likelihood.parameters]
        return likelihood, dict(zip(names, beside, strict=True))
    if len(beside) > 1:
        raise too_many_outputs(1 + len(beside))
    return None, {"scale": beside[0]} if beside else {}
