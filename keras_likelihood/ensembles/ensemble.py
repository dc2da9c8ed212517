"""Deep ensembles, trained and used as one model."""

import warnings
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_likelihood import likelihoods
from keras_likelihood.backend.registration import serializable
from keras_likelihood.backend.types import Tensor
from keras_likelihood.ensembles.ensemble_distribution import (
    EnsembleDistribution,
    pooled_prediction,
)
from keras_likelihood.layers.target_units import collect_targets
from keras_likelihood.likelihoods.checks import check_argument
from keras_likelihood.likelihoods.output import names_in_output, split_output
from keras_likelihood.losses.batch import without_missing
from keras_likelihood.losses.likelihood_loss import LikelihoodLoss
from keras_likelihood.models import adapted_heads
from keras_likelihood.models.compiled import with_instances
from keras_likelihood.models.likelihood_model import LikelihoodModel


@serializable
class MemberOutputs(keras.Layer):
    """Joins the outputs of the members to the output of an `Ensemble`."""

    def __init__(self, likelihood: Any = None, **kwargs: Any) -> None:
        super().__init__(**{"dtype": keras.config.floatx(), **kwargs})
        self.likelihood = likelihood and likelihoods.get(likelihood)
        self.supports_masking = True

    def call(self, outputs: list[Any]) -> tuple[Tensor, ...]:
        predictions, parameters = zip(*map(split_output, outputs), strict=True)
        columns = [predictions, *zip(*parameters, strict=True)]
        pooled = sum(predictions) / len(predictions)
        own = self.likelihood
        if own and issubclass(own, likelihoods.Softmax | likelihoods.Bernoulli):
            names = names_in_output(self.likelihood, (), len(columns) - 1)
            stacked = [ops.stack(values, axis=-2) for values in columns]
            values = dict(zip(("prediction", *names), stacked, strict=True))
            pooled = pooled_prediction(self.likelihood(**values))
        return pooled, *(ops.concatenate(v, axis=-1) for v in columns)

    def compute_mask(self, inputs: list[Any], previous_mask: Any) -> Any:
        """The mask of the first member, only for the prediction."""
        mask = previous_mask[0]
        if mask is not None:
            mask, _ = split_output(mask)
        return mask, None, *(None for _ in split_output(inputs[0])[1])

    def get_config(self) -> dict[str, Any]:
        name = self.likelihood and self.likelihood.name()
        return {**super().get_config(), "likelihood": name}


@serializable
class EnsembleLoss(LikelihoodLoss):
    """Trains every member of an ensemble with its own loss.

        value    = mean over members of loss_j
        gradient = sum over members of the gradient of loss_j

    The value is not the NLL of the mixture, which is lower. `parameters` are
    those of all members, by name. By default they are taken from `loss`.
    """

    def __init__(self, loss: Any, members: int, **parameters: Any) -> None:
        if isinstance(loss, dict):
            loss = keras.saving.deserialize_keras_object(loss)
        if loss.data_parameters:
            raise ValueError(
                "The members of an ensemble cannot share a DataParameter. "
                "Train them one by one as `LikelihoodModel`s and join them "
                "with `kl.Ensemble.from_members`. "
                f"Received: {sorted(loss.data_parameters)} as data parameters"
            )
        kept = ("dimension", "missing", "reduction", "name", "dtype")
        super().__init__(
            EnsembleDistribution(loss.likelihood, components=members),
            **{name: getattr(loss, name) for name in kept},
            **(parameters or _parameters_of(loss, members)),
        )
        self.loss = loss
        self.members = members

    def elementwise(self, distribution: Any, y_true: Tensor) -> Tensor:
        members = distribution.members
        mean = sum(self.loss.elementwise(m, y_true) for m in members)
        mean = mean / self.members
        # The gradient is a sum, not a mean. This adds 0 to the value.
        return mean + (self.members - 1) * (mean - ops.stop_gradient(mean))

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        return {
            "loss": keras.saving.serialize_keras_object(self.loss),
            "members": self.members,
            **{name: config[name] for name in self._parameters.given},
        }


