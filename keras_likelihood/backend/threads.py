"""Limits the number of threads of PyTorch and BLAS."""

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import keras


@functools.cache
def _controller() -> Any:
    import threadpoolctl

    # Cached, because finding the loaded libraries takes longer than a fit.
    return threadpoolctl.ThreadpoolController()


def one_blas_thread() -> Any:
    """A context in which BLAS runs on one thread."""
    return _controller().limit(limits=1, user_api="blas")


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """A context in which PyTorch computes on one thread.

    For small matrices the synchronization takes longer than the arithmetic.
    """
    if keras.backend.backend() != "torch":
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
