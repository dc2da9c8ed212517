"""The likelihood and its derivatives by 1 / T, in one pass.

With tau = 1 / T a row costs l(tau) = logsumexp(tau z) - tau z_y, and

    l'(tau) = E[z] - z_y,    l''(tau) = Var[z],    l'''(tau) = E[(z - E[z])^3]

under the tempered softmax. All need one exponential for each logit. Blocks of
rows stay in the cache, and several threads share the blocks (NumPy releases
the interpreter lock). So a pass reads the logits from memory once.
"""

import concurrent.futures
import dataclasses
import os

import numpy as np

_BLOCK = 2**16


@dataclasses.dataclass
class Moments:
    """The results of one pass, each of shape `(rows,)`.

    Args:
        nll: negative log-likelihood.
        slope: derivative of `nll` in tau.
        curvature: second derivative.
        confidence: largest probability.
        third: third derivative, or `None`.
        right: whether the label has the largest logit, or `None`.
    """

    nll: np.ndarray
    slope: np.ndarray
    curvature: np.ndarray
    confidence: np.ndarray
    third: np.ndarray | None = None
    right: np.ndarray | None = None


def softmax_moments(
    logits, labels, tau, *, third=False, right=False
) -> Moments:
    """Evaluates `l` and its derivatives for every row.

    Args:
        logits: `(rows, classes)`, float32 or float64, or `StoredLogits`.
        labels: class numbers `(rows,)`.
        tau: inverse temperature, a number or `(rows,)`, `> 0`.
        third: whether to compute the third derivative. Defaults to False.
        right: whether to compute `right`. Defaults to False.

    Returns:
        `Moments` in float64.
    """
    rows, classes = logits.shape
    tau = np.broadcast_to(np.asarray(tau, logits.dtype), (rows,))
    found = Moments(*(np.empty(rows) for _ in range(4)))
    if third:
        found.third = np.empty(rows)
    if right:
        found.right = np.empty(rows, dtype=bool)
    step = max(1, _BLOCK // classes)

    def block(start):
        part = slice(start, start + step)
        _block_moments(logits[part], labels[part], tau[part], found, part)

    starts = range(0, rows, step)
    if len(starts) < 4:
        for start in starts:
            block(start)
    else:
        with concurrent.futures.ThreadPoolExecutor(threads()) as pool:
            list(pool.map(block, starts))
    return found


def _block_moments(z, y, tau, found, part):
    peak = z.max(axis=1, keepdims=True)
    # The largest logit is subtracted. So the variance has no cancellation, and
    # no exponent is above zero.
    centred = z - peak
    label = centred[np.arange(len(y)), y]
    weight = centred * tau[:, None]
    np.exp(weight, out=weight)
    total = weight.sum(axis=1)
    mean = np.einsum("ij,ij->i", weight, centred) / total
    weight *= centred
    square = np.einsum("ij,ij->i", weight, centred) / total
    found.nll[part] = np.log(total) - tau * label
    found.slope[part] = mean - label
    found.curvature[part] = np.maximum(square - mean * mean, 0.0)
    found.confidence[part] = 1.0 / total
    if found.right is not None:
        found.right[part] = z.argmax(axis=1) == y
    if found.third is not None:
        weight *= centred
        cube = np.einsum("ij,ij->i", weight, centred) / total
        found.third[part] = cube - mean * (3 * square - 2 * mean * mean)


def threads() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1
