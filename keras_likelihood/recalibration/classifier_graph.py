"""Finds logits and features of a classifier and adds layers to it."""

import functools

import keras

from keras_likelihood.layers import serving
from keras_likelihood.reading import ModelGraph
from keras_likelihood.recalibration.inputs import LOGIT_BOUND


class ClassifierGraph:
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
        self._source = ModelGraph(model, x, **options)
        logits, self.multi_label = self._source.logits(
            from_logits, multi_label, LOGIT_BOUND
        )
        self._tensors = {"logits": logits}
        if with_features:
            optional = with_features == "optional"
            found = self._source.features(optional=optional)
            if found is not None:
                self._tensors["features"] = found

    def outputs(self, x, y=None, weight=None, batch_size=32):
        """Returns `(logits, features or None, y, sample_weight or None)`."""
        found, y, weight = self._source.run(
            self._tensors, x, y, weight, batch_size
        )
        return found["logits"], found.get("features"), y, weight

    def extend(self, recalibrator, **options) -> keras.Model:
        """Returns the model that ends in the layers of a recalibrator."""

        def build():
            output = _add_layers(recalibrator, *self._tensors.values())
            if len(self._source.prediction.shape) == 1:
                output = keras.layers.Reshape((), name="plain_vector")(output)
            return output

        return self._source.extend(self._tensors, build, **options)


def submodel(build, logits, features, name: str):
    """Output of the layers that `build` makes, in a model of their own.

    Names must be different within a model, and two recalibrators make layers
    of the same names.
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
