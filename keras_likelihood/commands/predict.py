"""`keras-likelihood predict`: what a fitted model says of new rows."""

import csv
import pathlib

from keras_likelihood.backend.whole_files import replacing
from keras_likelihood.commands.files import load_model
from keras_likelihood.commands.fit import read_cells
from keras_likelihood.commands.outputs import check_outputs, new_command


def add_parser(subparsers):
    """Adds the command to an argparse subparsers object."""
    parser = new_command(
        subparsers,
        "predict",
        help="predict the rows of a table with a model of `fit`",
        text=(
            "Writes a prediction for each row of a .csv, with its interval "
            "or its set of possible classes, and the columns in which the "
            "row is unlike the training data."
        ),
        example="keras-likelihood predict model.keras new.csv",
    )
    parser.add_argument("model", help="a .keras file that `fit` wrote")
    parser.add_argument("data", help="a .csv with the columns of the training")
    parser.add_argument(
        "--output", help="a .csv; DATA.predictions.csv if unset"
    )
    parser.add_argument(
        "--coverage",
        type=float,
        default=0.9,
        help="share of targets inside of intervals or sets, in (0, 1) "
        "(default: %(default)s)",
    )
    return parser


def run(args) -> None:
    """Runs the command."""
    data = pathlib.Path(args.data)
    output = args.output or str(data.with_suffix(".predictions.csv"))
    check_outputs(
        {"--output": output},
        {"model": args.model, "data": args.data},
        args.force,
    )
    cells = read_cells(args.data)
    from keras_likelihood.tabular.estimators import estimator_of

    model = estimator_of(load_model(args.model))
    names, columns = _predict(model, cells, args.coverage)
    unlike = model.unlike_training(cells)
    with replacing(output) as temporary:
        with open(temporary, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["row", *names, "unlike_training"])
            rows = zip(*columns, unlike, strict=True)
            for at, (*values, strange) in enumerate(rows):
                writer.writerow([at, *values, " ".join(strange)])
    count = sum(map(bool, unlike))
    args.console.say(
        f"{len(unlike)} row(s) predicted, {count} of them unlike the training "
        f"data in some column. Predictions in {output}"
    )
    args.console.result(rows=len(unlike), unlike_training=count, output=output)
    args.console.next_step(
        f"open {output}. Trust rows with a column in `unlike_training` less."
    )


def _predict(model, cells, coverage):
    """Names and values of the columns to write."""
    if hasattr(model, "interval"):
        from keras_likelihood.tabular.training import batch_of

        x = model.encode(cells)
        found = model.model.predict_distribution(x, batch_size=batch_of(x))
        values = found.distribution.mean(), *found.interval(coverage)
        texts = [[f"{number:.8g}" for number in v[:, 0]] for v in values]
        return ["prediction", "lower", "upper"], texts
    p = model.predict_proba(cells)
    sets = model.predict_set(cells, coverage)
    classes = model.classes_
    return ["prediction", "probability", "possible"], [
        classes[p.argmax(axis=1)].tolist(),
        [f"{v:.6g}" for v in p.max(axis=1)],
        [" ".join(map(str, classes[row])) for row in sets],
    ]
