"""The base of regularizers that learn their own strength."""

import math
import types

import keras
from keras import ops

from keras_likelihood.backend.gradients import scale_step

_GROUPS = ("tensor", "input", "output", "weight")
_LOSSES = ("nll", "mse")


class AdaptiveRegularizer(keras.Layer, keras.regularizers.Regularizer):
    """Negative log-likelihood of the weights, under a prior of learned scale.

        penalty = factor * sum_j -log p(w_j | scale) / num_examples

    with `factor = 1` beside a negative log-likelihood and `2 noise^2` beside
    the mean squared error. It goes where a Keras regularizer goes; its scales
    are weights of the layer it regularizes, so they are trained, saved and
    cloned with it. One object regularizes one weight: a second one is refused.

    Minimising the penalty over weights *and* scale has no minimum, since both
    may shrink to zero together. So the weights see the penalty, while the
    scale is drawn towards `target_scale`, the one that the data support; the
    optimizer takes the steps of both. Likewise a noise scale that the loss
    learns gets the degrees of freedom that the weights use up,
    `-(df / n) log(noise)`, without which it would follow the residuals of an
    interpolating model to zero. Both are zero in value: the loss reads as the
    joint negative log-likelihood.

    A subclass gives `prior_nll`, `evidence`, `target_scale` and
    `_strength_of`.

    Args:
        num_examples: number of likelihood terms that the loss averages over
            in a pass over the training data, `> 1`.
        group: weights that share a scale: `"tensor"`, `"input"` (those of
            one input feature), `"output"` (those of one output unit) or
            `"weight"` (each its own).
        initial_scale: value the scales start from, `> 0`. Defaults to 1.
        noise: standard deviation of the targets around a perfect prediction,
            `> 0`; replaced by the learned one where `bind_noise` finds it.
            Defaults to 1.
        loss: `"nll"` (default) if the loss is a negative log-likelihood,
            `"mse"` if it is Keras' mean squared error.
        input_scale: root mean square of what the weights multiply, `> 0`.
            Defaults to 1, standardised inputs. The units of a layer are
            taken to share the outcome equally: one of `m` outputs has a
            `1/m` part in a loss averaged over outputs, one of `m` hidden
            units a `1/m` part in the variance of what follows.
        learning_rate_multiplier: factor on the optimizer's steps in the
            scales. Defaults to 1.
        name: name of the regularizer.
    """

    def __init__(
        self,
        *,
        num_examples: float,
        group: str = "tensor",
        initial_scale: float = 1.0,
        noise: float = 1.0,
        loss: str = "nll",
        input_scale: float = 1.0,
        learning_rate_multiplier: float = 1.0,
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
        self.noise = _positive("noise", noise)
        self.input_scale = _positive("input_scale", input_scale)
        self.learning_rate_multiplier = _positive(
            "learning_rate_multiplier", learning_rate_multiplier
        )
        # A plain namespace, which Keras' attribute tracking leaves alone.
        self._links = types.SimpleNamespace(
            weight=None, noise=None, most_freedom=self.num_examples
        )

    def prior_nll(self, weight, scale):
        """`-log p(weight | scale)`, complete; shape of `weight`."""
        raise NotImplementedError

    def evidence(self, weight, scale, noise):
        """The `Evidence` about `weight` given the scales and the noise."""
        raise NotImplementedError

    def target_scale(self, weight, scale, evidence):
        """The scales that the data support; shape of `scale`."""
        raise NotImplementedError

    def _strength_of(self, scale):
        raise NotImplementedError

    def build(self, weight_shape):
        """Makes the scales of a weight of this shape."""
        start = math.log(self.initial_scale) / self.learning_rate_multiplier
        self.log_scale = self.add_weight(
            name="log_scale",
            shape=self._scale_shape(tuple(weight_shape)),
            initializer=keras.initializers.Constant(start),
            dtype="float32",
            autocast=False,
        )

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
        self._claim(weight)
        if not self.built:
            self.build(tuple(weight.shape))
        weight = ops.cast(ops.convert_to_tensor(weight), "float32")
        log_scale, log_noise = self._read_log_scale(), self._read_log_noise()
        target, freedom = self._targets(
            *map(ops.stop_gradient, (weight, log_scale, log_noise))
        )
        copies = float(math.prod(weight.shape) / math.prod(log_scale.shape))
        pull = 0.5 * copies * ops.sum(ops.square(log_scale - ops.log(target)))
        unseen = pull - freedom * log_noise
        scale = ops.exp(ops.stop_gradient(log_scale))
        penalty = ops.sum(self.prior_nll(weight, scale))
        penalty = penalty + unseen - ops.stop_gradient(unseen)
        return penalty * (self._factor / self.num_examples)

    def _targets(self, weight, log_scale, log_noise):
        scale, noise = ops.exp(log_scale), ops.exp(log_noise)
        evidence = self.evidence(weight, scale, noise)
        target = self.target_scale(weight, scale, evidence)
        freedom = ops.minimum(evidence.freedom, self._links.most_freedom)
        return ops.stop_gradient(target), ops.stop_gradient(freedom)

    def _claim(self, weight):
        # A compiled JAX step passes bare arrays; by then the symbolic build
        # has shown every weight as a variable.
        if not isinstance(weight, keras.Variable):
            return
        if self._links.weight is None:
            self._links.weight = weight
        elif self._links.weight is not weight:
            raise ValueError(
                f"{self.name} already regularizes {self._links.weight.path} "
                "and learns its scale. Give every weight a regularizer of its "
                f"own. Received: {weight.path}"
            )

    def _read_log_scale(self):
        stored = ops.convert_to_tensor(self.log_scale)
        return scale_step(stored, self.learning_rate_multiplier)

    def _read_log_noise(self):
        if self._links.noise is None:
            return ops.convert_to_tensor(math.log(self.noise), "float32")
        noise = ops.cast(self._links.noise.value(), "float32")
        return ops.mean(ops.log(noise))

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
        on = self.evidence(weight, scale, ops.exp(noise)).on
        return ops.convert_to_numpy(on) == 0

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
            "noise": self.noise,
            "loss": self.loss,
            "input_scale": self.input_scale,
            "learning_rate_multiplier": self.learning_rate_multiplier,
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
