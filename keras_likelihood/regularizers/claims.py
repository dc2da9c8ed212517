"""Finds the weight whose scales a regularizer learns."""

import types
import warnings

import keras

_PARTS = {"query", "key", "value", "attention_output"}


class ClaimsOneWeight:
    """Makes an object regularize one weight, and copy itself for others.

    The part of `AdaptiveRegularizer` that does not concern its prior.
    """

    def _claim_nothing(self):
        # Keras does not track the attributes of a plain namespace.
        self._links = types.SimpleNamespace(
            weight=None,
            shape=None,
            noise=None,
            most_freedom=self.num_examples,
            silent=False,
            measured=False,
            pace=None,
        )
        self._copies = Copies()

    def fits(self, weight) -> bool:
        """Whether this object is free, and built for such a weight or not."""
        shape = self._links.shape
        return self._links.weight is None and (
            shape is None or shape == tuple(weight.shape)
        )

    def take_links(self, original, weight):
        """Regularizes `weight` with the noise that `original` knows."""
        self._links.weight = weight
        self._links.noise = original._links.noise
        self._links.silent = True

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

    def say_what_is_assumed(self):
        """Warns, the first time, that nothing measures the curvature."""
        if self._links.silent:
            return
        if self._links.weight.trainable and not self.trainable:
            warnings.warn(
                "The scales of an adaptive regularizer stay as they are: its "
                "model was trained by `LikelihoodModel.fit`, which moves them "
                "by a callback. Train it so again, with the callback "
                "`MeasuredCurvature`, or set `trainable` of the regularizer "
                "to True before `compile`.",
                stacklevel=2,
            )
            self.keep_silent()
            return
        known = self.loss == "mse" or self._links.noise is not None
        if known or not self._assumes_noise:
            return
        warnings.warn(
            "An adaptive regularizer measures the curvature of the loss only "
            "in `LikelihoodModel.fit` or with the callback "
            "`MeasuredCurvature`. Here it assumes the negative log-likelihood "
            "of a normal target with standard deviation 1, and uncorrelated "
            "inputs of size 1. Give `noise` (beside the mean squared error "
            "also loss='mse') if that is meant.",
            stacklevel=2,
        )
        self.keep_silent()

    def follow_measurements(self, measured: bool) -> bool:
        """Says whether a callback will move the scales in this training.

        Returns:
            Whether a compiled training step assumes something else.
        """
        changed = self._links.measured != measured
        self._links.measured, self._links.pace = measured, None
        return changed

    @property
    def moves_in_training(self) -> bool:
        """Whether a training step has gradients that move the scales."""
        return not self._links.measured or self._links.noise is not None

    def keep_silent(self):
        """Turns `say_what_is_assumed` off."""
        self._links.silent = True

    def speak_again(self):
        """Turns `say_what_is_assumed` on."""
        self._links.silent = False


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
        if original.built and (first is None or not first.trainable):
            # LoRA has frozen the kernel, whose prior rests with it.
            original.log_scale.trainable = False
        free = [c for c in self.made if c.fits(weight)]
        copy = free[0] if free else self.make(original, weight.shape)
        if not free:
            # Nobody has measured this weight yet.
            copy.trainable = True
        copy.take_links(original, weight)
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
    return one[:-1] == two[:-1] and {one[-1], two[-1]} <= _PARTS
