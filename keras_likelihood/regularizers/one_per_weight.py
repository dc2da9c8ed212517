"""A regularizer with variables for one weight, and copies for others."""

import types
from typing import Any

import keras

from keras_likelihood.backend.types import Shape, Tensor

_ATTENTION_PARTS = {"query", "key", "value", "attention_output"}


class OnePerWeight(keras.Layer):
    """A layer that regularizes one weight, and copies itself for others.

    A layer of Keras may give one regularizer to several of its weights.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        # Keras does not track the attributes of a plain namespace.
        self._links = types.SimpleNamespace(
            weight=None, shape=None, is_learned=False
        )
        self.source = ""
        self.history: list[float] = []
        self._copies = Copies(name="copies")

    def get_build_config(self) -> dict[str, Any] | None:
        if self._links.shape is None:
            return None
        shapes = [c._links.shape for c in (self, *self._copies.made)]
        return {"weight_shapes": list(map(list, shapes))}

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

    def expect_callback(self) -> None:
        """Records that a `LearnScales` callback learns the scales."""
        self._links.is_learned = True

    def claim(self, weight: Tensor) -> Any:
        """The object that regularizes this weight, with its variables made."""
        # A compiled JAX step passes bare arrays. By then every weight was seen
        # as a variable, in the symbolic build.
        is_bare = not isinstance(weight, keras.Variable)
        is_own = is_bare or weight is self._links.weight
        owner = self if is_own else self._free_for(weight)
        if not owner.built:
            owner.build(tuple(weight.shape))
        return owner

    def _free_for(self, weight: Any) -> Any:
        """This object or a copy, without a weight and of the right shape."""
        first = self._links.weight
        if first is not None and not _in_one_layer(first, weight):
            raise ValueError(
                f"{self.name} already regularizes {first.path} "
                "and learns its scale. Give every weight a regularizer of its "
                f"own. Received: {weight.path}"
            )
        shape = tuple(weight.shape)
        for owner in (self, *self._copies.made):
            links = owner._links
            if links.weight is None and links.shape in (None, shape):
                break
        else:
            owner = self._copy(shape)
        owner._links.weight = weight
        if owner is not self:
            owner._links.is_learned = self._links.is_learned
            weight.regularizer = owner
        return owner


class Copies(keras.Layer):
    """Holds the copies that a regularizer makes of itself.

    Keras does not allow new sublayers after `build`. This layer has no `build`,
    so copies can be added later, for example by `enable_lora`.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.made: list[Any] = []
        # Keras would run a model with an unbuilt layer again before each use.
        self.built = True


def _in_one_layer(first: Any, weight: Any) -> bool:
    """Whether a saved file holds one regularizer for both weights.

    It does for the parts of an attention layer, and for a kernel with its
    LoRA weights. Other layers each save a regularizer of their own.
    """
    (*one, _), (*two, name) = first.path.split("/"), weight.path.split("/")
    if one == two:
        return name.startswith("lora_")
    return bool(one[:-1] == two[:-1] and {one[-1], two[-1]} <= _ATTENTION_PARTS)
