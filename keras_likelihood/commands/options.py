"""The commands and their options.

Modules of commands import a backend, this one does not. So help and wrong
command lines are answered at once.
"""

import argparse
import contextlib
import dataclasses
import math
import pathlib
import textwrap
from collections.abc import Callable
from typing import Any

from keras_likelihood.tables.reading import is_text_table


@dataclasses.dataclass
class Command:
    """What the command line shows and checks of a command.

    `options` maps each option to its help text, and `settings` has arguments of
    `add_argument` that differ from those in other commands. Functions of the
    parsed arguments return `defaults` of outputs, and the `suffix` of
    `--output`.
    """

    help: str
    text: str
    example: str
    options: dict[str, str]
    settings: dict[str, dict[str, Any]] = dataclasses.field(
        default_factory=dict
    )
    defaults: Callable[[Any], dict[str, str]] = lambda args: {}
    suffix: Callable[[Any], str] = lambda args: ""

    def add_to(self, subparsers: Any, name: str) -> None:
        """Adds the command to the subparsers of argparse."""
        parser = subparsers.add_parser(
            name,
            help=self.help,
            description=textwrap.fill(self.text, 78),
            epilog=f"example:\n  {self.example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        common = parser.add_argument_group("options of every command")
        for option, words in {**self.options, **_EVERY_COMMAND}.items():
            setting = {**_SETTINGS, **self.settings}.get(option, {})
            group = common if option in _EVERY_COMMAND else parser
            words += " (default: %(default)s)" * ("default" in setting)
            group.add_argument(option, help=words, **setting)


def _number(
    kind: type, least: float, most: float = math.inf
) -> Callable[[str], float]:
    """A type for argparse: whole or other numbers in a range."""
    word = "whole number" if kind is int else "number"
    allowed = f"a {word} from {least} to {most}"
    if most == math.inf:
        allowed = f"a {word} >= {least}"

    def convert(text: str) -> float:
        with contextlib.suppress(ValueError):
            if least <= (value := kind(text)) <= most:
                return value
        raise argparse.ArgumentTypeError(f"must be {allowed}. Received: {text}")

    return convert


_EVERY_COMMAND = {
    "--json": "print one JSON document instead of text",
    "--quiet": "print only errors and warnings",
    "--traceback": "show the traceback of an error",
    "--force": "overwrite existing outputs",
}
DETECTORS = {"pca": "PCAScale", "autoencoder": "AutoencoderScale"}
RECALIBRATORS = ["global", "linear", "features", "deep", "vector", "matrix"]
_FLAG = {"action": "store_true"}
_SETTINGS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(_EVERY_COMMAND, _FLAG),
    "--probabilities": _FLAG,
    "--task": {"choices": ["classification", "regression"]},
    "--data": {"required": True},
    "--epochs": {"type": _number(int, 1)},
    "--seed": {"type": _number(int, 0), "default": 0},
    "--members": {"type": _number(int, 2), "default": 8},
    "--coverage": {"type": _number(float, 0.01, 0.999), "default": 0.9},
    "--method": {"default": "auto", "choices": ["auto", *RECALIBRATORS]},
    "--change-classes": _FLAG,
    "--detector": {"default": "pca", "choices": list(DETECTORS)},
    "--contamination": {"type": _number(float, 1e-6, 0.5), "default": 0.1},
}
_TASK = {
    "--task": "kind of target (default: detected from the model and the data)"
}
_DATA = {
    "--target": "the column of a .csv that holds the labels (default: the "
    "last)",
    "--probabilities": "the model returns probabilities, not logits",
    **_TASK,
}


def _beside_data(suffix: str) -> Callable[[Any], dict[str, str]]:
    return lambda a: {"output": str(pathlib.Path(a.data).with_suffix(suffix))}


def data_suffix(path: str) -> str:
    """The suffix of corrected data, which have the format of the data."""
    return ".csv" if is_text_table(path) else ".npz"


