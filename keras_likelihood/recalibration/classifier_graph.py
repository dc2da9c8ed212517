"""Finds logits and features of a classifier and adds layers to it."""

import keras

from keras_likelihood.layers.serving import (
    BoundedLogits,
    PairedLogits,
    SecondClass,
)
from keras_likelihood.reading import ModelGraph
from keras_likelihood.recalibration.inputs import LOGIT_BOUND


class ClassifierGraph:
    """Finds the logits and the features of a trained classifier.

    Args:
        model: a `keras.Model` or the path of a `.keras` file.
        x: inputs, or batches; for models that were not built as a graph.
        from_logits: as in `ClassifierRecalibrator.fit`.
        multi_label: as in `ClassifierRecalibrator.fit`.
        with_features: whether features are needed: `True`, `False` or
            `"optional"`, which uses them if there are any.
        **options: `batched` and `features` of `ModelGraph`.
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
        self._tensors = {}
        self._tensors["logits"], self.multi_label = self._source.logits(
            from_logits, multi_label, LOGIT_BOUND
        )
        if with_features:
            optional = with_features == "optional"
            found = self._source.features(optional=optional)
            if found is not None:
                self._tensors["features"] = found

    def outputs(self, x, y=None, weight=None, batch_size=32):
        """Computes logits and features once.

        Returns:
            `(logits, features or None, y, sample_weight or None)` as NumPy.
        """
        found, y, weight = self._source.run(
            self._tensors, x, y, weight, batch_size
        )
        return found["logits"], found.get("features"), y, weight

    def extend(
        self,
        recalibrator,
        *,
        trainable: bool = False,
        model_class=keras.Model,
    ) -> keras.Model:
        """Returns the model with the recalibrator's layers at its end.

        Args:
            recalibrator: a fitted `ClassifierRecalibrator`.
            trainable: whether the classifier's own layers may be trained.
                Defaults to False.
            model_class: the class of the result. Defaults to `keras.Model`.
        """

        def build():
            output = self._calibrated(recalibrator)
            if len(self._source.prediction.shape) == 1:
                output = keras.layers.Reshape((), name="plain_vector")(output)
            return output

        return self._source.extend(
            self._tensors, build, trainable=trainable, model_class=model_class
        )

    def _calibrated(self, recalibrator):
        logits = self._tensors["logits"]
        features = self._tensors.get("features")
        if recalibrator.questions_ is None:
            return _add_layers(recalibrator, logits, features)
        columns = keras.ops.split(logits, logits.shape[-1], axis=-1)
        outputs = []
        for number, column in enumerate(columns):
            given = [column] if features is None else [column, features]
            inputs = [keras.Input(tensor.shape[1:]) for tensor in given]
            # Names must be different within a model, so this is a separate
            # model.
            part = keras.Model(
                inputs,
                _add_layers(
                    recalibrator.questions_[number],
                    inputs[0],
                    None if features is None else inputs[1],
                ),
                name=f"question_{number}",
            )
            outputs.append(part(given))
        return keras.layers.Concatenate(name="questions")(outputs)


def _add_layers(recalibrator, logits, features):
    bounded = BoundedLogits(LOGIT_BOUND, name="bounded_logits")(logits)
    if logits.shape[-1] != 1:
        return recalibrator._graph(bounded, features)
    pair = PairedLogits(name="paired_logits")(bounded)
    return SecondClass(name="yes")(recalibrator._graph(pair, features))
