"""Deep ensembles, trained and used as one model."""

import warnings

import keras
import numpy as np
from keras import ops

from keras_likelihood import likelihoods
from keras_likelihood.backend.registration import serializable
from keras_likelihood.layers.target_units import collect_targets
from keras_likelihood.likelihoods.checks import check_argument
from keras_likelihood.likelihoods.mixture import EnsembleDistribution
from keras_likelihood.likelihoods.output import names_in_output, split_output
from keras_likelihood.losses.likelihood_loss import LikelihoodLoss
from keras_likelihood.models import adapted_heads
from keras_likelihood.models.compiled import with_instances
from keras_likelihood.models.likelihood_model import LikelihoodModel


@serializable
class MemberOutputs(keras.Layer):
    """Joins the outputs of the members to the output of an `Ensemble`.

    For softmax and Bernoulli the mean is over probabilities, not over logits.
    """

    def __init__(self, likelihood=None, **kwargs):
        super().__init__(**{"dtype": keras.config.floatx(), **kwargs})
        self.likelihood = likelihood and likelihoods.get(likelihood)
        self.supports_masking = True

    def call(self, outputs):
        members = [split_output(output) for output in outputs]
        predictions = [prediction for prediction, _ in members]
        parameters = list(zip(*(values for _, values in members), strict=True))
        return (
            self._pooled(predictions, parameters),
            *(ops.concatenate(v, axis=-1) for v in (predictions, *parameters)),
        )

    def _pooled(self, predictions, parameters):
        if not hasattr(self.likelihood, "pooled_prediction"):
            return sum(predictions) / len(predictions)
        names = names_in_output(self.likelihood, (), len(parameters))
        values = {
            name: ops.stack(value, axis=-2)
            for name, value in zip(names, parameters, strict=True)
        }
        logits = ops.stack(predictions, axis=-2)
        return self.likelihood(logits, **values).pooled_prediction(axis=-2)

    def compute_mask(self, inputs, previous_mask):
        """The mask of the first member, only for the prediction."""
        mask = previous_mask[0]
        if mask is not None:
            mask, _ = split_output(mask)
        _, parameters = split_output(inputs[0])
        return (mask, None, *(None for _ in parameters))

    def get_config(self):
        name = self.likelihood and self.likelihood.name()
        return {**super().get_config(), "likelihood": name}


@serializable
class EnsembleLoss(LikelihoodLoss):
    """Trains every member of an ensemble with its own loss.

        value    = mean over members of loss_j
        gradient = sum over members of the gradient of loss_j

    So each member is trained independently. The value is not the NLL of the
    mixture, which is lower. `parameters` are the parameters of the loss for all
    members, by name. By default they are taken from `loss`.
    """

    def __init__(self, loss, members: int, **parameters):
        if isinstance(loss, dict):
            loss = keras.saving.deserialize_keras_object(loss)
        if loss.data_parameters:
            raise ValueError(
                "The members of an ensemble cannot share a DataParameter. "
                "Train them one by one as `LikelihoodModel`s and join them "
                "with `kl.Ensemble.from_members`. "
                f"Received: {sorted(loss.data_parameters)} as data parameters"
            )
        parameters = parameters or _given_parameters(loss, members)
        super().__init__(
            EnsembleDistribution(loss.likelihood, components=members),
            dimension=loss.dimension,
            missing=loss.missing,
            reduction=loss.reduction,
            name=loss.name,
            dtype=loss.dtype,
            **parameters,
        )
        self.loss = loss
        self.members = members

    def elementwise(self, distribution, y_true):
        members = distribution.members
        mean = sum(self.loss.elementwise(m, y_true) for m in members)
        mean = mean / self.members
        # The gradient is a sum, not a mean. This adds 0 to the value.
        return mean + (self.members - 1) * (mean - ops.stop_gradient(mean))

    def get_config(self):
        config = super().get_config()
        return {
            "loss": keras.saving.serialize_keras_object(self.loss),
            "members": self.members,
            **{name: config[name] for name in self._parameters.given},
        }


def _given_parameters(loss, members: int, learn_omitted=False) -> dict:
    """Parameters of the loss of one member, repeated for all members.

    If the members do not predict parameters, the loss must learn the omitted
    ones.
    """
    config = loss.get_config()
    given = {p.name: config[p.name] for p in loss.likelihood.parameters}
    for name, value in given.items():
        if value is None and learn_omitted:
            given[name] = "global"
        elif isinstance(value, list | tuple):
            given[name] = tuple(value) * members
    return given