COMMANDS = {
    "fit": Command(
        "train a model that predicts a column of a table",
        "Trains networks that predict a column of a .csv or .parquet from the "
        "others, with calibrated intervals for a number and probabilities for "
        "classes. Prints their scores on held-out rows, and writes the model "
        "and a page about it.",
        "keras-likelihood fit table.csv --target price",
        {
            "data": "a .csv with column names in its first line, or a .parquet",
            "--target": "the column to predict (default: the last)",
            **_TASK,
            "--likelihood": "likelihood of a number, such as normal, "
            "student_t, gamma or poisson (default: chosen from the target)",
            "--output": "the model",
            "--report": "a page about the model (default: --output with the "
            "suffix .html)",
            "--members": "number of networks",
            "--epochs": "epochs of each network (default: depends on the "
            "number of rows)",
            "--seed": "random seed",
        },
        {"--output": {"default": "model.keras"}},
        defaults=lambda a: {
            "report": str(pathlib.Path(a.output).with_suffix(".html"))
        },
        suffix=lambda a: ".keras",
    ),
    "predict": Command(
        "predict the rows of a table with a model written by `fit`",
        "Writes a prediction for each row of a .csv or .parquet, with its "
        "interval or its set of possible classes, and the columns whose value "
        "is unlike the training data. Several names in a cell are a JSON list.",
        "keras-likelihood predict model.keras new.csv",
        {
            "model": "a .keras file that `fit` wrote",
            "data": "a .csv or .parquet with the columns of the training data",
            "--output": "a .csv for the predictions (default: "
            "DATA.predictions.csv)",
            "--coverage": "share of targets inside the intervals or sets, from "
            "0.01 to 0.999",
        },
        defaults=_beside_data(".predictions.csv"),
    ),
    "checkup": Command(
        "write a page about the problems of a model and its data",
        "Checks whether a model is calibrated, which labels are doubtful, "
        "which inputs are strange and whether training went wrong. Writes one "
        "self-contained HTML page with the results and the commands to run "
        "next. The model must be a classifier, or a regressor that predicts "
        "one number.",
        "keras-likelihood checkup model.keras --data val.npz --test test.npz",
        {
            "model": "a .keras file, loaded in safe mode",
            "--data": "an .npz with x and y, or a .csv. Use data that the "
            "model was not trained on",
            "--test": "data to evaluate the calibration on (default: a random "
            "half of --data)",
            "--output": "the page",
            **_DATA,
        },
        {"--output": {"default": "checkup.html"}},
    ),
    "recalibrate": Command(
        "make the probabilities or intervals of a model reliable",
        "Fits the recalibration methods that keep the predicted classes, or "
        "the one given by --method, to validation data. Prints the scores of "
        "each one on held-out rows, and writes the calibrated model, fitted to "
        "all rows. The model must be a classifier, or a regressor that "
        "predicts one number, with or without a scale.",
        "keras-likelihood recalibrate model.keras --data val.npz "
        "\\\n      --test test.npz --output calibrated.keras",
        {
            "model": "a .keras file. Leave it out if the data are logits",
            "--data": "validation data: .npz with arrays x and y, or a .csv "
            "with a target column. Without a model: .npz with logits, or "
            "probs, and y (optionally features), or prediction and y "
            "(optionally scale and features)",
            "--test": "data to evaluate on, in the same form",
            "--method": "auto chooses by the cross-validated NLL",
            "--change-classes": "allow methods that may change the predicted "
            "classes, which often lowers the NLL further",
            "--output": "where to write the result: a .keras file; without a "
            "model an .npz of the outputs (default: nothing is written)",
            "--features": "name of the layer whose output is used as features",
            **_DATA,
        },
        {"model": {"nargs": "?"}},
        # The suffix must match the content. No suffix is added.
        suffix=lambda a: ".keras" if a.model else ".npz",
    ),
    "audit": Command(
        "write a page of doubtful labels, to review in a browser",
        "Ranks examples by how doubtful their labels are, and writes one "
        "self-contained HTML page on which you mark them as right or wrong. "
        "Without a model, a small network with a memory of every label is "
        "trained first. With --apply, the command writes the data with the "
        "labels that you corrected on the page.",
        "keras-likelihood audit model.keras --data train.npz",
        {
            "model": "a .keras file, loaded in safe mode (default: a small "
            "network is trained)",
            "--data": "the data: .npz with x and y, or a .csv with a target "
            "column. Without a model, x holds images (n, height, width) or (n, "
            "height, width, channels), or a table (n, features) in which NaN "
            "is a missing value",
            "--output": "the page (default: audit.html); with --apply, the "
            "corrected data (default: corrected.npz)",
            "--apply": "the decisions.csv that was exported from the page",
            "--labels": "a text file with one class name per line",
            "--top": "number of highest and of lowest scores on the page, in "
            "addition to all suspects",
            "--issues": "also write a .csv with a verdict for each label",
            "--epochs": "epochs of the network that is trained (default: "
            "depends on the number of examples)",
            **_DATA,
        },
        {
            "model": {"nargs": "?"},
            "--top": {"type": _number(int, 1), "default": 100},
        },
        defaults=lambda a: {
            "output": "corrected.npz" if a.apply else "audit.html"
        },
        suffix=lambda a: data_suffix(a.data) if a.apply else "",
    ),
    "detect": Command(
        "score the rows of a table by how strange they are",
        "Fits an outlier detector to a table without labels, and writes a "
        "score and a flag for every row. Prints the strangest rows and the "
        "columns that make them strange.",
        "keras-likelihood detect table.csv --contamination 0.02",
        {
            "data": "a .csv, a .parquet, or an .npz with an array X or x",
            "--detector": "detector to fit",
            "--contamination": "share of rows to flag, in (0, 0.5]",
            "--output": "a .csv with the scores (default: DATA.scores.csv)",
            "--page": "also write an HTML page of the strangest rows",
            "--save": "also write the fitted detector, a .zip",
            "--seed": "random seed",
            "--top": "number of rows to print",
        },
        {"--top": {"type": _number(int, 0), "default": 10}},
        defaults=_beside_data(".scores.csv"),
    ),
}
