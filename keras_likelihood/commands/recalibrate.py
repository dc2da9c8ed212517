"""`keras-likelihood recalibrate`: a calibrated model from the shell."""

import pathlib

import numpy as np

from keras_likelihood.commands.data_files import existing, plain_arrays

METHODS = {
    "global": "GlobalScaling",
    "linear": "LinearScaling",
    "features": "LinearFeatureScaling",
    "deep": "DeepScaling",
    "vector": "VectorScaling",
    "matrix": "MatrixScaling",
    "platt": "Platt",
    "isotonic": "Isotonic",
}


def add_parser(subparsers):
    """Adds the command to an argparse subparsers object."""
    parser = subparsers.add_parser(
        "recalibrate",
        help="recalibrate a saved classifier, or logits in a file",
        description=(
            "Fits every recalibration, or the one named, to validation data, "
            "prints NLL, ECE, accuracy and seconds, and writes the calibrated "
            "model and, with matplotlib, a reliability diagram."
        ),
    )
    parser.add_argument(
        "model",
        nargs="?",
        help="a .keras file; left out if the data are logits",
    )
    parser.add_argument(
        "--data",
        required=True,
        help="validation data: .npz with arrays x and y (or logits, y and "
        "perhaps features), or a .csv of logits with the label last",
    )
    parser.add_argument("--test", help="data to judge on, in the same form")
    parser.add_argument(
        "--method",
        default="auto",
        choices=["auto", *METHODS],
        help="auto (default) takes the least cross-validated NLL",
    )
    parser.add_argument(
        "--output",
        help="where to write: a .keras file, or an .npz of the probabilities "
        "if the data are logits; nothing is written if unset",
    )
    parser.add_argument("--figure", help="a .png; beside the output if unset")
    parser.add_argument("--features", help="name of the layer of features")
    parser.add_argument(
        "--probabilities",
        action="store_true",
        help="the data hold probabilities instead of logits",
    )
    parser.set_defaults(run=run)
    return parser


def run(args) -> int:
    """Runs the command; returns the exit status."""
    from keras_likelihood.recalibration.classifier_graph import (
        ClassifierGraph,
    )

    val = load(args.data)
    test = load(args.test) if args.test else None
    frozen = None
    if args.model:
        frozen = ClassifierGraph(
            args.model,
            val.get("x"),
            from_logits=False if args.probabilities else None,
            features=args.features,
            with_features="optional",
        )
        val = _outputs(frozen, val, args.data)
        test = test and _outputs(frozen, test, args.test)
    elif "logits" not in val:
        raise SystemExit(
            f"{args.data}: without a model the file needs `logits` and `y`. "
            f"Received: {sorted(val)}"
        )
    for data in filter(None, (val, test)):
        data["y"] = _class_numbers(data)
    from_logits = frozen is not None or not args.probabilities
    fitted = _fit_all(val, test, args.method, from_logits)
    chosen = fitted[args.method]
    _write(args, chosen, frozen, val, test, from_logits)
    return 0


def load(path) -> dict:
    """Reads arrays from a .npz or a .csv; pickled arrays are refused."""
    path = existing(path)
    if path.suffix == ".csv":
        table = np.genfromtxt(path, delimiter=",", dtype="float64")
        if table.ndim == 2 and np.isnan(table[0]).all():
            table = table[1:]
        if table.ndim != 2 or np.isnan(table).any():
            raise SystemExit(
                f"{path}: a .csv must hold numbers, one row an example: the "
                "logits, then the class number"
            )
        return {"logits": table[:, :-1], "y": table[:, -1].astype("int64")}
    if path.suffix != ".npz":
        raise SystemExit(f"Data must be .npz or .csv. Received: {path}")
    with plain_arrays(path) as file:
        return {key: file[key] for key in file.files}


def _outputs(frozen, data, path):
    if "x" not in data or "y" not in data:
        raise SystemExit(
            f"{path}: the file needs arrays `x` and `y`. "
            f"Received: {sorted(data)}"
        )
    logits, features, y, _ = frozen.outputs(data["x"], data["y"])
    return {"logits": logits, "features": features, "y": y}


def _class_numbers(data):
    """The labels as numbers in the logits' shape, less its classes."""
    from keras_likelihood.reading.targets import as_labels

    shape = np.shape(data["logits"])
    shape = shape if len(shape) > 1 else (*shape, 1)
    return as_labels(data["y"], shape).reshape(shape[:-1])


def _fit_all(val, test, method, from_logits):
    from keras_likelihood import recalibration

    names = dict(METHODS)
    if val.get("features") is None:
        del names["features"], names["deep"]
    if method not in (*names, "auto"):
        raise SystemExit(f"The method {method!r} needs `features`.")
    names = {**names, "auto": "Auto"}
    if method != "auto":
        names = {method: names[method]}
    print(f"{'method':10} {'NLL':>9} {'ECE':>8} {'accuracy':>9} {'seconds':>8}")
    fitted = {}
    for short, name in {"none": None, **names}.items():
        recalibrator = name and getattr(recalibration, name)()
        if recalibrator:
            recalibrator.fit_arrays(
                val["logits"],
                val["y"],
                val.get("features"),
                from_logits=from_logits,
            )
        nll, ece, accuracy = _judge(recalibrator, test or val, from_logits)
        seconds = recalibrator.report_["seconds"] if recalibrator else 0.0
        row = f"{nll:9.4f} {ece:8.4f} {accuracy:9.4f} {seconds:8.2f}"
        print(f"{short:10} {row}", flush=True)
        fitted[short] = recalibrator
    if test:
        print("(on the test data)")
    else:
        print("(on the data they were fitted to; --test judges on others)")
    if method == "auto":
        print("auto chose", fitted["auto"].parameters_["method"])
    return fitted


def _judge(recalibrator, data, from_logits):
    from keras_likelihood.metrics import functions

    p, y = probabilities(recalibrator, data, from_logits), data["y"]
    predicted = p.argmax(-1) if p.shape[-1] > 1 else p[..., 0] > 0.5
    return (
        functions.negative_log_likelihood(y, p),
        functions.expected_calibration_error(y, p),
        float(np.mean(predicted == y)),
    )


def probabilities(recalibrator, data, from_logits):
    """Calibrated probabilities, or those of the data for `None`."""
    from keras_likelihood.recalibration import GlobalScaling

    if recalibrator is None:
        recalibrator = GlobalScaling()
        recalibrator.parameters_ = {"temperature": 1.0}
    return recalibrator.calibrate(
        data["logits"], data.get("features"), from_logits=from_logits
    )


def _write(args, chosen, frozen, val, test, from_logits):
    from keras_likelihood.plots.reliability import compare_reliability

    judged = test or val
    p = probabilities(chosen, judged, from_logits)
    if not args.output:
        print("nothing written; --output names a file")
    else:
        if frozen is not None:
            frozen.extend(chosen).save(args.output)
        else:
            np.savez(args.output, probabilities=p)
        print(f"wrote {args.output} ({args.method})")
    figure = args.figure
    if figure is None and args.output:
        figure = pathlib.Path(args.output).with_suffix(".png")
    if figure is None:
        return
    try:
        import matplotlib
    except ImportError:
        print("no figure: matplotlib is missing, the extra [plots] brings it")
        return
    matplotlib.use("agg")
    before = probabilities(None, judged, from_logits)
    titles = {"before": before, "after": p}
    drawing = compare_reliability(judged["y"], titles)
    drawing.savefig(figure, dpi=150)
    print("wrote", figure)
