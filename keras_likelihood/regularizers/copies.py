"""The copies that a regularizer makes of itself, one for each weight."""

import keras

_ATTENTION_PARTS = {"query", "key", "value", "attention_output"}


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
