"""The base of regularizers that learn their own strength."""

import math

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.gradients import scale_step
from keras_likelihood.regularizers.claims import ClaimsOneWeight
from keras_likelihood.regularizers.evidence import as_tensors

_GROUPS = ("tensor", "input", "output", "weight")
_LOSSES = ("nll", "mse")
_OBJECTIVES = ("evidence", "joint")
_LARGEST_MOVE = 0.5

SCALE_FREE = (2.0, 0.0, 60.0)
"""State of a prior whose strength no evidence can give. None is off."""


class AdaptiveRegularizer(
    ClaimsOneWeight, keras.Layer, keras.regularizers.Regularizer
):
    """Negative log-likelihood of the weights under a prior of learned scale.

        penalty = factor * sum_j -log p(w_j | scale) / num_examples

    `factor` is 1 if the loss is a negative log-likelihood, and `2 noise^2` if
    it is the mean squared error. Use it wherever Keras takes a regularizer.
    Its scales are weights of the layer that it regularizes, so they are saved
    and cloned with the layer. One object learns the scales of one weight. If a
    layer gives one regularizer to several weights, as `MultiHeadAttention`
    does, each weight gets a copy.

    The penalty has no minimum over weights *and* scale, because both may
    shrink to zero together. So the weights see the penalty, while the scale
    moves towards `target_scale`, the one that the data support. In
    `LikelihoodModel.fit` the callback `MeasuredCurvature` moves it, with the
    curvature that it measures. Elsewhere the optimizer moves it, with the
    curvature that `noise` and `input_scale` describe. Likewise a noise scale
    that the loss learns gets the degrees of freedom that the weights use up,
    `-(df / n) log(noise)`, without which it would follow the residuals of an
    interpolating model to zero. Both are zero in value: the loss reads as the
    joint negative log-likelihood.

    A subclass defines `prior_nll`, `evidence`, `measured_evidence`,
    `target_scale` and `_strength_of`.

    Args:
        num_examples: number of likelihood terms that the loss averages over
            in a pass over the training data, `> 1`.
        group: weights that share a scale: `"tensor"`, `"input"` (those of
            one input feature), `"output"` (those of one output unit) or
            `"weight"` (each its own).
        initial_scale: value the scales start from, `> 0`. Defaults to 1.
        noise: standard deviation of the targets around a perfect prediction,
            `> 0`; replaced by the learned one where `bind_noise` finds it.
            Defaults to 1, with a warning where nothing measures the
            curvature.
        loss: `"nll"` (default) if the loss is a negative log-likelihood,
            `"mse"` if it is Keras' mean squared error.
        input_scale: root mean square of what the weights multiply, `> 0`.
            Defaults to 1, standardised inputs. The units of a layer are
            taken to share the outcome equally: one of `m` outputs has a
            `1/m` part in a loss averaged over outputs, one of `m` hidden
            units a `1/m` part in the variance of what follows.
        learning_rate_multiplier: factor on the optimizer's steps in the
            scales. Defaults to 1.
        objective: `"evidence"` (default), or `"joint"`: the scale minimises
            the penalty together with the weights, as in the paper. It has no
            minimum: `DRidge` and `DLasso` shrink everything to zero unless
            training stops early.
        name: name of the regularizer.
    """

    def __init__(
        self,
        *,
        num_examples: float,
        group: str = "tensor",
        initial_scale: float = 1.0,
        noise: float | None = None,
        loss: str = "nll",
        input_scale: float = 1.0,
        learning_rate_multiplier: float = 1.0,
        objective: str = "evidence",
        name: str | None = None,
        **kwargs,
    ):
        super().__init__(name=name, autocast=False, **kwargs)
        if not num_examples > 1:
            raise ValueError(
                f"`num_examples` must be > 1. Received: {num_examples}"
            )
        self.num_examples = float(num_examples)
        self.group = _one_of("group", group, _GROUPS)
        self.loss = _one_of("loss", loss, _LOSSES)
        self.initial_scale = _positive("initial_scale", initial_scale)
        self.objective = _one_of("objective", objective, _OBJECTIVES)
        self._assumes_noise = noise is None
        self.noise = _positive("noise", 1.0 if noise is None else noise)
        self.input_scale = _positive("input_scale", input_scale)
        self.learning_rate_multiplier = _positive(
            "learning_rate_multiplier", learning_rate_multiplier
        )
        self._claim_nothing()

    def prior_nll(self, weight, scale):
        """`-log p(weight | scale)`, complete; shape of `weight`."""
        raise NotImplementedError

    def evidence(self, weight, scale, noise):
        """The `Evidence` about `weight`, under an assumed curvature."""
        raise NotImplementedError

    def measured_evidence(self, weight, scale, noise, curvature):
        """The `Evidence` about `weight` as NumPy, given its `Curvature`."""
        raise NotImplementedError

    def target_scale(self, weight, scale, evidence):
        """The scales that the data support; shape of `scale`."""
        raise NotImplementedError

    def _measured_target(self, weight, scale, evidence):
        """`target_scale` of NumPy arrays."""
        target = self.target_scale(*as_tensors((weight, scale, evidence)))
        return ops.convert_to_numpy(target)

    def _strength_of(self, scale):
        raise NotImplementedError

    def _accelerated(self, move):
        """What to move by, given the way to the target."""
        return move

    def decay(self, strength: float) -> bool:
        """Sets a strength that the evidence cannot give.

        Args:
            strength: factor of a weight in its gradient.

        Returns:
            Whether this prior can be set so.
        """
        return False

    @property
    def is_scale_free(self) -> bool:
        """Whether the size of the weight was found to have no effect."""
        self._require_built()
        return float(ops.convert_to_numpy(self.measured)[0]) == SCALE_FREE[0]

    def _leaning(self, scale, noise, curvature, evidence):
        """Factor of the target where the data hardly say what it is."""
        return 1.0

    def build(self, weight_shape):
        """Makes the scales of a weight of this shape."""
        self._links.shape = tuple(weight_shape)
        start = math.log(self.initial_scale) / self.learning_rate_multiplier
        self.log_scale = self.add_weight(
            name="log_scale",
            shape=self._scale_shape(tuple(weight_shape)),
            initializer=keras.initializers.Constant(start),
            dtype="float32",
            autocast=False,
        )
        self.log_scale.trainable = self.trainable
        # Whether the curvature was measured (1) or means nothing (2), the
        # degrees of freedom then, and the logarithm of a weight's precision.
        self.measured = self.add_weight(
            name="measured",
            shape=(3,),
            initializer="zeros",
            dtype="float32",
            autocast=False,
            trainable=False,
        )

    def load_own_variables(self, store):
        """Loads the scales; files of version 0.1.0 hold nothing else."""
        if len(store.keys()) == 1:
            self.log_scale.assign(store["0"])
        else:
            super().load_own_variables(store)

    def _scale_shape(self, shape):
        if self.group == "tensor":
            return (1,) * len(shape)
        if self.group == "weight":
            return shape
        axis = len(shape) - (2 if self.group == "input" else 1)
        if axis < 0:
            raise ValueError(
                f"group={self.group!r} needs a weight with that axis. "
                f"Received: a weight of shape {shape}"
            )
        return tuple(n if i == axis else 1 for i, n in enumerate(shape))

    def __call__(self, weight):
        """The penalty of `weight`, a float32 scalar."""
        was_built = self.built
        owner = self.claim(weight)
        if owner is not self:
            return owner(weight)
        if was_built and self._links.weight is not None:
            self.say_what_is_assumed()
        weight = ops.cast(ops.convert_to_tensor(weight), "float32")
        log_scale = self._read_log_scale()
        if self.objective == "joint":
            penalty = ops.sum(self.prior_nll(weight, ops.exp(log_scale)))
            return penalty * (self._factor / self.num_examples)
        scale = ops.exp(ops.stop_gradient(log_scale))
        penalty = ops.sum(self.prior_nll(weight, scale))
        penalty = penalty * (self._factor / self.num_examples)
        if not self.trainable and self._links.noise is None:
            # A callback moves the scales, and no noise is learned.
            return penalty
        unseen = self._unseen(weight, log_scale)
        return penalty + unseen - ops.stop_gradient(unseen)

    def _unseen(self, weight, log_scale):
        """What moves the scales and the noise, worth nothing in value."""
        if not self.moves_in_training:
            # The callback moves the scales; a gradient of zero leaves them.
            return ops.sum(log_scale) * 0.0
        log_noise = self._read_log_noise()
        fixed = map(ops.stop_gradient, (weight, log_scale, log_noise))
        target, freedom = self._targets(*fixed)
        state = ops.convert_to_tensor(self.measured)
        freedom = ops.where(state[0] > 0, state[1], freedom)
        freedom = ops.minimum(freedom, self._links.most_freedom)
        copies = math.prod(weight.shape) / math.prod(log_scale.shape)
        # Adam makes equal steps for any size of this term, but SGD does not.
        rate = min(copies * self._factor / self.num_examples, 1.0)
        apart = ops.stop_gradient(log_scale) - ops.log(target)
        slope = ops.tanh(apart) * ops.maximum(1.0 - state[0], 0.0) * rate
        used = freedom * (self._factor / self.num_examples)
        return ops.sum(slope * log_scale) - used * log_noise

    def _targets(self, weight, log_scale, log_noise):
        scale, noise = ops.exp(log_scale), ops.exp(log_noise)
        evidence = self.evidence(weight, scale, noise)
        target = self.target_scale(weight, scale, evidence)
        return ops.stop_gradient(target), ops.stop_gradient(evidence.freedom)

    def leave_optimizer(self, leave: bool):
        """Keeps the scales out of an optimizer that is built after this.

        Where a callback moves them their gradient is zero, so an optimizer
        would move and multiply zeros in every step. It stays zero once they
        are measured.

        Args:
            leave: whether a callback will move them.
        """
        needs_none = self.objective == "evidence" and self._links.noise is None
        is_measured = float(ops.convert_to_numpy(self.measured)[0]) > 0
        self.trainable = not (needs_none and (leave or is_measured))

    def settle(self, curvature, *, least=0.0, target=None, factor=1.0):
        """Moves the scales towards those that a measured curvature supports.

        Args:
            curvature: a known `Curvature` of the weight.
            least: smallest scale to go to.
            target: scale to go to at once, whatever the curvature supports.
            factor: of the strength that the curvature supports.
        """
        weight = ops.convert_to_numpy(self._links.weight).astype("float64")
        if self.objective == "joint" or not np.all(np.isfinite(weight)):
            return
        scale = self.scale().astype("float64")
        noise = self._current_noise()
        found = self.measured_evidence(weight, scale, noise, curvature)
        chosen = target is not None
        if not chosen:
            target = self._measured_target(weight, scale, found)
            if scale.size == 1:
                target = target * self._leaning(scale, noise, curvature, found)
            target = target / math.sqrt(factor)
        move = np.log(np.maximum(target, least)) - np.log(scale)
        if not np.all(np.isfinite(move)):
            return
        if not chosen:
            move = self._accelerated(move)
            move = np.clip(move, -_LARGEST_MOVE, _LARGEST_MOVE)
        log_scale = (np.log(scale) + move) / self.learning_rate_multiplier
        self.log_scale.assign(log_scale)
        precision = np.mean(np.log(found.precision))
        self.measured.assign(np.array([1.0, found.freedom, precision]))

    def _read_log_scale(self):
        stored = ops.convert_to_tensor(self.log_scale)
        return scale_step(stored, self.learning_rate_multiplier)

    def _read_log_noise(self):
        if self._links.noise is None:
            return ops.convert_to_tensor(math.log(self.noise), "float32")
        noise = ops.cast(self._links.noise.value(), "float32")
        return ops.mean(ops.log(noise))

    def _current_noise(self):
        """The noise that a curvature is inversely proportional to, squared."""
        if self._links.noise is None:
            return 1.0
        return float(np.exp(ops.convert_to_numpy(self._read_log_noise())))

    def _gain(self, weight):
        return self.input_scale / math.sqrt(weight.shape[-1])

    @property
    def _factor(self):
        return 2.0 * self.noise**2 if self.loss == "mse" else 1.0

    def use_noise(self, parameter, most_freedom: float | None = None):
        """Takes the noise from a learned parameter of the loss.

        Args:
            parameter: a `GlobalParameter`, or `None` to go back to `noise`.
            most_freedom: cap on the degrees of freedom the weights may be
                taken to use up. Defaults to `num_examples`.
        """
        if parameter is not None and self.loss == "mse":
            raise ValueError(
                "A learned noise belongs to a negative log-likelihood. "
                "Received: loss='mse'"
            )
        self._links.noise = parameter
        self._links.most_freedom = most_freedom or self.num_examples

    def scale(self):
        """The learned scales as NumPy; they broadcast with the weight."""
        self._require_built()
        return ops.convert_to_numpy(ops.exp(self._read_log_scale()))

    def strength(self):
        """The factor of `keras.regularizers.L1` or `L2` that equals this one.

        Returns:
            NumPy array of the shape of `scale()`.
        """
        return self._factor * self._strength_of(self.scale())

    def switched_off(self, weight):
        """Which entries of `weight` the prior has switched off.

        Returns:
            Boolean NumPy array of the shape of `weight`.
        """
        self._require_built()
        weight = ops.cast(ops.convert_to_tensor(weight), "float32")
        scale, noise = ops.exp(self._read_log_scale()), self._read_log_noise()
        measured = ops.convert_to_numpy(self.measured)
        if measured[0] > 0:
            on = self._is_on(weight, scale, float(np.exp(measured[2])))
        else:
            on = self.evidence(weight, scale, ops.exp(noise)).on
        return ops.convert_to_numpy(on) == 0

    def effective_weights(self, weight) -> float:
        """The degrees of freedom that `weight` uses.

        `DRidge` and `MultiRidge` sum the share of each weight that the data
        determine; `DLasso` and `MultiLasso` count the weights that are on. It
        is 0 if the size of the weight has no effect.
        """
        self._require_built()
        measured = ops.convert_to_numpy(self.measured)
        if measured[0] > 0:
            return float(measured[1])
        weight = ops.cast(ops.convert_to_tensor(weight), "float32")
        scale, noise = ops.exp(self._read_log_scale()), self._read_log_noise()
        found = self.evidence(weight, scale, ops.exp(noise))
        return float(ops.convert_to_numpy(found.freedom))

    def _require_built(self):
        if not self.built:
            raise ValueError(
                f"{self.name} has no scales yet: fit the model, or call "
                "`build(weight.shape)`. Received: an unbuilt regularizer"
            )

    def get_config(self):
        return {
            **super().get_config(),
            "num_examples": self.num_examples,
            "group": self.group,
            "initial_scale": self.initial_scale,
            "noise": None if self._assumes_noise else self.noise,
            "loss": self.loss,
            "input_scale": self.input_scale,
            "learning_rate_multiplier": self.learning_rate_multiplier,
            "objective": self.objective,
        }


def _positive(name, value):
    if not 0 < value < float("inf"):
        raise ValueError(
            f"`{name}` must be a finite number > 0. Received: {value}"
        )
    return float(value)


def _one_of(name, value, allowed):
    if value not in allowed:
        raise ValueError(
            f"`{name}` must be one of {allowed}. Received: {value!r}"
        )
    return value
