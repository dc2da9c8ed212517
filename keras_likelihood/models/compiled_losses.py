"""The losses that a model is compiled with, by output."""

import contextlib
from typing import Any

import keras

from keras_likelihood import likelihoods
from keras_likelihood.losses.likelihood_loss import LikelihoodLoss


def with_instances(loss):
    """Replaces names and classes of likelihood losses by instances.

    A name that Keras knows, such as `"poisson"`, is left to Keras.
    """
    if isinstance(loss, type) and issubclass(loss, LikelihoodLoss):
        return loss()
    if isinstance(loss, str):
        return _named_loss(loss)
    if isinstance(loss, dict):
        return {key: with_instances(value) for key, value in loss.items()}
    if isinstance(loss, list | tuple):
        return [with_instances(value) for value in loss]
    return loss


def _named_loss(name):
    with contextlib.suppress(ValueError):
        keras.losses.get(name)
        return name
    with contextlib.suppress(ValueError):
        return LikelihoodLoss(likelihoods.get(name))
    # Keras says what it knows.
    return name


def entry(structure, key):
    """The part of a structure that belongs to the output `key`."""
    if isinstance(structure, dict) and isinstance(key, str) and key:
        return structure.get(key)
    if isinstance(structure, list | tuple) and isinstance(key, int):
        return structure[key] if key < len(structure) else None
    return structure


class CompiledLosses:
    """The losses of a model with at least one likelihood, by output.

    The key of a single output is `""`. Those of several outputs are their
    names or, for a list of outputs, their positions. Without any likelihood
    loss there are no keys, and Keras itself computes the loss.
    """

    def __init__(self, loss=None, loss_weights=None):
        given: dict = {"": loss}
        if isinstance(loss, dict):
            given = loss
        elif isinstance(loss, list):
            given = dict(enumerate(loss))
        for value in given.values():
            nested = isinstance(value, dict | list | tuple)
            if nested and any(map(_is_ours, keras.tree.flatten(value))):
                raise ValueError(
                    "Likelihood losses need a dict or a list of outputs with "
                    f"one level. Received: {value!r} inside of `loss`"
                )
        self.by_key = {k: v for k, v in given.items() if _is_ours(v)}
        self.others = {
            k: _as_loss(v)
            for k, v in given.items()
            if self.by_key and v is not None and not _is_ours(v)
        }
        self.is_one = list(self.by_key) == [""]
        self._weights = loss_weights

    def all(self) -> dict:
        """The losses of all outputs, by key."""
        return {**self.by_key, **self.others}

    def refuse_other_structure(self, outputs):
        """Raises if a loss has no output, a tensor or its shape."""
        if self.is_one and isinstance(outputs, dict):
            raise ValueError(
                "A dict of outputs needs a dict of losses with its keys, "
                f"{sorted(outputs)}. Received: one loss, "
                f"{self.by_key[''].name}"
            )
        if self.is_one:
            return
        known: Any = outputs if isinstance(outputs, dict) else ()
        if isinstance(outputs, list | tuple):
            known = range(len(outputs))
        missing = [k for k in self.all() if k not in known]
        if missing:
            raise ValueError(
                "Each loss needs an output of the same key, or of the same "
                f"position in a list. Received: losses for {missing}, which "
                "are not outputs"
            )

    def weight(self, key) -> float | None:
        """The factor of the loss of the output `key`, or `None` for 1."""
        weights = self._weights
        if not self.is_one or not isinstance(weights, dict | list | tuple):
            return entry(weights, key)
        values = weights.values() if isinstance(weights, dict) else weights
        if len(values) != 1:
            raise ValueError(
                "`loss_weights` must be one number for one output, or a dict "
                f"by output. Received: {weights}"
            )
        return next(iter(values))


def _is_ours(loss):
    return isinstance(loss, LikelihoodLoss)


def _as_loss(loss):
    """A loss of Keras for an output beside those with a likelihood."""
    loss = keras.losses.get(loss)
    return loss if isinstance(loss, keras.losses.Loss) else _Function(loss)


class _Function(keras.losses.Loss):
    """A function of targets and predictions as a loss."""

    def __init__(self, function):
        super().__init__(getattr(function, "__name__", "loss"))
        self.call = function
