"""Access to a model's values after an error and from other threads."""

import concurrent.futures
import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import keras

from keras_likelihood.backend.private import has_values, say_has_values

_GATE = threading.Lock()
"""Held while a training starts or ends, and by readers between trainings."""


class _Turn:
    """Which thread uses a model."""

    def __init__(self) -> None:
        self.lock, self.trains = threading.RLock(), False


_TURNS: weakref.WeakKeyDictionary[Any, _Turn] = weakref.WeakKeyDictionary()


@contextlib.contextmanager
def keeping_values(model: Any, trains: bool = False) -> Iterator[None]:
    """A context that restores the values of a model after an error.

    On JAX Keras moves the values out of the variables during a call. So other
    threads wait, or get an error if the call is a training, which may be long
    and may itself wait for them.
    """
    if keras.backend.backend() != "jax":
        yield
        return
    with _GATE:
        turn = _TURNS.setdefault(model, _Turn())
    if not turn.lock.acquire(blocking=not turn.trains):
        raise RuntimeError(
            "On JAX a model that is training cannot be used in another thread. "
            "Call it after `fit`, or copy it before with "
            "`keras.models.clone_model`. Received: a call during `fit`"
        )
    before, turn.trains = turn.trains, turn.trains or trains
    variables = [*model.trainable_variables, *model.non_trainable_variables]
    variables += getattr(getattr(model, "optimizer", None), "variables", [])
    saved = [(variable, variable.value) for variable in variables]
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
    finally:
        turn.trains = before
        turn.lock.release()


def forget_gradients(variables: list[Any]) -> None:
    """Clears the PyTorch gradients of `variables`."""
    if keras.backend.backend() == "torch":
        for variable in variables:
            variable.value.grad = None


class BetweenSteps:
    """Runs functions while no training step runs.

    On JAX a step donates the arrays of the model, so other threads cannot read
    them. The training thread calls their functions between two steps.
    """

    def __init__(self) -> None:
        self.thread: int | None = None
        self._requests: list[Any] = []

    def begin(self) -> None:
        """Marks this thread as the training thread, until `end`."""
        with _GATE:
            self.thread = threading.get_ident()

    def end(self) -> None:
        with _GATE:
            self.thread = None
        self.answer()

    def run(self, function: Callable[[], Any]) -> Any:
        """The result of `function`, after the current JAX step."""
        is_own = self.thread == threading.get_ident()
        if keras.backend.backend() != "jax" or is_own:
            return function()
        with _GATE:
            if self.thread is None:
                return function()
            future: concurrent.futures.Future[Any] = concurrent.futures.Future()
            self._requests.append((function, future))
        return future.result()

    def answer(self) -> None:
        """Runs the functions of other threads; called between two steps."""
        while self._requests:
            function, future = self._requests.pop()
            try:
                future.set_result(function())
            except BaseException as error:
                future.set_exception(error)
