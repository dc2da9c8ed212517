"""`keras-likelihood predict`: predictions and intervals for new rows."""

import argparse
import collections
import itertools
import json
from collections.abc import Iterable
from typing import Any

import numpy as np

from keras_likelihood import tabular
from keras_likelihood.tables.columns import as_words
from keras_likelihood.tables.csv_files import write_csv
from keras_likelihood.tables.reading import read_file


def run(args: argparse.Namespace) -> None:
    cells = read_file(args.data)
    model = tabular.load(args.model)
    unlike = model.unlike_training(cells)
    columns = {
        "row": range(len(unlike)),
        **_predict(model, cells, args),
        "unlike_training": map(_list, unlike),
    }
    write_csv(args.output, columns)
    rows, count = len(unlike), sum(map(bool, unlike))
    counts = collections.Counter(itertools.chain(*unlike)).most_common(5)
    where = ", ".join(f"`{name}` ({found})" for name, found in counts)
    args.console.say(
        f"Predicted {rows} row(s), of which {count} are unlike the training "
        f"data{where and f', most often in {where}'}. Predictions are in "
        f"{args.output}, with rows counted from 0"
    )
    args.console.result(rows=rows, unlike_training=count, output=args.output)
    args.console.next_step(
        f"open {args.output}. Be careful with rows that have a column in "
        "`unlike_training`."
    )


def _list(names: Iterable[str]) -> str:
    """Names as a JSON list, because a name may contain any separator."""
    names = list(names)
    return json.dumps(names, ensure_ascii=False) if names else ""


def _predict(
    model: Any, cells: Any, args: argparse.Namespace
) -> dict[str, Any]:
    """Values of the columns to write, by name."""
    if hasattr(model, "interval"):
        values = model.predict(cells), *model.interval(cells, args.coverage)
        names = "prediction", "lower", "upper"
        texts = ([f"{number:.8g}" for number in v] for v in values)
        return dict(zip(names, texts, strict=True))
    p = model.predict_proba(cells)
    classes = np.array(as_words(model.classes_), object)
    columns = {
        "prediction": classes[p.argmax(axis=1)].tolist(),
        "probability": [f"{v:.6g}" for v in p.max(axis=1)],
    }
    if hasattr(model.model_, "predict_set"):
        sets = model.predict_set(cells, args.coverage)
        columns["possible"] = [_list(classes[row]) for row in sets]
    else:
        args.console.say(
            "There is no column `possible`: a model that was recalibrated has "
            "no calibrated sets of classes."
        )
    return columns
