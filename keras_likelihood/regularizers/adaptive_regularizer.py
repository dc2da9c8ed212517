"""Base class of regularizers with a learned strength."""

import math
import warnings
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.custom_gradient import scale_step
from keras_likelihood.likelihoods.checks import check_argument
from keras_likelihood.regularizers.one_per_weight import OnePerWeight

_CHOICES = {
    "group": ("tensor", "input", "output", "weight"),
    "loss": ("nll", "mse"),
    "objective": ("evidence", "joint"),
}
_LEAST = {"num_examples": 1, "initial_scale": 0, "noise": 0}
_LEAST |= {"learning_rate_multiplier": 0}


class AdaptiveRegularizer(OnePerWeight, keras.regularizers.Regularizer):
    """Negative log-likelihood of the weights under a prior with a scale.

        penalty = factor * sum_j -log p(w_j | scale) / num_examples

    `factor` is 1 if the loss is a negative log-likelihood, and `2 noise^2` if
    it is the mean squared error. Use it wherever Keras takes a regularizer.
    Its scales are weights of the layer that it regularizes, so they are saved
    and cloned with the layer. One object holds the scales of one weight. If a
    layer gives one regularizer to several weights, as `MultiHeadAttention`
    does, each weight gets a copy.

    The penalty has no minimum over weights *and* scale, because both can
    shrink to zero together. So the scale is not trained by the optimizer, but
    by the callback `LearnScales`. `LikelihoodModel.fit` adds this callback. For
    a stock model, pass it to `fit`. `trainable = False` fixes the scale.

    A subclass defines `prior_nll`, `pull`, `is_on` and `order`.

    Args:
        num_examples: number of likelihood terms that the loss averages over
            in an epoch, `> 1`.
        group: weights that share a scale: `"tensor"`, `"input"` (those of
            one input feature), `"output"` (those of one output unit) or
            `"weight"` (each its own).
        initial_scale: initial value of the scales, `> 0`. By default the
            rule chooses it, or else it is 1.
        noise: standard deviation of the targets around a perfect prediction,
            `> 0`. Only the mean squared error needs it. Defaults to 1.
        loss: `"nll"` (default) if the loss is a negative log-likelihood,
            `"mse"` if it is Keras' mean squared error.
        learning_rate_multiplier: factor on the optimizer's steps in the
            scales, for `objective="joint"`. Defaults to 1.
        objective: `"evidence"` (default): the callback moves the scales. With
            `"joint"` the scale is an ordinary trainable weight, which
            minimises the penalty together with the weights, as in the paper.
            It has no minimum: `DRidge` and `DLasso` shrink everything to zero
            unless training stops early.
        name: name of the regularizer.
    """

    order = 1
    """The strength is proportional to `scale ** -order`."""
    evidence_scale: Any = None
    """How the rule `Evidence` finds the scales, one of `prior_scales`."""

    def __init__(
        self,
        *,
        num_examples: float,
        group: str = "tensor",
        initial_scale: float | None = None,
        noise: float = 1.0,
        loss: str = "nll",
        learning_rate_multiplier: float = 1.0,
        objective: str = "evidence",
        name: str | None = None,
        **kwargs,
    ):
        super().__init__(name=name, **kwargs)
        self.group, self.loss, self.objective = group, loss, objective
        for name, allowed in _CHOICES.items():
            value = getattr(self, name)
            check_argument(name, value, value in allowed, f"one of {allowed}")
        self.num_examples = float(num_examples)
        self.initial_scale = initial_scale and float(initial_scale)
        self.noise = float(noise)
        self.learning_rate_multiplier = float(learning_rate_multiplier)
        for name, least in _LEAST.items():
            value = getattr(self, name)
            fits = value is None or least < value < math.inf
            check_argument(name, value, fits, f"a finite number > {least}")
        self.factor = 2.0 * noise**2 if loss == "mse" else 1.0
        """Factor of the negative log-likelihood in the penalty."""

    def prior_nll(self, weight, scale):
        """`-log p(weight | scale)`, complete; shape of `weight`."""
        raise NotImplementedError

    def pull(self, weight):
        """Gradient of `prior_nll`, up to a factor that depends on the scale."""
        raise NotImplementedError

    def is_on(self, weight, scale, precision):
        """Which entries are on, given the inverse variance of an entry."""
        raise NotImplementedError

    def build(self, weight_shape):
        """Makes the scales of a weight of this shape."""
        shape = self._links.shape = tuple(weight_shape)
        start = math.log(self.initial_scale or 1.0)
        start /= self.learning_rate_multiplier
        # Inputs of size 1 are assumed until a rule measures the curvature.
        precision = self.num_examples / (self.noise**2 * shape[-1])

        def add(name, value, shape=(), trainable=False):
            start = keras.initializers.Constant(value)
            given = {"trainable": trainable, "autocast": False, "name": name}
            return self.add_weight(shape, start, "float32", **given)

        shape, is_joint = self._scale_shape(shape), self.objective == "joint"
        self.log_scale = add("log_scale", start, shape, is_joint)
        self.log_precision = add("log_precision", math.log(precision))
        self.freedom = add("freedom", -1.0)

    @property
    def variables(self):
        """Those that a training step reads; `weights` has all of them."""
        # On JAX, Keras passes each of them through every step.
        read = [self.log_scale, self.freedom] if self.built else []
        return read + self._copies.variables

    def _scale_shape(self, shape):
        if self.group in ("tensor", "weight"):
            return shape if self.group == "weight" else (1,) * len(shape)
        axis = len(shape) - (2 if self.group == "input" else 1)
        if axis < 0:
            raise ValueError(
                f"group={self.group!r} needs a weight with that axis. "
                f"Received: a weight of shape {shape}"
            )
        return tuple(n if i == axis else 1 for i, n in enumerate(shape))

    def load_own_variables(self, store):
        self._links.is_learned = True
        if len(store.keys()) == 3:
            super().load_own_variables(store)
            return
        self.log_scale.assign(store["0"])
        if len(store.keys()) == 2:
            # Version 0.2. Version 0.1 saved only the scales.
            is_measured, freedom, log_precision = np.asarray(store["1"])
            if is_measured == 1:
                self.freedom.assign(freedom)
                self.log_precision.assign(log_precision)

    def _warn_if_not_learned(self):
        needs_callback = self.trainable and self.objective == "evidence"
        if self._links.is_learned or not needs_callback:
            return
        warnings.warn(
            f"The scale of {self.name} stays at its present value. "
            "`LikelihoodModel.fit` learns it; for another model, add the "
            "callback `keras_likelihood.regularizers.LearnScales` to "
            "`fit`. Set `trainable = False` to keep the scale.",
            stacklevel=4,
        )
        self._links.is_learned = True

    def __call__(self, weight):
        """The penalty of `weight`, a float32 scalar."""
        is_first = self._links.weight is None
        owner = self.claim(weight)
        if owner is not self:
            return owner(weight)
        if not is_first:
            # At the first call, Keras has not called the callbacks yet.
            self._warn_if_not_learned()
        weight = ops.cast(ops.convert_to_tensor(weight), "float32")
        scale = ops.exp(self._read_log_scale())
        penalty = ops.sum(self.prior_nll(weight, scale))
        return penalty * (self.factor / self.num_examples)

    def _read_log_scale(self):
        stored = ops.convert_to_tensor(self.log_scale)
        return scale_step(stored, self.learning_rate_multiplier)

    def scale(self):
        """The scales as NumPy; they broadcast with the weight."""
        self._require_built()
        return ops.convert_to_numpy(ops.exp(self._read_log_scale()))

    def set_scale(self, scale):
        """Sets the scales to positive numbers that broadcast with them."""
        self._require_built()
        self.log_scale.assign(self.stored(scale))

    def stored(self, scale):
        """The value of `log_scale` for these scales, a float32 array."""
        found = np.log(scale) / self.learning_rate_multiplier
        shape = tuple(self.log_scale.shape)
        found = np.broadcast_to(found, shape).astype("float32")
        check_argument("scale", scale, np.isfinite(found).all(), "> 0")
        return found

    def strength(self):
        """The factors of `keras.regularizers.L1` or `L2` that equal this."""
        share = self.factor / (self.order * self.num_examples)
        return share * self.scale() ** -self.order

    def switched_off(self, weight):
        """Which entries of `weight` are off, a boolean array of its shape."""
        precision = np.exp(ops.convert_to_numpy(self.log_precision))
        weight = ops.convert_to_numpy(weight).astype("float32")
        return ~self.is_on(weight, self.scale(), precision)

    def effective_weights(self) -> float:
        """The degrees of freedom that the weight uses, NaN if not measured.

        L2 priors sum the share of each weight that the data determine; L1
        priors count the weights that are on.
        """
        self._require_built()
        freedom = float(ops.convert_to_numpy(self.freedom))
        return freedom if freedom >= 0 else math.nan

    def _require_built(self):
        if not self.built:
            raise ValueError(
                f"{self.name} has no scales yet: fit the model, or call "
                "`build(weight.shape)`. Received: an unbuilt regularizer"
            )

    def get_config(self):
        own = {name: getattr(self, name) for name in (*_CHOICES, *_LEAST)}
        return {**super().get_config(), **own}

    @classmethod
    def from_config(cls, config):
        config = dict(config)
        if config.pop("input_scale", None):
            # Version 0.2 froze a prior while a callback moved its scale.
            del config["trainable"]
            config["noise"] = config["noise"] or 1.0
        return cls(**config)
