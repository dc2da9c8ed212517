"""A Keras model that is trained with likelihood losses."""

import collections
import functools
import inspect
import warnings
from typing import Any

import keras
import numpy as np

from keras_likelihood.backend import processes
from keras_likelihood.backend.kept_values import keeping_values
from keras_likelihood.backend.private import (
    become,
    exclude_from_weight_decay,
    functional_model_class,
    uncompiled_layers,
)
from keras_likelihood.backend.registration import serializable
from keras_likelihood.data_parameters.indexed import indices
from keras_likelihood.likelihoods.output import split_output
from keras_likelihood.models import fit_arguments
from keras_likelihood.models.adapted_heads import (
    adapt_heads,
    refuse_other_head,
    refuse_probabilities,
)
from keras_likelihood.models.compiled import Compiled, learns, with_instances
from keras_likelihood.models.likelihood_step import LikelihoodStep


@serializable
class LikelihoodModel(LikelihoodStep):
    """A `keras.Model` that trains the parameters of its likelihood.

    The loss gets the whole output `(prediction, parameter, ...)` of a head.
    Parameters of the loss are trained, logged by `fit` and saved with the
    model. Metrics of this package get the distribution, those of Keras only the
    prediction.

    ```python
    inputs = keras.Input((13,))
    features = keras.layers.Dense(64, activation="relu")(inputs)
    outputs = kl.layers.ScaleHead(1)(features)
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile("adam", loss=kl.losses.NormalLoss(), metrics=["mse"])
    model.fit(x, y)
    lower, upper = model.predict_distribution(x).interval(0.9)
    ```

    For several outputs, pass a dict of predictions or heads, and a dict of
    losses with the same keys. Each loss weights its task by its own scale.

    After `compile` with a new loss of the same likelihood, or after
    `load_model(compile=False)`, the learned parameters of the losses keep their
    values. `model.loss_parameters.forget()` resets them.

    Args:
        inputs: as in `keras.Model`.
        outputs: a prediction, a head's output, or a dict of these.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if len(args) + ("inputs" in kwargs) + ("outputs" in kwargs) >= 2:
            kind: Any = type(self)
            become(self, _functional_class(kind))
        super().__init__(*args, **kwargs)

    @classmethod
    def from_model(cls, model: keras.Model) -> "LikelihoodModel":
        """Creates a likelihood model from a functional or sequential model.

        Both models share their layers: training one trains the other.
        """
        if not getattr(model, "inputs", None):
            raise ValueError(
                "`from_model` needs a functional model or a built Sequential. "
                "A subclassed model should subclass `LikelihoodModel`. "
                f"Received: {type(model).__name__} without inputs"
            )
        if isinstance(model, keras.Sequential):
            first, *more = model.outputs
            outputs = (first, *more) if more else first
            return cls(model.inputs[0], outputs, name=model.name)
        return cls(model.input, model.output, name=model.name)

    def adapt(self, y: Any, *, sample_weight: Any = None) -> None:
        """Adapts the heads to the units of the targets, before `fit`.

        See `LikelihoodHead.adapt`.

        Args:
            y: targets, or a dataset of batches `(x, y)` or
                `(x, y, sample_weight)`; for a dict of outputs, a dict of
                targets without the outputs that are classes.
            sample_weight: weights `>= 0`, or `None`.
        """
        adapt_heads(self, y, sample_weight)

    def compile(
        self,
        optimizer: str = "rmsprop",
        loss: Any = None,
        *,
        loss_weights: Any = None,
        metrics: Any = None,
        weighted_metrics: Any = None,
        **kwargs: Any,
    ) -> None:
        """As `keras.Model.compile`; the model trains the losses' parameters.

        Args:
            optimizer: as in Keras.
            loss: a loss of `keras_likelihood.losses`, the name of a likelihood
                such as `"student_t"`, or a loss of Keras. For several outputs,
                a dict or list of them.
            loss_weights: a number, or one per output.
            metrics, weighted_metrics: metrics of this package get the
                distribution. Metrics of Keras get class probabilities if the
                likelihood has classes, otherwise the prediction.
            **kwargs: as in Keras.
        """
        loss = with_instances(loss)
        given = {"loss": loss, "loss_weights": loss_weights}
        given |= {"metrics": metrics, "weighted_metrics": weighted_metrics}
        outputs = self._known_outputs()
        compiled = Compiled(**given, outputs=outputs)
        is_one = isinstance(loss, str) or callable(loss)
        if is_one and not compiled.by_key and split_output(outputs)[1]:
            raise ValueError(
                "The model's output is a prediction with parameters, which "
                "needs a loss of `keras_likelihood.losses`. "
                f"Received: loss={loss!r}"
            )
        # Keras would map a loss and metrics over the parameters too.
        passed = {} if compiled.losses else given
        super().compile(optimizer=optimizer, **passed, **kwargs)
        if kwargs.get("jit_compile", "auto") and not self.run_eagerly:
            self._say_if_eager()
        self.__dict__.update(loss=loss, _compiled=compiled, _given=given)
        self.loss_parameters.replace({}, {})
        if outputs is not None:
            self._adopt(outputs)
        fit_arguments.expect_learned_scales(self)

    def _say_if_eager(self) -> None:
        if keras.backend.backend() == "jax" and not self.jit_compile:
            warnings.warn(
                "Every step runs without compilation, because Keras marks "
                "these layers as impossible to compile: "
                f"{uncompiled_layers(self)}. On JAX most layers that move "
                "pixels can be compiled: set `layer.supports_jit = True` "
                "before `compile`.",
                stacklevel=3,
            )

    def get_compile_config(self) -> Any:
        config = super().get_compile_config()
        if not self.compiled:
            return config
        serialize = keras.saving.serialize_keras_object
        return {**config, **{n: serialize(v) for n, v in self._given.items()}}

    def compile_from_config(self, config: dict[str, Any]) -> None:
        self.compile(**keras.saving.deserialize_keras_object(config))
        fit_arguments.build_optimizer(self)

    def _known_outputs(self) -> Any:
        if getattr(self, "outputs", None):
            return self.output
        if self._called_outputs is None and self.built:
            shape = self.get_build_config().get("input_shape")
            if shape is not None:
                self(keras.tree.map_shape_structure(keras.KerasTensor, shape))
        return self._called_outputs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        outputs = super().__call__(*args, **kwargs)
        if not getattr(self, "outputs", None) and self._called_outputs is None:
            called = keras.tree.map_structure(
                lambda x: keras.KerasTensor((None, *x.shape[1:])), outputs
            )
            self.__dict__["_called_outputs"] = called
            self._adopt(called)
        return outputs

    def _adopt(self, outputs: Any) -> None:
        """Builds the parameters of the losses for these outputs."""
        learned = {}
        compiled = self._compiled
        parts = compiled.outputs.of_model(outputs) if compiled.losses else {}
        for key, loss in compiled.losses.items():
            if not learns(loss):
                continue
            prediction, parameters = split_output(parts[key])
            if key in compiled.by_key:
                refuse_other_head(self, key, loss, len(parameters), prediction)
                refuse_probabilities(loss, prediction)
                loss.build(tuple(prediction.shape), len(parameters))
            loss.adopt("model")
            for name, value in loss.learned_beside(len(parameters)).items():
                learned[compiled.label(key, name)] = value
        for parameter in self.data_parameters.values():
            parameter.set_model(self)
        self.loss_parameters.replace(learned, self.data_parameters)
        exclude_from_weight_decay(
            getattr(self, "optimizer", None), self.loss_parameters.variables
        )

    def _check_targets(
        self, y: Any = None, sample_weight: Any = None, **_: Any
    ) -> None:
        outputs = self._known_outputs()
        if y is not None and outputs is not None and self._compiled.by_key:
            given = (outputs, y, sample_weight)
            fit_arguments.check_targets(self._compiled, *given)

    def fit(self, *args: Any, **kwargs: Any) -> Any:
        """As `keras.Model.fit`; it also trains the data parameters.

        Targets that are impossible under the likelihood raise an error before
        training starts. If an error stops the training, the model keeps the
        values of the last successful step.
        """
        processes.refuse_workers(self)
        bound = inspect.signature(super().fit).bind(*args, **kwargs)
        given = bound.arguments
        fit_arguments.build_model(self, given.get("x"))
        own = self.data_parameters.values()
        if own and indices(given.get("x"), given.get("y")) == []:
            next(iter(own)).require_rows(None)
        self._check_targets(**given)
        validation = given.get("validation_data")
        if isinstance(validation, tuple | list):
            self._check_targets(*validation[1:])
            if validation[0] is not given.get("x"):
                fit_arguments.refuse_new_rows(validation[1])
        fit_arguments.add_own_callbacks(self, given)
        if own:
            named = ("x", "y", "sample_weight", "class_weight")
            weights = fit_arguments.indexed_weights(*map(given.get, named))
            given["sample_weight"] = weights
        fit_arguments.build_optimizer(self)
        try:
            with keeping_values(self, trains=True):
                return super().fit(*bound.args, **bound.kwargs)
        finally:
            for parameter in own:
                parameter.close()

    def train_on_batch(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        class_weight: Any = None,
        **kwargs: Any,
    ) -> Any:
        """As `keras.Model.train_on_batch`, with the same checks as `fit`."""
        own = self.data_parameters.values()
        if own:
            given = (x, y, sample_weight, class_weight)
            sample_weight = fit_arguments.indexed_weights(*given)
        self._check_targets(y, sample_weight)
        fit_arguments.check_counted(self)
        fit_arguments.build_optimizer(self)
        logs = super().train_on_batch(
            x, y, sample_weight, class_weight, **kwargs
        )
        for parameter in own:
            parameter.check()
        return logs

    def test_on_batch(
        self, x: Any, y: Any = None, sample_weight: Any = None, **kwargs: Any
    ) -> Any:
        """As `keras.Model.test_on_batch`, with the same checks as `fit`."""
        self._check_targets(y, sample_weight)
        return super().test_on_batch(x, y, sample_weight, **kwargs)

    def evaluate(self, *args: Any, **kwargs: Any) -> Any:
        """As `keras.Model.evaluate`, with the same checks as `fit`."""
        bound = inspect.signature(super().evaluate).bind(*args, **kwargs)
        self._check_targets(**bound.arguments)
        with keeping_values(self):
            return super().evaluate(*args, **kwargs)

    def predict(self, *args: Any, **kwargs: Any) -> Any:
        """As `keras.Model.predict`.

        `(prediction, parameter, ...)` is a named tuple. NumPy and scikit-learn
        convert it to an array of the prediction.
        """
        with keeping_values(self):
            output = super().predict(*args, **kwargs)
        own = self._compiled
        if not own.by_key:
            return output
        parts = own.outputs.of_model(output).items()
        named = {key: _named(own.by_key.get(key), part) for key, part in parts}
        if isinstance(output, dict):
            return named
        return named[""] if own.is_one else list(named.values())

    def predict_distribution(self, x: Any, **kwargs: Any) -> Any:
        """The predicted distribution for inputs `x`.

        It is a `Likelihood` of NumPy arrays, whose methods return NumPy
        arrays, or a dict of likelihoods for several outputs.

        Args:
            x: inputs, as for `predict`.
            **kwargs: passed to `predict`.
        """
        losses = self._compiled.by_key
        if not losses:
            raise ValueError(
                "`predict_distribution` needs a model compiled with a "
                f"likelihood loss. Received: loss={getattr(self, 'loss', None)}"
            )
        parts = self._compiled.outputs.of_model(self.predict(x, **kwargs))
        made = {k: v.distribution(parts[k]) for k, v in losses.items()}
        made = {key: one.as_numpy() for key, one in made.items()}
        return made[""] if self._compiled.is_one else made

    def export(self, *args: Any, **kwargs: Any) -> Any:
        """As `keras.Model.export`; parameters of head `"a"` are `"a_scale"`."""
        output = self._known_outputs()
        parts = output if isinstance(output, dict) else {}
        named: dict[str, Any] = {}
        for key, part in parts.items():
            named[key], parameters = split_output(part)
            loss, count = self._compiled.by_key.get(key), len(parameters)
            names: Any = loss.predicted(count) if loss else range(count)
            labels = [f"{key}_{name}" for name in names]
            named |= zip(labels, parameters, strict=True)
        if len(named) == len(parts) or not getattr(self, "inputs", None):
            return super().export(*args, **kwargs)
        return keras.Model(self.input, named).export(*args, **kwargs)

    def __reduce__(self) -> Any:
        """Pickles this class, because no module has the functional class."""
        unpickle, arguments = super().__reduce__()
        return getattr(LikelihoodModel, unpickle.__name__), arguments


@functools.cache
def _functional_class(cls: Any) -> Any:
    """`cls` as a class of functional models, saved under the same name."""
    functional = functional_model_class()
    if issubclass(cls, functional):
        return cls
    made = type(cls.__name__, (cls, functional), {"__module__": cls.__module__})
    package, _, name = keras.saving.get_registered_name(cls).rpartition(">")
    if package:
        keras.saving.register_keras_serializable(package, name)(made)
        # Files in the old .h5 format contain the class name only.
        keras.saving.get_custom_objects().setdefault(name, made)
    return made


def _named(loss: Any, output: Any) -> Any:
    """`(prediction, parameter, ...)` as a named tuple."""
    _, parameters = split_output(output)
    if loss is None or not parameters:
        return output
    names = loss.predicted(len(parameters))
    return _named_tuple("prediction", *names)._make(output)


@functools.cache
def _named_tuple(*fields: Any) -> Any:
    make: Any = collections.namedtuple
    made = make("Output", fields)
    made.ndim = property(lambda self: np.ndim(self[0]))
    made.__array__ = lambda self, dtype=None, copy=None: np.array(
        self[0], dtype=dtype, copy=copy
    )
    # The class cannot be imported, so it is pickled as a plain tuple.
    made.__reduce__ = lambda self: (tuple, (tuple(self),))
    return made
