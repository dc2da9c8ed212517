"""Small matrices are multiplied fastest on one thread."""

import functools

import threadpoolctl


@functools.cache
def _controller():
    # Looking for the loaded libraries takes longer than a fit.
    return threadpoolctl.ThreadpoolController()


def one_blas_thread():
    """A context in which BLAS runs on one thread."""
    return _controller().limit(limits=1, user_api="blas")
