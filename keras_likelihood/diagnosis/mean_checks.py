"""Whether a predicted scale keeps the prediction from what it could learn."""

from collections.abc import Iterator

import keras
import numpy as np

from keras_likelihood.diagnosis.diagnosis import Finding
from keras_likelihood.likelihoods.output import split_output
from keras_likelihood.reading.endings import open_ending
from keras_likelihood.reading.loading import is_graph, output_of

_FOLDS = 5
_MOST_ROWS = 4096
_SHARE = 0.1
"""Share of the squared error that a refit must save."""
_ERRORS = 4.0
"""Standard errors by which it must differ from zero."""


def check_mean(model, x, output, batch_size) -> Iterator[Finding]:
    """Finding about errors that the model takes for noise.

    The last layer is fitted again by least squares, on four fifths of the
    examples at a time, and judged on the other fifth. If the scale is that of
    the noise, this is no better than the prediction. A part that the model
    neglects has a large scale (Seitzer et al. 2022), so what the refit saves
    must be there.
    """
    scale = output.parameter("scale")
    if not output.is_real or scale is None or scale.source != "predicted":
        return
    if getattr(output.loss, "beta", 0.0) >= 0.5 or not is_graph(model):
        return
    tensors = output_of(model)
    tensors = tensors[output.key] if output.key else tensors
    tensor = open_ending(split_output(tensors)[0], strip=False)[1]
    if tensor is None:
        return
    extractor = keras.Model(model.inputs, tensor)
    features = extractor.predict(x, batch_size=batch_size, verbose=0)
    if features.shape[:-1] != output.y.shape[:-1]:
        return
    features = features.reshape(-1, features.shape[-1]).astype("float64")
    step = -(-len(features) // _MOST_ROWS)
    features, error, scale = (
        rows.reshape(len(features), -1)[::step]
        for rows in (
            features,
            output.y - output.prediction,
            np.broadcast_to(scale.values, output.y.shape),
        )
    )
    saved = _saved(features, error.astype("float64"))
    count, total = len(saved), float(np.mean(error**2))
    spread = saved.std() / count**0.5
    size = scale.mean(axis=1)
    is_large = size > np.median(size)
    at_large = saved[is_large].sum() / max(saved.sum(), 1e-300)
    share = float(saved.mean() / max(total, 1e-300))
    if share < _SHARE or saved.mean() < _ERRORS * spread or at_large < 0.8:
        return
    yield Finding(
        "neglected_mean",
        f"The predicted scale{output.title} takes errors for noise that the "
        "prediction could avoid: with the last layer fitted again by least "
        f"squares the squared error is {share:.0%} smaller on examples left "
        "out of the fit.",
        {
            "share": share,
            "standard_error": float(spread / total),
            "share_where_scale_is_large": float(at_large),
        },
        "Train with `beta=0.5`, such as `StudentTLoss(beta=0.5)`, or for "
        "longer.",
    )


def _saved(features, error):
    """Squared error that a refit saves on rows it has not seen, `(n,)`."""
    features = features - features.mean(axis=0)
    features = features / np.maximum(features.std(axis=0), 1e-12)
    features = np.concatenate([np.ones((len(error), 1)), features], axis=1)
    fold = np.random.default_rng(0).permutation(len(error)) % _FOLDS
    found = np.zeros_like(error)
    for i in range(_FOLDS):
        rows, others = fold == i, fold != i
        seen = features[others]
        penalty = 1e-6 * len(seen) * np.eye(seen.shape[1])
        weights = np.linalg.solve(
            seen.T @ seen + penalty, seen.T @ error[others]
        )
        found[rows] = features[rows] @ weights
    return (error**2 - (error - found) ** 2).sum(axis=1)