def _parameters_of(
    loss: Any, members: int, learn_omitted: bool = False
) -> dict[str, Any]:
    """Parameters of the loss of one member, repeated for all members."""
    config = loss.get_config()
    values = {p.name: config[p.name] for p in loss.likelihood.parameters}
    for name, value in values.items():
        if value is None and learn_omitted:
            values[name] = "global"
        elif isinstance(value, list | tuple):
            values[name] = tuple(value) * members
    return values


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
    has its own parameters of the loss. `fit` reports the mean of the members'
    losses. Metrics of this package use the mixture, Keras metrics the mean
    prediction. `predict` returns `(prediction, member, parameter, ...)`: the
    mean, then the outputs of the members, concatenated along the last axis.

    Args:
        build: function without arguments that returns a new Keras model, whose
            output is a prediction or the output of a head. It must not set the
            random seed, or all members are equal.
        members: number of models. Defaults to 5.
        inputs: `keras.Input`, or a structure of them. Only needed if the
            models do not know the shape of their inputs.
        name: name of the model.
    """

    # Keras saves the graph of a model only if it has this signature.
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        is_graph = len(args) == 2 and not isinstance(args[1], int | float)
        if not is_graph and "outputs" not in kwargs:
            args, kwargs = _graph_of(*args, **kwargs)
        super().__init__(*args, **kwargs)

    @classmethod
    def from_members(
        cls, models: Any, *, inputs: Any = None, name: str | None = None
    ) -> "Ensemble":
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

    def adapt(self, y: Any, *, sample_weight: Any = None) -> None:
        """Adapts the heads of all members to the units of the targets."""
        y, sample_weight = collect_targets(y, sample_weight)
        missing = getattr(getattr(self, "loss", None), "missing", None)
        y, sample_weight = without_missing(y, sample_weight, missing)
        found = map(adapted_heads.only_head, self.members)
        heads = [head for head in found if head is not None]
        if len(heads) < len(self.members):
            raise ValueError(
                "`adapt` needs members with a head, such as "
                "`kl.layers.ScaleHead`. Received: members without a head"
            )
        for head in heads:
            head.adapt(y, sample_weight=sample_weight)

    def compile(
        self, optimizer: Any = "rmsprop", loss: Any = None, **kwargs: Any
    ) -> None:
        """As `LikelihoodModel.compile`, with the loss of one member."""
        loss = with_instances(loss)
        if isinstance(loss, LikelihoodLoss):
            # The output is (prediction, member, parameter, ...).
            parameters = split_output(self.output)[1][1:]
            if not isinstance(loss, EnsembleLoss):
                count = len(self.members)
                values = _parameters_of(loss, count, not parameters)
                loss = EnsembleLoss(loss, count, **values)
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


def _graph_of(
    build: Any, members: int = 5, *, inputs: Any = None, name: Any = None
) -> tuple[Any, dict[str, Any]]:
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
    is_new = len(set(map(id, models))) == members
    allowed = "a function that returns a new model in every call"
    check_argument("build", "the same model twice", is_new, allowed)
    inputs = _inputs_like(models[0]) if inputs is None else inputs
    for number, model in enumerate(models):
        model.name = f"{_NAME}{number}"
    first, second = (
        list(map(ops.convert_to_numpy, model.trainable_variables))
        for model in models[:2]
    )
    if first and all(map(np.array_equal, first, second)):
        warnings.warn(
            "The members start from the same weights, so they will stay "
            "equal. Do not set a random seed inside `build`.",
            stacklevel=3,
        )
    head = adapted_heads.only_head(models[0])
    outputs = [model(inputs) for model in models]
    if isinstance(outputs[0], dict):
        raise ValueError(
            "The members of an ensemble must have one output, a prediction or "
            f"the output of a head. Received: outputs {sorted(outputs[0])}"
        )
    joint = MemberOutputs(head and head.likelihood, name=_JOINT)
    return (inputs, joint(outputs)), {"name": name or "ensemble"}


def _inputs_like(model: Any) -> Any:
    if not getattr(model, "inputs", None):
        raise ValueError(
            "The members do not know the shape of their inputs. Pass "
            "`inputs=keras.Input(shape)`. Received: "
            f"{type(model).__name__} without inputs"
        )
    is_sequential = isinstance(model, keras.Sequential)
    return keras.tree.map_structure(
        lambda x: keras.Input(
            batch_shape=x.shape, dtype=x.dtype, name=x.name, sparse=x.sparse
        ),
        model.inputs[0] if is_sequential else model.input,
    )
