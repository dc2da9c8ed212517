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


def _in_one_layer(first, weight):
    """Whether a saved file would hold one object for both weights.

    It does for the parts of one layer, and for the LoRA weights of a kernel.
    Two arguments of one layer are saved as two objects.
    """
    (*one, _), (*two, name) = first.path.split("/"), weight.path.split("/")
    return one[:1] == two[:1] and (one != two or name.startswith("lora_"))
