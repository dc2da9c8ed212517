"""What the data say about the weights under a prior.

Every rule rests on one picture: seen alone, a weight is a Gaussian
measurement with precision

    h = gain^2 (n - df) / noise^2

where `gain` is the root mean square of what a unit of the weight adds to the
prediction and `df` of the `n` examples are used up by the weights themselves.
For independent inputs of equal scale this is exact for large `n`, also when
there are as many weights as examples; then `h` is far below `n / noise^2`.

Inputs and results are tensors that carry no gradient.
"""

import math
from typing import NamedTuple

import keras
from keras import ops

RESOLUTION = 0.1
"""A weight below this share of its own uncertainty counts as zero."""

_ROUNDS = 8
_SMALLEST = 1e-12


class Evidence(NamedTuple):
    """What the data say about a tensor of weights.

    Attributes:
        precision: `h`, a scalar or an array of the shape of the weights.
        freedom: `df`, the degrees of freedom the weights use, a scalar.
        on: which weights the prior leaves on, 0 or 1, shape of the weights.
    """

    precision: object
    freedom: object
    on: object


def as_tensors(nest):
    """A nest of numbers, arrays and `Evidence` as float32 tensors."""
    return keras.tree.map_structure(
        lambda a: ops.convert_to_tensor(a, "float32"), nest
    )


def sparse_evidence(weight, noise, num_examples, gain) -> Evidence:
    """Evidence under an L1 prior, where `df` counts the weights left on."""
    most = num_examples - 1.0

    def look(freedom):
        precision = _precision(num_examples - freedom, noise, gain)
        on = ops.abs(weight) > RESOLUTION / ops.sqrt(precision)
        on = ops.cast(on, weight.dtype)
        return precision, on, ops.minimum(ops.sum(on), most)

    freedom = ops.zeros((), dtype=weight.dtype)
    for _ in range(3):
        precision, on, freedom = look(freedom)
    return Evidence(precision, freedom, on)


def smooth_evidence(weight, scale, noise, num_examples, gain) -> Evidence:
    """Evidence under an L2 prior of standard deviation `scale`.

    df = sum_j h scale_j^2 / (1 + h scale_j^2)
    """
    signal = ops.square(scale) * _precision(1.0, noise, gain)
    copies = float(math.prod(weight.shape) / math.prod(scale.shape))
    free = _free_examples(signal, copies, num_examples)
    precision = _precision(free, noise, gain)
    known = free * signal / (1.0 + free * signal)
    # A group is off when all of its weights use next to no freedom.
    on = copies * known > 0.2
    on = ops.broadcast_to(ops.cast(on, weight.dtype), weight.shape)
    return Evidence(precision, num_examples - free, on)


def best_threshold(share_on):
    """Soft threshold, in units of `1/sqrt(h)`, of the least squared error.

    Stein's unbiased estimate of the error of soft thresholding is stationary
    where `threshold * (number on) = density of measurements at the threshold`.
    The weights that are off tell that density: they are what a Gaussian puts
    between the two thresholds, so that

        t (1 - 2 Phi(-t)) / (2 phi(t)) = (1 - share_on) / share_on

    For weights that do follow a Laplace prior wider than the noise this is
    `t / sqrt(h) = 1 / (h b)`, their own scale. Solved by Newton's method for
    log t.

    Args:
        share_on: share of the weights that are on, in (0, 1).
    """
    odds = (1.0 - share_on) / share_on
    t = ops.sqrt(2.0 * ops.log1p(0.5 * odds))
    for _ in range(5):
        inside = ops.erf(t * math.sqrt(0.5))
        log_phi = -0.5 * ops.square(t) - 0.5 * math.log(2 * math.pi)
        excess = ops.log(t * inside) - math.log(2.0) - log_phi - ops.log(odds)
        slope = 1.0 + 2.0 * t * ops.exp(log_phi) / inside + ops.square(t)
        t = t * ops.exp(-excess / slope)
    return t


def price_of_a_weight(weight, evidence: Evidence):
    """Gain `T^2` in 2 log-likelihood that a weight needs to be on.

        T^2 = 2 log((P - K) / K) + 2 log(B sqrt(h)),    at least 1

    for `K` of `P` weights on, of mean size `B`: the prior odds of being off,
    and the Occam factor of a slab `B` wide known to a width `1/sqrt(h)`. While
    nothing is known yet the price is low, so that training starts with weak
    regularization whatever the initial weights and noise.
    """
    total = float(math.prod(weight.shape))
    count = ops.sum(evidence.on)
    size = ops.sum(evidence.on * ops.abs(weight)) / ops.maximum(count, 1.0)
    count = ops.clip(count, 0.5, total - 0.5)
    odds = (total - count) / count
    width = size * ops.sqrt(ops.mean(evidence.precision))
    price = 2.0 * ops.log(odds) + 2.0 * ops.log(width + _SMALLEST)
    return ops.maximum(price, 1.0)


def universal_threshold(total: int) -> float:
    """`sqrt(2 log P)`: the largest of `P` standard normals, nearly."""
    return math.sqrt(2.0 * math.log(max(total, 2)))


def _free_examples(signal, copies, num_examples):
    """Root of `free + copies * sum(free * signal / (1 + free * signal)) = n`.

    The left side grows and is concave, in `free` and in each signal. So the
    closed form for equal signals is exact for one scale, never above the root
    for several, and Newton's method climbs from there without passing it.
    """
    scales = math.prod(signal.shape)
    mean = ops.mean(signal)
    linear = 1.0 + (copies * scales - num_examples) * mean
    root = ops.sqrt(ops.square(linear) + 4.0 * mean * num_examples)
    free = ops.where(
        linear > 0,
        2.0 * num_examples / (linear + root),
        0.5 * (root - linear) / mean,
    )
    for _ in range(_ROUNDS if scales > 1 else 0):
        known = free * signal / (1.0 + free * signal)
        slope = copies * ops.sum(known * (1.0 - known)) / free
        excess = num_examples - free - copies * ops.sum(known)
        free = free + ops.maximum(excess, 0.0) / (1.0 + slope)
    return free


def _precision(free, noise, gain):
    return free * (gain**2) / ops.square(noise)
