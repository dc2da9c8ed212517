"""Shows the demo: progress, tables and a figure."""

import dataclasses
import itertools
import os

import numpy as np
from keras import ops

from keras_likelihood.backend.whole_files import replacing
from keras_likelihood.demo import data, study
from keras_likelihood.demo.figure import draw
from keras_likelihood.demo.sparse_weights import learn_sparse_weights
from keras_likelihood.demo.wrong_labels import find_wrong_labels

DIGITS = 3
"""Time of the network for digits, in multiples of another network's."""
SPARSE = 1
"""Time of the two models with many weights, in the same multiples."""


def run(
    figure: str | os.PathLike = "demo.png",
    page: str | os.PathLike = "demo_audit.html",
    *,
    console,
    quick: bool = False,
) -> dict:
    """Trains, prints the results, draws a figure and writes a page.

    Args:
        figure: path of the figure, a .png in a folder that exists.
        page: path of the page of wrong labels.
        console: the `Console` to print to.
        quick: whether to train for a few epochs only.

    Returns:
        `scores` by data set and loss, `wrong_labels` (a `Found`) and
        `weights` (`Weights`).
    """
    console.say("Your loss should be a likelihood.", style="bold")
    console.say(
        "One small network is trained with squared error and with two "
        "likelihoods. Another network finds wrong labels."
    )
    epochs = 3 if quick else 120
    splits = {
        "A curve with gross errors in one target of ten": data.noisy_curve(),
        "Diabetes progression, real patients": data.diabetes(),
    }
    models = 3 * len(splits)
    steps = (models + DIGITS + SPARSE) * epochs
    with console.progress(f"training {models + 3} models", 0) as on_step:
        ticks = itertools.count(1)
        fits = {
            title: study.regressors(
                split, epochs, lambda: on_step(next(ticks), steps)
            )
            for title, split in splits.items()
        }
        found = find_wrong_labels(
            page,
            lambda done, all_: on_step(
                epochs * (models + DIGITS * done / all_), steps
            ),
            quick,
        )
        weights = learn_sparse_weights(
            lambda done, all_: on_step(
                steps - epochs * SPARSE * (1 - done / all_), steps
            ),
            quick,
        )
    scores: dict = {}
    for title, split in splits.items():
        scores[title] = _scores(split, fits[title])
        _print_scores(console, title, scores[title])
    with replacing(figure) as temporary:
        draw(temporary, list(splits.values()), list(fits.values()))
    console.say("Held-out data. RMSE of the curve is against its truth.")
    console.say("Wrong labels among digits.", style="bold")
    console.say(f"{found}")
    console.say("Sparse weights.", style="bold")
    console.say(
        "Fifty weights, five of which matter. Root mean square error without "
        f"a regularizer {weights.error('plain'):.3f}, with MultiLasso "
        f"{weights.error('sparse'):.3f}."
    )
    console.result(wrong_labels=dataclasses.asdict(found))
    return {"scores": scores, "wrong_labels": found, "weights": weights}


def _print_scores(console, title, scores):
    names = list(next(iter(scores.values())))
    console.say(title, style="bold")
    nll = [row["NLL"] for row in scores.values()]
    console.table(
        ["loss", *names],
        [
            [name, *(f"{value:.3f}" for value in row.values())]
            for name, row in scores.items()
        ],
        best=int(np.argmin(nll)),
    )
    console.result(**{title: scores})


def _scores(split, fits):
    truth = split.y_test if split.truth is None else split.truth
    scores = {}
    for fit in fits:
        distribution = fit.distribution(split.x_test)
        low, high = map(ops.convert_to_numpy, distribution.interval(0.9))
        prediction = ops.convert_to_numpy(distribution.prediction)
        nll = ops.convert_to_numpy(distribution.nll(split.y_test))
        inside = (low <= split.y_test) & (split.y_test <= high)
        scores[fit.name] = {
            "RMSE": float(np.sqrt(np.mean((prediction - truth) ** 2))),
            "NLL": float(np.mean(nll)),
            "in 90 % band": float(np.mean(inside)),
            "band width": float(np.mean(high - low)),
        }
    return scores
