"""How many threads a backend works with."""

import contextlib

import keras


@contextlib.contextmanager
def one_thread():
    """A context in which PyTorch computes on one thread.

    For small matrices the exchange between threads takes longer than the
    arithmetic. The other backends handle this themselves.
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
