"""Access to a model's values after an error and from other threads."""

import concurrent.futures
import contextlib
import threading

import keras

from keras_likelihood.backend.private import has_values, say_has_values


@contextlib.contextmanager
def keeping_values(model):
    """A context that restores the values of a model after an error.

    On JAX Keras moves them out of the variables during training.
    """
    if keras.backend.backend() != "jax":
        yield
        return
    held = [*model.trainable_variables, *model.non_trainable_variables]
    held += getattr(getattr(model, "optimizer", None), "variables", [])
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
    """Clears the PyTorch gradients of `variables`."""
    if keras.backend.backend() == "torch":
        for variable in variables:
            variable.value.grad = None


_GATE = threading.Lock()
"""Held while a training starts or ends, and by readers between trainings."""


class BetweenSteps:
    """Runs functions while no training step runs.

    On JAX a step donates the arrays of the model, so other threads cannot read
    them. The training thread calls their functions between two steps.
    """

    def __init__(self):
        self.thread = None
        self._requests = []

    def begin(self):
        """Marks this thread as the training thread, until `end`."""
        with _GATE:
            self.thread = threading.get_ident()

    def end(self):
        with _GATE:
            self.thread = None
        self.answer()

    def run(self, function):
        """The result of `function`, after the current JAX step."""
        is_own = self.thread == threading.get_ident()
        if keras.backend.backend() != "jax" or is_own:
            return function()
        with _GATE:
            if self.thread is None:
                return function()
            future: concurrent.futures.Future = concurrent.futures.Future()
            self._requests.append((function, future))
        return future.result()

    def answer(self):
        """Runs the functions of other threads; called between two steps."""
        while self._requests:
            function, future = self._requests.pop()
            try:
                future.set_result(function())
            except BaseException as error:
                future.set_exception(error)
