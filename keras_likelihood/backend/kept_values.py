"""Keeps the values of a model if an error stops the training."""

import contextlib

import keras

from keras_likelihood.backend.private import has_values, say_has_values


@contextlib.contextmanager
def keeping_values(model):
    """A context that restores the values of a model after an error.

    JAX takes them out of the variables, which an error would leave empty.
    """
    if keras.backend.backend() != "jax":
        yield
        return
    optimizer = getattr(model, "optimizer", None)
    held = [*model.trainable_variables, *model.non_trainable_variables]
    held += getattr(optimizer, "variables", [])
    saved = [(variable, variable.value) for variable in held]
    try:
        yield
    except BaseException:
        model.jax_state_sync()
        if not has_values(model):
            for variable, value in saved:
                if not value.is_deleted():
                    variable.assign(value)
            say_has_values(model)
        raise


def forget_gradients(variables):
    """Clears what PyTorch keeps of the last gradient of `variables`."""
    if keras.backend.backend() == "torch":
        for variable in variables:
            variable.value.grad = None
