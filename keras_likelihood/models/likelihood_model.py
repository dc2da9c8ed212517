"""A Keras model whose loss is a likelihood."""

import contextlib
import functools

import keras
from keras import ops

from keras_likelihood.data_parameters.indexed import split_index
from keras_likelihood.data_parameters.parameter_rows import step_rows
from keras_likelihood.losses.likelihood_loss import LikelihoodLoss
from keras_likelihood.models.loss_parameters import LossParameters
from keras_likelihood.registration import serializable
from keras_likelihood.regularizers.learned_noise import bind_noise
from keras_likelihood.regularizers.measured_curvature import MeasuredCurvature


@serializable
class LikelihoodModel(keras.Model):
    """A `keras.Model` that trains the parameters of its likelihood.

    It differs from a stock model in three ways: the whole output
    `(prediction, parameter, ...)` of a head reaches the one loss; what the
    loss learns is trained, logged by `fit` and saved with the model; ordinary
    metrics see the prediction alone.

    ```python
    inputs = keras.Input((13,))
    features = keras.layers.Dense(64, activation="relu")(inputs)
    outputs = kl.layers.ScaleHead(1)(features)
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile("adam", loss=kl.losses.NormalLoss(), metrics=["mse"])
    model.fit(x, y)
    lower, upper = model.predict_distribution(x).interval(0.9)
    ```

    Several outputs are a dict of predictions or heads, with a dict of losses
    of the same keys; each loss then weighs its task by its own scale.

    Args:
        inputs: as in `keras.Model`.
        outputs: a prediction, a head's output, or a dict of these.
    """

    def __new__(cls, *args, **kwargs):
        if _describes_graph(args, kwargs):
            cls = _functional(cls, type(keras.Model(*args, **kwargs)))
        return super().__new__(cls)

    def __init__(self, *args, **kwargs):
        if _describes_graph(args, kwargs) and not hasattr(
            type(self), "_is_functional"
        ):
            raise TypeError(
                "A subclass of LikelihoodModel either defines `call` or is "
                "given its inputs and outputs when it is made. Received: "
                "inputs and outputs inside `__init__`"
            )
        super().__init__(*args, **kwargs)

    @classmethod
    def from_model(cls, model: keras.Model) -> "LikelihoodModel":
        """Wraps the graph of a functional or sequential model.

        The layers are shared, so training one trains the other.
        """
        if not getattr(model, "inputs", None):
            raise ValueError(
                "`from_model` needs a functional model or a built Sequential; "
                "a subclassed model can subclass `LikelihoodModel` itself. "
                f"Received: {type(model).__name__} without inputs"
            )
        if isinstance(model, keras.Sequential):
            return cls(model.inputs[0], model.outputs[0], name=model.name)
        return cls(model.input, model.output, name=model.name)

    def compile(self, optimizer="rmsprop", loss=None, **kwargs):
        """As `keras.Model.compile`; adopts what the losses learn."""
        # Outside of Keras' own `compile`, whose attributes are not tracked.
        if not hasattr(self, "loss_parameters"):
            self.loss_parameters = LossParameters(name="loss_parameters")
        self._loss_weight = kwargs.get("loss_weights")
        adopted, data = {}, {}
        for key, likelihood_loss in _likelihood_losses(loss).items():
            prefix = f"{key}_" if key else ""
            for name, parameter in self._adopt(key, likelihood_loss).items():
                adopted[prefix + name] = parameter
            for name, parameter in likelihood_loss.data_parameters.items():
                data[prefix + name] = parameter
        self.loss_parameters.replace(adopted, data)
        self._refuse_loss_of_lone_prediction(loss)
        if kwargs.get("jit_compile") is True:
            self._refuse_jit_with_store()
        super().compile(optimizer=optimizer, loss=loss, **kwargs)
        bind_noise(self)

    def fit(self, x=None, *args, callbacks=None, **kwargs):
        """As `keras.Model.fit`; adds the callbacks that the model needs."""
        if not isinstance(callbacks, keras.callbacks.CallbackList):
            given = keras.tree.flatten(callbacks)
            given = [c for c in given if c is not None]
            callbacks = [*given, *self._own_callbacks(x, given)]
        return super().fit(x, *args, callbacks=callbacks, **kwargs)

    def _own_callbacks(self, x, given):
        if any(isinstance(c, MeasuredCurvature) for c in given):
            return []
        return [MeasuredCurvature(x)]

    def __reduce__(self):
        """Pickles as this class: the functional one has no module to be in."""
        unpickle, arguments = super().__reduce__()
        return getattr(LikelihoodModel, unpickle.__name__), arguments

    @property
    def data_parameters(self) -> dict:
        """The `DataParameter`s of the losses, by name."""
        return self.loss_parameters.data_parameters

    def _refuse_jit_with_store(self):
        if not self.loss_parameters.supports_jit:
            raise ValueError(
                "A data parameter with a `store` on disk needs a step that is "
                "not compiled by XLA on TensorFlow; leave `jit_compile` at "
                "'auto'. Received: jit_compile=True"
            )

    def _refuse_loss_of_lone_prediction(self, loss):
        outputs = getattr(self, "outputs", None) and self.output
        many = isinstance(outputs, _SEQUENCE) and len(outputs) > 1
        one_loss = isinstance(loss, str) or callable(loss)
        if many and one_loss and not isinstance(loss, LikelihoodLoss):
            raise ValueError(
                "The model's output is a prediction with parameters, which "
                "needs a loss of `keras_likelihood.losses`. "
                f"Received: loss={loss!r}"
            )

    def _adopt(self, key, loss):
        leaves = 1
        if getattr(self, "outputs", None):
            outputs = self.output[key] if key else self.output
            outputs = outputs if isinstance(outputs, _SEQUENCE) else [outputs]
            leaves = len(outputs)
            if not isinstance(outputs[0], dict):
                loss.build(tuple(outputs[0].shape))
        return loss.adopt(leaves)

    def compile_from_config(self, config):
        """Compiles as saved; Keras skips a model that overrides `compile`."""
        config = keras.saving.deserialize_keras_object(config)
        self.compile(**config)
        if self.optimizer is not None and self.built:
            self.optimizer.build(self.trainable_variables)

    def compute_loss(
        self, x=None, y=None, y_pred=None, sample_weight=None, training=True
    ):
        """The negative log-likelihood and what the layers add to it.

        Data parameters are differentiated and moved here, as they enter
        nothing but the loss.
        """
        y, sample_weight, index = split_index(y, sample_weight)
        with contextlib.ExitStack() as batch:
            for parameter in self.data_parameters.values():
                batch.enter_context(parameter.batch(index, training))
            return self._total_loss(x, y, y_pred, sample_weight, training)

    def _step_rows(self, key, loss, y, y_pred, sample_weight):
        return step_rows(
            loss,
            [p.rows for p in loss.data_parameters.values()],
            _entry(y, key),
            _entry(y_pred, key),
            _entry(sample_weight, key),
            _entry(self._loss_weight, key),
        )

    def _total_loss(self, x, y, y_pred, sample_weight, training):
        if not isinstance(self.loss, LikelihoodLoss):
            total = super().compute_loss(
                x, y, y_pred, sample_weight, training=training
            )
            for key, loss in _likelihood_losses(self.loss).items():
                if training and loss.data_parameters:
                    self._step_rows(key, loss, y, y_pred, sample_weight)
            self.loss_parameters.log()
            return total
        if isinstance(y_pred, dict):
            raise ValueError(
                "A dict of outputs needs a dict of losses with its keys, "
                f"{sorted(y_pred)}. Received: the one loss {self.loss.name}"
            )
        if training and self.loss.data_parameters:
            total = self._step_rows("", self.loss, y, y_pred, sample_weight)
        else:
            total = self.loss(y, y_pred, sample_weight)
            if self._loss_weight is not None:
                total = total * self._loss_weight
        self.loss_parameters.log()
        for added in self.losses:
            total = total + ops.cast(ops.sum(added), total.dtype)
        return total

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        """Updates metrics with the prediction, less its parameters."""
        y, sample_weight, _ = split_index(y, sample_weight)
        if isinstance(self.loss, LikelihoodLoss):
            y_pred = _prediction(y_pred)
        elif isinstance(y_pred, dict):
            y_pred = {k: _prediction(v) for k, v in y_pred.items()}
        return super().compute_metrics(x, y, y_pred, sample_weight)

    def predict_distribution(self, x, **kwargs):
        """The fitted likelihood of the targets of `x`.

        ```python
        distribution = model.predict_distribution(x)
        median = distribution.quantile(0.5)
        lower, upper = distribution.interval(0.9)
        surprise = distribution.nll(y)
        ```

        Args:
            x: inputs, as for `predict`.
            **kwargs: passed on to `predict`.

        Returns:
            A `Likelihood`, or a dict of them for a dict of outputs.
        """
        losses = _likelihood_losses(getattr(self, "loss", None))
        if not losses:
            raise ValueError(
                "`predict_distribution` needs a model compiled with a "
                f"likelihood loss. Received: loss={getattr(self, 'loss', None)}"
            )
        y_pred = self.predict(x, **kwargs)
        if isinstance(self.loss, LikelihoodLoss):
            return self.loss.distribution(y_pred)
        return {k: v.distribution(y_pred[k]) for k, v in losses.items()}


