"""Finds the weight whose scales a regularizer holds."""

import types
import warnings
from collections.abc import Callable

import keras

GROUPS = ("tensor", "input", "output", "weight")
"""Which entries of a weight share a scale."""

_ATTENTION_PARTS = {"query", "key", "value", "attention_output"}


class RegularizesOneWeight:
    """Makes an object regularize one weight, and copy itself for others.

    The part of `AdaptiveRegularizer` that does not concern its prior.
    """

    trainable: bool
    objective: str
    name: str
    build: Callable

    def _regularize_nothing(self):
        # Keras does not track the attributes of a plain namespace.
        self._links = types.SimpleNamespace(
            weight=None, shape=None, is_learned=False
        )
        self._copies = Copies()

    def fits(self, weight) -> bool:
        """Whether this object is free, and built for such a weight or not."""
        shape = self._links.shape
        return self._links.weight is None and (
            shape is None or shape == tuple(weight.shape)
        )

    def claim(self, weight):
        """The object that regularizes this weight, with its scales made."""
        owner = self._owner(weight)
        if not owner.built:
            owner.build(tuple(weight.shape))
        return owner

    def _owner(self, weight):
        # A compiled JAX step passes bare arrays; by then the symbolic build
        # has shown every weight as a variable.
        if not isinstance(weight, keras.Variable):
            return self
        if self.fits(weight):
            self._links.weight = weight
        if self._links.weight is not weight:
            return self._copies.claim(self, self._links.weight, weight)
        return self

    def expect_callback(self):
        """Says that a `LearnScales` callback moves the scales."""
        self._links.is_learned = True

    def _warn_if_not_learned(self):
        if self._links.is_learned or not self.trainable:
            return
        if self.objective == "evidence":
            warnings.warn(
                f"The scale of {self.name} stays at its present value. "
                "`LikelihoodModel.fit` learns it; for another model, add the "
                "callback `keras_likelihood.regularizers.LearnScales` to "
                "`fit`. Set `trainable = False` to keep the scale.",
                stacklevel=4,
            )
        self._links.is_learned = True

    def get_build_config(self):
        if self._links.shape is None:
            return None
        shapes = [c._links.shape for c in (self, *self._copies.made)]
        return {"weight_shapes": [s and list(s) for s in shapes]}

    def build_from_config(self, config):
        first, *others = config.get("weight_shapes") or [
            config.get("input_shape")
        ]
        if first is not None:
            self.build(tuple(first))
        for shape in others:
            self._copies.make(self, shape)


class Copies(keras.Layer):
    """Holds the copies that a regularizer makes of itself.

    Keras forbids a layer to take in new layers after its `build`. This one
    has none, so that `enable_lora` after training finds it open.
    """

    def __init__(self):
        super().__init__(name="copies")
        self.made = []
        # A model with an unbuilt layer is run once more before each use.
        self.built = True

    def make(self, original, shape):
        """A copy of `original` for a weight of this shape."""
        copy = type(original).from_config(original.get_config())
        copy.build(tuple(shape))
        self.made.append(copy)
        return copy

    def claim(self, original, first, weight):
        """The copy for `weight`, where `original` regularizes `first`."""
        if first is not None and not _in_one_layer(first, weight):
            raise ValueError(
                f"{original.name} already regularizes {first.path} "
                "and learns its scale. Give every weight a regularizer of its "
                f"own. Received: {weight.path}"
            )
        free = [c for c in self.made if c.fits(weight)]
        copy = free[0] if free else self.make(original, weight.shape)
        copy._links.weight = weight
        copy._links.is_learned = original._links.is_learned
        weight.regularizer = copy
        return copy


def scale_shape(group: str, shape: tuple) -> tuple:
    """Shape of the scales of a weight of this shape."""
    if group == "tensor":
        return (1,) * len(shape)
    if group == "weight":
        return shape
    axis = len(shape) - (2 if group == "input" else 1)
    if axis < 0:
        raise ValueError(
            f"group={group!r} needs a weight with that axis. "
            f"Received: a weight of shape {shape}"
        )
    return tuple(n if i == axis else 1 for i, n in enumerate(shape))


def _in_one_layer(first, weight):
    """Whether a saved file holds one regularizer for both weights.

    It does for the parts of an attention layer, and for a kernel with its
    LoRA weights. Other layers each save a regularizer of their own.
    """
    (*one, _), (*two, name) = first.path.split("/"), weight.path.split("/")
    if one == two:
        return name.startswith("lora_")
    parts = {one[-1], two[-1]}
    return one[:-1] == two[:-1] and parts <= _ATTENTION_PARTS
