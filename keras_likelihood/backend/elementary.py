"""Logarithm, exponential and reciprocal that a compiler can fuse freely.

XLA assumes that its own `log1p`, `expm1` and division are expensive. It writes
their results to memory instead of computing them twice, and a pass over memory
takes far longer than they do. Here, on JAX in float32, they consist of sums,
products and shifts of bits, and are exact to two units in the last place. On
the other backends each operation is a pass of its own, and the backend's
functions are used.
"""

import math

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
_EXPONENT_BITS = -(1 << 23)


def log1p(x):
    """`log(1 + x)` for x from 0 to 1e38."""
    if not _by_bits(x):
        return _log1p_of_cpu(x) if _on_jax(x) else ops.log1p(x)
    # x = 2^n (1 + m) - 1 with 1 + m from 3/4 to 3/2. Scaling x and 1 apart
    # keeps the digits of a small x.
    n = (_bits(1 + x) - _bits_of(0.75)) & _EXPONENT_BITS
    m = _float(_bits(x) - n) + (0.25 * _float(_bits_of(4.0) - n) - 1)
    return _log_from(n, m)


def log(x):
    """`log(x)` for positive numbers that are not subnormal."""
    if not _by_bits(x):
        return ops.log(x)
    bits = _bits(x)
    n = (bits - _bits_of(0.75)) & _EXPONENT_BITS
    return _log_from(n, _float(bits - n) - 1)


def expm1(x):
    """`exp(x) - 1` for x from -80 to 80."""
    if not _by_bits(x):
        return _expm1_of_cpu(x) if _on_jax(x) else ops.expm1(x)
    n = ops.floor(x * (1 / math.log(2)) + 0.5)
    f = (x - n * 0.693359375) + n * 2.12194440e-4
    power = _float((ops.cast(n, "int32") << 23) + _bits_of(1.0))
    return (power - 1) + power * (f + f * f * _polynomial(_EXP, f))


def reciprocal(x):
    """`1 / x` for `|x|` from 1e-37 to 1e37."""
    if not _by_bits(x):
        return 1 / x
    # The sign bit stays. The rest is a first estimate, with a relative error
    # below 1/8.
    sign = _bits(x) & _bits_of(-0.0)
    y = _float((0x7EF311C7 - (_bits(x) ^ sign)) | sign)
    for _ in range(3):
        y = y * (2 - x * y)
    return y


def select(condition, x, y):
    """`x` where the condition holds, else `y`; both must be finite."""
    if keras.backend.backend() == "jax":
        return ops.where(condition, x, y)
    # Arithmetic with zeros and ones is much faster than a selection.
    chosen = ops.cast(condition, ops.dtype(x))
    return (1 - chosen) * y + chosen * x


def _log_from(n, m):
    return ops.cast(n, "float32") * (math.log(2) / (1 << 23)) + _log_near_one(m)


def _log_near_one(m):
    return m - m * m * (0.5 - m * _polynomial(_LOG, m))


def _polynomial(coefficients, x):
    """Evaluates by halves, so that few steps depend on each other."""
    terms = list(coefficients)
    while len(terms) > 1:
        pairs = zip(terms[::2], terms[1::2], strict=False)
        odd = terms[-1:] if len(terms) % 2 else []
        terms = [low + x * high for low, high in pairs] + odd
        x = x * x
    return terms[0]


def _log1p_of_cpu(x):
    # The argument is bounded, because the polynomial of a large number has no
    # finite gradient.
    small = _log_near_one(ops.minimum(x, 0.5))
    return ops.where(x < 0.5, small, ops.log(1 + x))


def _expm1_of_cpu(x):
    near = ops.maximum(ops.minimum(x, 0.3466), -0.3466)
    small = near + near * near * _polynomial(_EXP, near)
    return ops.where(ops.abs(x) < 0.3466, small, ops.exp(x) - 1)


def repeats_cheaply() -> bool:
    """Whether computing twice is cheaper than memory.

    It should be true on accelerators with JAX. As long as this is not
    measured, only `benchmarks/robust_rho_nll.py` uses it.
    """
    return False


def _on_jax(x):
    return keras.backend.backend() == "jax" and ops.dtype(x) == "float32"


def _by_bits(x):
    return ops.dtype(x) == "float32" and repeats_cheaply()


def _bits(x):
    import jax

    return jax.lax.bitcast_convert_type(x, "int32")


def _float(bits):
    import jax

    return jax.lax.bitcast_convert_type(bits, "float32")


def _bits_of(number):
    """The bits of a float32 number, as a Python integer."""
    import numpy as np

    return int(np.float32(number).view("int32"))
