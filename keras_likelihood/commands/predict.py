"""`keras-likelihood predict`: predictions and intervals for new rows."""

import pathlib

import numpy as np

from keras_likelihood.commands import outputs
from keras_likelihood.commands.files import load_model, regular_file
from keras_likelihood.tables.columns import as_texts
from keras_likelihood.tables.csv_files import write_csv

add_parser = outputs.new_command(
    "predict",
    help="predict the rows of a table with a model written by `fit`",
    text="Writes a prediction for each row of a .csv or .parquet, with its "
    "interval or its set of possible classes, and the columns whose value is "
    "unlike the training data.",
    example="keras-likelihood predict model.keras new.csv",
    options={
        "model": "a .keras file that `fit` wrote",
        "data": "a .csv or .parquet with the columns of the training data",
        "--output": "a .csv for the predictions (default: "
        "DATA.predictions.csv)",
        "--coverage": "share of targets inside the intervals or sets, in (0, "
        "1) (default: %(default)s)",
    },
    coverage={"type": float, "default": 0.9},
)


def run(args) -> None:
    new = pathlib.Path(args.data).with_suffix(".predictions.csv")
    output = args.output = args.output or str(new)
    outputs.check_files(args, "output")
    from keras_likelihood import tabular
    from keras_likelihood.tables.reading import read_file

    cells = read_file(regular_file(args.data))
    model = tabular.load(load_model(args.model))
    unlike = model.unlike_training(cells)
    columns = {
        "row": range(len(unlike)),
        **_predict(model, cells, args),
        "unlike_training": map(" ".join, unlike),
    }
    write_csv(output, columns)
    count = sum(map(bool, unlike))
    args.console.say(
        f"Predicted {len(unlike)} row(s), of which {count} are unlike the "
        f"training data in some column. Predictions are in {output}"
    )
    args.console.result(rows=len(unlike), unlike_training=count, output=output)
    args.console.next_step(
        f"open {output}. Be careful with rows that have a column in "
        "`unlike_training`."
    )


def _predict(model, cells, args):
    """Values of the columns to write, by name."""
    if hasattr(model, "interval"):
        values = model.predict(cells), *model.interval(cells, args.coverage)
        names = "prediction", "lower", "upper"
        texts = ([f"{number:.8g}" for number in v] for v in values)
        return dict(zip(names, texts, strict=True))
    p = model.predict_proba(cells)
    classes = np.array(as_texts(model.classes_))
    found = {
        "prediction": classes[p.argmax(axis=1)].tolist(),
        "probability": [f"{v:.6g}" for v in p.max(axis=1)],
    }
    if hasattr(model.model_, "predict_set"):
        sets = model.predict_set(cells, args.coverage)
        found["possible"] = [" ".join(classes[row]) for row in sets]
    else:
        args.console.say(
            "There is no column `possible`: a model that was recalibrated has "
            "no calibrated sets of classes."
        )
    return found
