"""Outputs of trained models, and the layers that recalibrate them."""

import functools
from collections.abc import Callable

import keras
import numpy as np

from keras_likelihood import serving
from keras_likelihood.likelihoods import LocationScale, Normal
from keras_likelihood.reading import ModelGraph
from keras_likelihood.recalibration.inputs import LOGIT_BOUND


class _Graph:
    """The tensors of a trained model that a recalibrator needs."""

    _output: Callable

    def __init__(self, model, x, options):
        self._source = ModelGraph(model, x, **options)
        self._tensors: dict = {}
        self.features = None

    def _find_features(self, wanted, instead=None):
        if wanted:
            found = self._source.features(optional=wanted == "optional")
            self.features = instead if found is None else found
        if self.features is not None:
            self._tensors["features"] = self.features

    def extend(self, recalibrator, trainable: bool = False) -> keras.Model:
        """Returns the model that ends in the layers of a recalibrator."""
        return self._source.extend(
            self._tensors,
            functools.partial(self._output, recalibrator),
            trainable=trainable,
            model_class=recalibrator.model_class,
        )


class ClassifierGraph(_Graph):
    """Finds the logits and the features of a trained classifier.

    `with_features` is True, False or `"optional"`, which uses features if
    there are any. Other arguments are those of `ClassifierRecalibrator.fit`.
    """

    def __init__(
        self,
        model,
        x=None,
        *,
        from_logits: bool | None = None,
        multi_label: bool | None = None,
        with_features: bool | str = False,
        **options,
    ):
        super().__init__(model, x, options)
        self._tensors["logits"], self.multi_label = self._source.logits(
            from_logits, multi_label, LOGIT_BOUND
        )
        self._find_features(with_features)

    def outputs(self, *data):
        """Returns `(logits, features or None, y, sample_weight or None)`."""
        found, y, weight = self._source.run(self._tensors, *data)
        return found["logits"], found.get("features"), y, weight

    def _output(self, recalibrator):
        output = _add_layers(
            recalibrator, self._tensors["logits"], self.features
        )
        if len(self._source.prediction.shape) == 1:
            output = keras.layers.Reshape((), name="plain_vector")(output)
        return output


def submodel(build, logits, features, name: str):
    """Output of the layers that `build` makes, inside a nested model.

    Layer names must be unique in a model, and recalibrators use the same
    names.
    """
    given = [logits] if features is None else [logits, features]
    inputs = [keras.Input(tensor.shape[1:]) for tensor in given]
    return keras.Model(inputs, build(*inputs), name=name)(given)


def _add_layers(recalibrator, logits, features=None):
    if recalibrator.questions_ is not None:
        columns = keras.ops.split(logits, logits.shape[-1], axis=-1)
        outputs = []
        for number, question in enumerate(recalibrator.questions_):
            build = functools.partial(_add_layers, question)
            name = f"question_{number}"
            outputs.append(submodel(build, columns[number], features, name))
        return keras.layers.Concatenate(name="questions")(outputs)
    bounded = serving.BoundedLogits(LOGIT_BOUND, name="bounded_logits")(logits)
    if logits.shape[-1] != 1:
        return recalibrator._graph(bounded, features)
    pair = serving.PairedLogits(name="paired_logits")(bounded)
    return serving.SecondClass(name="yes")(recalibrator._graph(pair, features))


class RegressorGraph(_Graph):
    """The likelihood of a trained regressor, normal if it is unknown.

    `values` are its parameters by name, in order: symbolic tensors, or numbers
    if they belong to the loss. If the scale of new examples is not known, it is
    1, and `has_scale` is False. With `with_features="optional"`, the prediction
    is used if no features are found. Other arguments are those of `ModelGraph`.
    """

    def __init__(self, model, x=None, *, with_features=False, **options):
        super().__init__(model, x, options)
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
        self._tensors = {
            name: value
            for name, value in self.values.items()
            if isinstance(value, keras.KerasTensor)
        }
        self._tensors["prediction"] = self.prediction
        self._find_features(with_features, instead=self.prediction)

    def outputs(self, *data):
        """Returns `(distribution, features or None, y, weight or None)`."""
        found, y, weight = self._source.run(self._tensors, *data)
        features = found.pop("features", None)
        # The outputs of a model in mixed precision may be float16.
        found = {k: np.asarray(v).astype("float32") for k, v in found.items()}
        for name in self.values.keys() - found.keys():
            value = np.asarray(self.values[name], "float32")
            found[name] = value[None] if value.ndim else float(value)
        return self.likelihood(**found), features, y, weight

    def _output(self, recalibrator):
        return recalibrator._graph(self)


def as_tensor(like, value, name: str):
    """A symbolic tensor; a number is repeated for every example."""
    if isinstance(value, keras.KerasTensor):
        return value
    values = np.squeeze(np.asarray(value, "float64"))
    # A vector does not have the length of the prediction.
    like = like[..., :1] if values.ndim else like
    return keras.layers.Rescaling(0.0, values.tolist(), name=name)(like)
