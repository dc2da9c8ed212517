"""Refits the last layer of trained networks in closed form."""

from typing import Any

import numpy as np
from keras import ops

from keras_likelihood.backend.compiled import compiled
from keras_likelihood.backend.gradients import value_and_gradient
from keras_likelihood.backend.types import Array, Tensor
from keras_likelihood.ensembles.member_networks import MemberNetworks
from keras_likelihood.losses import LikelihoodLoss
from keras_likelihood.tabular.batches import BATCH, in_batches

_STRENGTHS = 10.0 ** -np.arange(8)
"""Penalties, relative to the largest eigenvalue."""
_SHIFTS = (0.0, -0.1, -0.2, -0.35, -0.5, -0.7)
"""Changes of the scale's bias. A better fit has smaller errors."""
_TRAINED, _HELD_OUT = 4000, 256
_GAIN = 1e-3
"""Smallest improvement of the held-out NLL."""


def refit_last_layer(
    networks: MemberNetworks,
    loss: LikelihoodLoss,
    data: tuple[Array, ...],
    trained: list[Array],
    held_out: Array,
) -> None:
    """A step of Fisher scoring for the predictions of each member.

        change = (H' I H + strength)^-1 H' s

    with the last hidden layer H, the information I and the score s of the
    training rows. A smooth function of the inputs is then fitted far better
    than by many more steps of training. The strength and a change of the scale
    are those with the highest likelihood of the held-out rows. If none of them
    improves it, a member stays as it is.

    Args:
        networks: trained networks of a location-scale likelihood.
        loss: the loss of one member.
        data: inputs, targets and weights of all rows.
        trained: the training rows of each member.
        held_out: the held-out rows of each member.
    """
    x, y, weight = data
    *hidden, (kernel, bias) = networks.dense_layers()
    scale = networks.scale_unit()
    judge = _judge(networks, loss)
    for member in range(networks.members):
        rows, others = trained[member][:_TRAINED], held_out[member][:_HELD_OUT]
        h, new = x[rows], x[others]
        for k, b in hidden:
            h, new = (_silu(v @ k[member] + b[member]) for v in (h, new))
        raw, raw_new = (v @ kernel[member] + bias[member] for v in (h, new))
        _, slope, information = judge(raw, y[rows])
        design = h.astype("float64")
        gram = design.T @ (design * (weight[rows] * information)[:, None])
        values, vectors = np.linalg.eigh(gram)
        score = vectors.T @ (design.T @ (weight[rows] * -slope))
        penalties = (_STRENGTHS * max(values[-1], 1e-30))[:, None]
        changes = score / (np.maximum(values, 0) + penalties) @ vectors.T
        changes = np.concatenate([np.zeros((1, len(values))), changes])
        tried = np.broadcast_to(
            raw_new, (len(_SHIFTS), len(changes), *raw_new.shape)
        ).copy()
        tried[..., 0] += changes @ new.T
        tried[..., scale] += np.reshape(_SHIFTS, (-1, 1, 1))
        targets = np.broadcast_to(y[others], tried.shape[:-1])
        nll, _, _ = judge(tried.reshape(-1, raw.shape[1]), targets.ravel())
        nll = np.average(
            nll.reshape(targets.shape), axis=-1, weights=weight[others]
        )
        nll = np.where(np.isfinite(nll), nll, np.inf)
        shift, change = np.unravel_index(nll.argmin(), nll.shape)
        if nll.min() < nll[0, 0] - _GAIN:
            kernel[member, :, 0] += changes[change]
            bias[member, 0, scale] += _SHIFTS[shift]
    networks.set_last_layer(kernel, bias)


def _silu(x: Array) -> Array:
    return np.asarray(x / (1 + np.exp(-np.maximum(x, -80.0))))


def _judge(networks: MemberNetworks, loss: LikelihoodLoss) -> Any:
    """The NLL, its slope by the prediction, and the information of rows."""

    def run(*rows: Array) -> Tensor:
        raw, y = map(ops.convert_to_tensor, rows)

        def nll(first: Tensor) -> Tensor:
            every = ops.concatenate([first, raw[..., 1:]], axis=-1)
            return loss.distribution(networks.head(every)).nll(y)

        value, (slope,) = value_and_gradient(nll, [raw[..., :1]])
        found = loss.distribution(networks.head(raw))
        information = found.information() * ops.square(networks.spread)
        return ops.concatenate([value, slope[..., 0], information], axis=1)

    run = compiled(run)

    def in_rows(raw: Array, y: Array) -> Array:
        arrays = (a[:, None].astype("float32") for a in (raw, y))
        return in_batches(run, *arrays, size=BATCH).T.astype("float64")

    return in_rows
