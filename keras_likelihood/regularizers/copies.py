"""One regularizer object, given to several weights of one layer."""

import keras


class Copies(keras.Layer):
    """Holds the copies that a regularizer makes of itself.

    Keras forbids a built layer to take in new layers. This one is never
    built, so that `enable_lora` after training finds it open.
    """

    def __init__(self):
        super().__init__(name="copies")
        self.made = []

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
        copy.take_links(original, weight)
        weight.regularizer = copy
        return copy


_PARTS = {"query", "key", "value", "attention_output"}


def _in_one_layer(first, weight):
    """Whether a saved file holds one regularizer for both weights.

    It does for the parts of an attention layer, and for a kernel with its
    LoRA weights. Other layers each save a regularizer of their own.
    """
    one, two = first.path.split("/"), weight.path.split("/")
    if one[-1].startswith("lora_") or two[-1].startswith("lora_"):
        one, two = one[:-1], two[:-1]
        if one == two:
            return True
    else:
        one, two = one[:-1], two[:-1]
    parts = {one[-1], two[-1]} if one and two else set()
    return one[:-1] == two[:-1] and parts <= _PARTS and len(parts) == 2
