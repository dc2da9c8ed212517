"""The weight decay of weights whose size the data cannot tell."""

import functools

import keras

from keras_likelihood.regularizers.pruning import other_variables
from keras_likelihood.regularizers.scale_free import (
    decay_strength,
    known_by_graph,
)


class Decays:
    """Finds these weights, gives their priors a decay, and keeps it.

    Args:
        model: the model in training.
        weights: its weights with an adaptive regularizer.
        epochs: number of epochs of the training.
        epoch_steps: number of steps of an epoch, `None` if it is not known.
    """

    def __init__(self, model, weights, epochs, epoch_steps):
        self._model, self._weights = model, weights
        self._epochs, self._epoch_steps = epochs, epoch_steps
        self._known = known_by_graph(model, weights)
        self._chosen: list = []
        self.is_sorted = False
        """Whether the weights have been looked for."""

    def __bool__(self):
        return bool(self._chosen)

    @property
    def need_no_gradients(self) -> bool:
        """Whether the graph of the model tells all about its weights."""
        return None not in self._known

    def set_apart(self, gradient_sizes) -> list:
        """Sets the decay of the weights whose size is free.

        Args:
            gradient_sizes: maps weights to the root mean square of their
                gradients, `None` for one whose size matters.

        Returns:
            The other weights.
        """
        self.is_sorted = True
        # A kernel and its bias are a linear model, which normalises nothing.
        if len(other_variables(self._model, self._weights)) <= 2:
            return self._weights
        # With SGD a schedule of the rate is asked once, not for each weight.
        strength_of = functools.cache(self._strength_of)
        for weight, rms in self._free_weights(gradient_sizes):
            examples = weight.regularizer.num_examples
            strength = rms and strength_of(examples, rms)
            if strength and weight.regularizer.decay(strength):
                self._chosen.append((weight, strength))
        known = {id(weight) for weight, _ in self._chosen}
        return [w for w in self._weights if id(w) not in known]

    def _free_weights(self, gradient_sizes):
        """`(weight, rms of its gradients)`, where its size is free."""
        known = self._known
        if not isinstance(self._model.optimizer, keras.optimizers.SGD):
            # The decay under other optimizers depends on the gradients.
            known = [free and None for free in known]
        pairs = list(zip(self._weights, known, strict=True))
        found = [(weight, 1.0) for weight, free in pairs if free]
        unclear = [weight for weight, free in pairs if free is None]
        if unclear:
            found += zip(unclear, gradient_sizes(unclear), strict=True)
        return found

    def _strength_of(self, examples, gradient_rms):
        per_epoch = self._epoch_steps or max(examples / 128, 1)
        return decay_strength(
            self._model.optimizer,
            int(self._epochs * per_epoch),
            examples / per_epoch,
            gradient_rms,
        )

    def keep(self):
        """Sets the decays again, where a training step may change them."""
        # What is left of a momentum, or a decay of all variables, may still
        # move the scales.
        shrinks = getattr(self._model.optimizer, "weight_decay", None)
        for weight, strength in self._chosen:
            if shrinks or weight.regularizer.moves_in_training:
                weight.regularizer.decay(strength)
