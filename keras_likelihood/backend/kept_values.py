"""Access to a model's values after an error and from other threads."""

import contextlib
import threading
import types
import weakref
from collections.abc import Iterator
from typing import Any

import keras

from keras_likelihood.backend.private import has_values, say_has_values

_TURNS: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
"""Which thread uses a model, and whether it trains."""


def variables_of(model: Any) -> list[Any]:
    """The variables of a model and of its optimizer."""
    own = [*model.trainable_variables, *model.non_trainable_variables]
    return own + getattr(getattr(model, "optimizer", None), "variables", [])


@contextlib.contextmanager
def keeping_values(model: Any, trains: bool = False) -> Iterator[None]:
    """A context that restores the values of a model after an error.

    On JAX Keras moves the values out of the variables during a call. So other
    threads wait, or get an error if the call is a training.
    """
    if keras.backend.backend() != "jax":
        yield
        return
    free = types.SimpleNamespace(lock=threading.RLock(), trains=False)
    turn = _TURNS.setdefault(model, free)
    if not turn.lock.acquire(blocking=not turn.trains):
        raise RuntimeError(
            "On JAX a model that is training cannot be used in another thread. "
            "Call it after `fit`, or copy it before with "
            "`keras.models.clone_model`. Received: a call during `fit`"
        )
    before, turn.trains = turn.trains, turn.trains or trains
    saved = [(variable, variable.value) for variable in variables_of(model)]
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
