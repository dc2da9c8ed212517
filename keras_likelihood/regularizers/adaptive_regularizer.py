"""Base class of regularizers with a learned strength."""

import math
import types
import warnings
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.types import Array, Shape, Tensor
from keras_likelihood.likelihoods.checks import check_argument

_CHOICES = {
    "group": ("model", "tensor", "weight"),
    "objective": ("predictive", "joint"),
}
_LEAST = {"num_examples": 1, "initial_scale": 0}
_ATTENTION_PARTS = {"query", "key", "value", "attention_output"}


class AdaptiveRegularizer(keras.Layer, keras.regularizers.Regularizer):
    """Negative log-likelihood of the weights under a prior with a scale.

        penalty = sum_j -log p(w_j | scale) / num_examples

    Use it wherever Keras takes a regularizer. Its scales are saved and cloned
    with the layer that it regularizes. If a layer gives one regularizer to
    several weights, as `MultiHeadAttention` does, each weight gets a copy.

    The penalty has no minimum over weights *and* scale, because both can
    shrink to zero together. So the callback `LearnScales` chooses the scale to
    predict rows that were not used for training. `LikelihoodModel.fit` adds
    this callback. For a stock model, pass it to `fit`. `trainable = False`
    fixes the scale.

    A subclass defines `prior_nll`, `prior_gradient`, `share_determined`,
    `is_on` and `order`.

    Args:
        num_examples: number of likelihood terms that the loss averages over
            in an epoch, `> 1`. `fit` counts them. Your own training loop, and
            data sets that repeat their rows, need this argument.
        group: weights that share a scale: `"model"` (default; all of the model
            with this class of regularizer), `"tensor"` (those of one tensor, as
            in the paper) or `"weight"` (each its own).
        initial_scale: initial value of the scales, `> 0`. By default `fit`
            chooses it.
        objective: `"predictive"` (default): the callback chooses the scales.
            With `"joint"` they minimize the penalty together with the weights,
            as in the paper: `DRidge` and `DLasso` shrink everything to zero
            unless training stops early.
        name: name of the regularizer.

    Attributes:
        source: which rows chose the scales, `""` before `fit`.
        history: median of `strength()` after each epoch of `fit`.
    """

    order = 1
    """The strength is proportional to `scale ** -order`."""
    prior_nll: Callable[..., Tensor]
    """`-log p(weight | scale)`, complete; shape of `weight`."""
    prior_gradient: Callable[..., Tensor]
    """Gradient of `prior_nll` by the weight, up to a factor of the scale."""
    share_determined: Callable[..., Tensor]
    """Share of each weight that data of this precision determine."""
    is_on: Callable[..., Array]
    """Which entries are on, given the precision of a typical entry."""

    def __init__(
        self,
        *,
        num_examples: float | None = None,
        group: str = "model",
        initial_scale: float | None = None,
        objective: str = "predictive",
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, autocast=False, **kwargs)
        # Keras does not track the attributes of a plain namespace.
        self._owned = types.SimpleNamespace(weight=None)
        self._shape: Shape | None = None
        self.is_learned = False
        """Whether a `LearnScales` callback learns the scales."""
        self.source = ""
        self.history: list[float] = []
        # Keras does not allow new sublayers after `build`. This layer has no
        # `build`, so copies can be added later, for example by `enable_lora`.
        self._copies = keras.Layer(name="copies")
        self._copies.made, self._copies.built = [], True
        self.group, self.objective = group, objective
        for name, allowed in _CHOICES.items():
            value = getattr(self, name)
            check_argument(name, value, value in allowed, f"one of {allowed}")
        self.num_examples = num_examples and float(num_examples)
        self.initial_scale = initial_scale and float(initial_scale)
        for name, least in _LEAST.items():
            value = getattr(self, name)
            fits = value is None or least < value < math.inf
            check_argument(name, value, fits, f"a finite number > {least}")

    def build(self, weight_shape: Shape) -> None:
        """Makes the scales of a weight of this shape."""
        shape = self._shape = tuple(weight_shape)
        if self.group != "weight":
            shape = (1,) * len(shape)
        self.log_scale = self._add_number(
            "log_scale",
            math.log(self.initial_scale or 1.0),
            shape=shape,
            trainable=self.objective == "joint",
        )
        self.freedom = self._add_number("freedom", -1.0)
        self.terms = self._add_number("terms", self.num_examples or 0.0)
        self.log_precision = self._add_number("log_precision", 0.0)

    def _add_number(self, name: str, value: float, **options: Any) -> Any:
        options = {"shape": (), "trainable": False, **options}
        options |= {"dtype": "float32", "autocast": False, "name": name}
        start = keras.initializers.Constant(value)
        return self.add_weight(initializer=start, **options)

    def get_build_config(self) -> dict[str, Any] | None:
        if self._shape is None:
            return None
        owners = (self, *self._copies.made)
        return {"weight_shapes": [list(owner._shape) for owner in owners]}

    def build_from_config(self, config: dict[str, Any]) -> None:
        first, *others = config["weight_shapes"]
        self.build(tuple(first))
        for shape in others:
            self._copy(shape)

    def _copy(self, shape: Shape) -> Any:
        copy = type(self).from_config(self.get_config())
        copy.build(tuple(shape))
        self._copies.made.append(copy)
        return copy

    def claim(self, weight: Tensor) -> Any:
        """The object that regularizes this weight, with its variables made."""
        # A compiled JAX step passes bare arrays. By then every weight was seen
        # as a variable, in the symbolic build.
        is_bare = not isinstance(weight, keras.Variable)
        is_own = is_bare or weight is self._owned.weight
        owner = self if is_own else self._free_for(weight)
        if not owner.built:
            owner.build(tuple(weight.shape))
        return owner

    def _free_for(self, weight: Any) -> Any:
        """This object or a copy, without a weight and of the right shape."""
        first = self._owned.weight
        if first is not None and not _in_one_layer(first, weight):
            raise ValueError(
                f"{self.name} already regularizes {first.path} "
                "and learns its scale. Give every weight a regularizer of its "
                f"own. Received: {weight.path}"
            )
        shape = tuple(weight.shape)
        for owner in (self, *self._copies.made):
            is_free = owner._owned.weight is None
            if is_free and owner._shape in (None, shape):
                break
        else:
            owner = self._copy(shape)
        owner._owned.weight = weight
        if owner is not self:
            owner.is_learned = self.is_learned
            weight.regularizer = owner
        return owner

    def save_own_variables(self, store: Any) -> None:
        super().save_own_variables(store)
        store["source"] = np.frombuffer(self.source.encode(), "uint8")

    def load_own_variables(self, store: Any) -> None:
        self.is_learned = True
        saved = {name: np.asarray(store[name]) for name in store.keys()}
        self.source = saved.pop("source", np.empty(0)).tobytes().decode()
        super().load_own_variables(saved)

    def check_counted(self) -> None:
        """Raises an error if the number of likelihood terms is not known."""
        if self.built and not float(ops.convert_to_numpy(self.terms)) > 0:
            raise ValueError(
                "`num_examples` is needed unless `fit` counts the likelihood "
                "terms (with `LikelihoodModel`, or with the callback "
                "`LearnScales`). Received: num_examples=None for "
                f"{self._owned.weight.path}"
            )

    def _warn_if_not_learned(self) -> None:
        is_fixed = not self.trainable or self.objective == "joint"
        if self.is_learned or is_fixed:
            return
        if self.num_examples is None:
            self.check_counted()
        warnings.warn(
            f"The scale of {self.name} stays at its present value. "
            "`LikelihoodModel.fit` learns it; for another model, add the "
            "callback `keras_likelihood.regularizers.LearnScales` to "
            "`fit`. Set `trainable = False` to keep the scale.",
            stacklevel=4,
        )
        self.is_learned = True

    def __call__(self, weight: Tensor) -> Tensor:
        """The penalty of `weight`; 0 until the number of terms is known."""
        is_first = self._owned.weight is None
        owner = self.claim(weight)
        if owner is not self:
            return owner(weight)
        if not is_first:
            # At the first call, Keras has not called the callbacks yet.
            self._warn_if_not_learned()
        weight = ops.cast(ops.convert_to_tensor(weight), "float32")
        nll = self.prior_nll(weight, ops.exp(self.log_scale))
        share = ops.where(self.terms > 0, 1.0 / ops.maximum(self.terms, 1.0), 0)
        return ops.sum(nll) * share

    def scale(self) -> Array:
        """The scales as NumPy; they broadcast with the weight."""
        self._require_built()
        return np.asarray(np.exp(ops.convert_to_numpy(self.log_scale)))

    def set_scale(self, scale: Any) -> None:
        """Sets the scales to positive numbers that broadcast with them."""
        self._require_built()
        log_scale = np.broadcast_to(np.log(scale), tuple(self.log_scale.shape))
        check_argument("scale", scale, np.isfinite(log_scale).all(), "> 0")
        self.log_scale.assign(log_scale)

    def strength(self) -> Array:
        """The factors of `keras.regularizers.L1` or `L2` that equal this."""
        scale = self.scale()
        terms = float(ops.convert_to_numpy(self.terms))
        return scale**-self.order / (self.order * max(terms, 1.0))

    def switched_off(self, weight: Tensor) -> Array:
        """Which entries of `weight` are off, a boolean array of its shape."""
        precision = np.exp(ops.convert_to_numpy(self.log_precision))
        weight = ops.convert_to_numpy(weight).astype("float32")
        return ~self.is_on(weight, self.scale(), precision)

    def effective_weights(self) -> float:
        """The degrees of freedom that the weight uses, NaN if not measured."""
        self._require_built()
        freedom = float(ops.convert_to_numpy(self.freedom))
        return freedom if freedom >= 0 else math.nan

    def _require_built(self) -> None:
        if not self.built:
            raise ValueError(
                f"{self.name} has no scales yet: fit the model, or call "
                "`build(weight.shape)`. Received: an unbuilt regularizer"
            )

    def get_config(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in (*_CHOICES, *_LEAST)}
        return {**super().get_config(), **own}


def _in_one_layer(first: Any, weight: Any) -> bool:
    """Whether weights are of one attention layer, or a kernel and its LoRA."""
    (*one, _), (*two, name) = first.path.split("/"), weight.path.split("/")
    if one == two:
        return name.startswith("lora_")
    return bool(one[:-1] == two[:-1] and {one[-1], two[-1]} <= _ATTENTION_PARTS)
