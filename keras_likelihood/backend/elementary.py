"""Logarithm, exponential and reciprocal that a compiler can fuse freely.

XLA assumes that its own `log1p` and `expm1` are expensive. It writes their
results to memory instead of computing them twice, and a pass over memory takes
far longer than they do. On JAX in float32 they are polynomials here, exact to
two units in the last place. On the other backends each operation is a pass of
its own, and the backend's functions are used.
"""

import keras
from keras import ops

_LOG = (
    0.33333447575569153,
    -0.2500019371509552,
    0.19991116225719452,
    -0.16643762588500977,
    0.14467400312423706,
    -0.13186444342136383,
    0.10583565384149551,
    -0.046180982142686844,
)
"""`(log1p(m) - m + m^2 / 2) / m^3` on [-1/4, 1/2], the least largest error."""
_EXP = (
    0.5,
    0.1666654348373413,
    0.04166628420352936,
    0.008366569876670837,
    0.001394642167724669,
)
"""`(expm1(f) - f) / f^2` on [-log(2) / 2, log(2) / 2], likewise."""


def log1p(x):
    """`log(1 + x)` for x from 0 to 1e38."""
    if not _on_jax(x):
        return ops.log1p(x)
    # The argument is bounded, because the polynomial of a large number has no
    # finite gradient.
    m = ops.minimum(x, 0.5)
    small = m - m * m * (0.5 - m * _polynomial(_LOG, m))
    return ops.where(x < 0.5, small, ops.log(1 + x))


def expm1(x):
    """`exp(x) - 1` for x from -80 to 80."""
    if not _on_jax(x):
        return ops.expm1(x)
    near = ops.maximum(ops.minimum(x, 0.3466), -0.3466)
    small = near + near * near * _polynomial(_EXP, near)
    return ops.where(ops.abs(x) < 0.3466, small, ops.exp(x) - 1)


def select(condition, x, y):
    """`x` where the condition holds, else `y`; both must be finite."""
    if keras.backend.backend() == "jax":
        return ops.where(condition, x, y)
    # Arithmetic with zeros and ones is much faster than a selection.
    chosen = ops.cast(condition, ops.dtype(x))
    return (1 - chosen) * y + chosen * x


def _polynomial(coefficients, x):
    """Evaluates by halves, so that few steps depend on each other."""
    terms = list(coefficients)
    while len(terms) > 1:
        pairs = zip(terms[::2], terms[1::2], strict=False)
        odd = terms[-1:] if len(terms) % 2 else []
        terms = [low + x * high for low, high in pairs] + odd
        x = x * x
    return terms[0]


def _on_jax(x):
    return keras.backend.backend() == "jax" and ops.dtype(x) == "float32"