_SEQUENCE = (list, tuple)


def _describes_graph(args, kwargs):
    given = len(args) + sum(name in kwargs for name in ("inputs", "outputs"))
    return given >= 2


@functools.cache
def _functional(cls, functional):
    """`cls` as a functional model.

    Keras would put its functional class among the bases of `cls` for good,
    and of `LikelihoodModel` with it, which breaks models that define `call`.
    """
    if issubclass(cls, functional):
        return cls
    made = type(
        cls.__name__,
        (cls, functional),
        {"__module__": cls.__module__, "_is_functional": True},
    )
    package, _, name = keras.saving.get_registered_name(cls).rpartition(">")
    if package:
        keras.saving.register_keras_serializable(package, name)(made)
    return made


def _likelihood_losses(loss):
    """The likelihood losses among `loss`, by output key ("" for the one)."""
    if isinstance(loss, LikelihoodLoss):
        return {"": loss}
    if isinstance(loss, dict):
        return {k: v for k, v in loss.items() if isinstance(v, LikelihoodLoss)}
    if isinstance(loss, _SEQUENCE) and any(
        isinstance(v, LikelihoodLoss) for v in loss
    ):
        raise ValueError(
            "Likelihood losses of several outputs are given as a dict, with "
            f"a dict of outputs of the same keys. Received: {loss}"
        )
    return {}


def _entry(structure, key):
    return structure[key] if key and isinstance(structure, dict) else structure


def _prediction(y_pred):
    return y_pred[0] if isinstance(y_pred, _SEQUENCE) else y_pred
