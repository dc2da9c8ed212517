"""The demo as a person sees it: progress, tables and a figure."""

import logging
import os

import numpy as np
from keras import ops

from keras_likelihood.demo import data, study
from keras_likelihood.demo.figure import draw
from keras_likelihood.demo.wrong_labels import find_wrong_labels
from keras_likelihood.whole_files import replacing

DIGITS = 3
"""Time of the network for digits, in that of another."""


def run(
    figure: str | os.PathLike = "demo.png",
    page: str | os.PathLike = "demo_audit.html",
    *,
    quick: bool = False,
) -> int:
    """Trains, prints what came of it, draws a figure and writes a page.

    Args:
        figure: path of the figure, a .png in a folder that exists.
        page: path of the page of wrong labels.
        quick: train for a few epochs only.

    Returns:
        Exit status, 0.
    """
    from rich.console import Console
    from rich.progress import Progress

    # TensorFlow warns of retracing when models are made in a row.
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    console = Console()
    console.print(
        "[bold]Your loss should be a likelihood.[/bold] One small network, "
        "trained with squared error and with two likelihoods; and a network "
        "that finds wrong labels."
    )
    epochs = 3 if quick else 120
    splits = {
        "A curve with gross errors in one target of ten": data.noisy_curve(),
        "Diabetes progression, real patients": data.diabetes(),
    }
    with Progress(console=console, transient=True) as progress:
        models = 3 * len(splits)
        task = progress.add_task(
            f"training {models + 1} models", total=models + DIGITS
        )
        share = 1 / epochs
        fits = {
            title: study.regressors(
                split, epochs, lambda: progress.advance(task, share)
            )
            for title, split in splits.items()
        }
        found = find_wrong_labels(
            page,
            lambda done, all_: progress.update(
                task, completed=models + DIGITS * done / all_
            ),
            quick,
        )
    for title, split in splits.items():
        console.print(_table(title, split, fits[title]))
    with replacing(figure) as temporary:
        draw(temporary, list(splits.values()), list(fits.values()))
    console.print(
        "Held-out data. RMSE of the curve is against its truth. "
        f"Figure: [bold]{figure}[/bold]"
    )
    console.print(
        f"[bold]Wrong labels among digits.[/bold] {found} "
        f"Page: [bold]{page}[/bold]"
    )
    return 0


def _table(title, split, fits):
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("loss", min_width=26)
    for column in ("RMSE", "NLL", "in 90 % band", "band width"):
        table.add_column(column, justify="right")
    truth = split.y_test if split.truth is None else split.truth
    for fit in fits:
        distribution = fit.distribution(split.x_test)
        low, high = map(ops.convert_to_numpy, distribution.interval(0.9))
        prediction = ops.convert_to_numpy(distribution.prediction)
        nll = ops.convert_to_numpy(distribution.nll(split.y_test))
        inside = (low <= split.y_test) & (split.y_test <= high)
        table.add_row(
            fit.name,
            f"{np.sqrt(np.mean((prediction - truth) ** 2)):.3f}",
            f"{np.mean(nll):.3f}",
            f"{np.mean(inside):.1%}",
            f"{np.mean(high - low):.2f}",
        )
    return table