@serializable
class Ensemble(LikelihoodModel):
    """Several networks with different initial weights, trained in one `fit`.

    The members disagree where there are few data, which shows the epistemic
    uncertainty (Lakshminarayanan et al. 2017).

    ```python
    def build():
        inputs = keras.Input((13,))
        features = keras.layers.Dense(50, activation="relu")(inputs)
        head = kl.layers.ScaleHead(1, isolated=True, hidden_units=50)
        return keras.Model(inputs, head(features))


    model = kl.Ensemble(build, members=5)
    model.compile("adam", loss=kl.losses.NormalLoss(beta=1.0))
    model.fit(x, y)
    found = model.predict_distribution(x)  # the mixture of the members
    found.interval(0.9), found.aleatoric, found.epistemic
    ```

    Each member trains exactly as it would on its own with the same batches, and
    the loss has separate parameters for each member. `fit` reports the mean of
    the members' losses. Metrics of this package use the mixture, Keras metrics
    the mean prediction. `predict` returns
    `(prediction, member, parameter, ...)`: the mean, then the outputs of the
    members, concatenated along the last axis.

    Args:
        build: function without arguments that returns a new Keras model, whose
            output is a prediction or the output of a head. It must not set the
            random seed, or all members are equal.
        members: number of models. Defaults to 5.
        inputs: `keras.Input`, or a structure of them. Only needed if the
            models do not know the shape of their inputs, such as subclassed
            models.
        name: name of the model.
    """

    # Keras saves the graph of a model only if it has this signature.
    def __init__(self, *args, **kwargs):
        if not _is_loaded(args, kwargs):
            args, kwargs = _graph_of(*args, **kwargs)
        super().__init__(*args, **kwargs)

    @classmethod
    def from_members(cls, models, *, inputs=None, name=None) -> "Ensemble":
        """Joins existing models, trained or not.

        The models become part of the ensemble: training the ensemble trains
        them. The parameters of heads are included. Parameters learned by the
        *loss* of a model are not.

        Args:
            models: list of Keras models of the same kind.
            inputs, name: as in `Ensemble`.
        """
        models = list(models)
        build = iter(models).__next__
        return cls(build, members=len(models), inputs=inputs, name=name)

    @property
    def members(self) -> list[keras.Model]:
        """The models of the ensemble."""
        return [v for v in self.layers if v.name.startswith(_NAME)]

    def adapt(self, y, *, sample_weight=None):
        """Adapts the heads of all members to the units of the targets."""
        y, sample_weight = collect_targets(y, sample_weight)
        for member in self.members:
            adapted_heads.adapt_heads(member, y, sample_weight)

    def compile(self, optimizer="rmsprop", loss=None, **kwargs):
        """As `LikelihoodModel.compile`, with the loss of one member."""
        loss = with_instances(loss)
        if isinstance(loss, LikelihoodLoss):
            # The output is (prediction, member, parameter, ...).
            parameters = split_output(self.output)[1][1:]
            if not isinstance(loss, EnsembleLoss):
                count = len(self.members)
                given = _given_parameters(loss, count, not parameters)
                loss = EnsembleLoss(loss, count, **given)
            self.get_layer(_JOINT).likelihood = loss.loss.likelihood
            count = len(parameters)
            first = self.members[0]
            adapted_heads.refuse_other_head(first, "", loss.loss, count)
        elif loss is not None:
            raise ValueError(
                "An ensemble needs a loss of `keras_likelihood.losses`, such "
                "as NormalLoss(scale=1.0) instead of 'mse' and "
                "SoftmaxLoss(temperature=1.0) instead of the cross-entropy. "
                f"Received: loss={loss!r}"
            )
        super().compile(optimizer=optimizer, loss=loss, **kwargs)


_NAME = "member_"
_JOINT = "joint_output"


def _is_loaded(args, kwargs):
    """Whether Keras loads an ensemble, with inputs and outputs."""
    is_graph = len(args) == 2 and not isinstance(args[1], (int, float))
    return is_graph or "outputs" in kwargs


def _graph_of(build, members: int = 5, *, inputs=None, name=None):
    """Inputs and outputs of the ensemble, as arguments of a model."""
    if not callable(build) or isinstance(build, keras.Model):
        raise ValueError(
            "`build` must be a function without arguments that returns a new "
            "Keras model. For models, use `Ensemble.from_members`. "
            f"Received: {type(build).__name__}"
        )
    is_count = isinstance(members, int) and members >= 2
    check_argument("members", members, is_count, "a whole number >= 2")
    models = [build() for _ in range(members)]
    kinds = sorted({type(model).__name__ for model in models})
    fits = all(isinstance(model, keras.Model) for model in models)
    check_argument("build", kinds, fits, "a function that returns Keras models")
    if len(set(map(id, models))) < members:
        raise ValueError(
            "`build` must return a new model in every call. "
            "Received: the same model twice"
        )
    inputs = _inputs_like(models[0]) if inputs is None else inputs
    outputs = []
    for number, model in enumerate(models):
        model.name = f"{_NAME}{number}"
        outputs.append(model(inputs))
        if isinstance(outputs[-1], dict):
            raise ValueError(
                "The members of an ensemble must have one output, a "
                "prediction or the output of a head. "
                f"Received: outputs {sorted(outputs[-1])}"
            )
    _warn_if_equal(models)
    head = adapted_heads.only_head(models[0])
    joint = MemberOutputs(head and head.likelihood, name=_JOINT)
    return (inputs, joint(outputs)), {"name": name or "ensemble"}


def _inputs_like(model):
    if not getattr(model, "inputs", None):
        raise ValueError(
            "The members do not know the shape of their inputs. Pass "
            "`inputs=keras.Input(shape)`. Received: "
            f"{type(model).__name__} without inputs"
        )
    like = model.inputs[0]
    if not isinstance(model, keras.Sequential):
        like = model.input
    return keras.tree.map_structure(
        lambda x: keras.Input(
            batch_shape=x.shape, dtype=x.dtype, name=x.name, sparse=x.sparse
        ),
        like,
    )


def _warn_if_equal(models):
    first, second = (
        list(map(ops.convert_to_numpy, model.trainable_variables))
        for model in models[:2]
    )
    if first and all(map(np.array_equal, first, second)):
        warnings.warn(
            "The members start from the same weights, so they will stay "
            "equal. Do not set a random seed inside `build`.",
            stacklevel=4,
        )
