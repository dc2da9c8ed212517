"""`keras-likelihood recalibrate`: a calibrated model from the shell."""

import importlib.util
import pathlib

import numpy as np

from keras_likelihood.commands.calibration_data import load_all
from keras_likelihood.commands.command_error import CommandError
from keras_likelihood.commands.options import add_force
from keras_likelihood.commands.outputs import check_outputs
from keras_likelihood.whole_files import replacing

FIGURES = (".png", ".pdf", ".svg")
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
    add_force(parser)
    parser.set_defaults(run=run)
    return parser


def run(args) -> int:
    """Runs the command; returns the exit status."""
    _check_suffixes(args)
    figure = _figure(args)
    check_outputs(
        {"--output": args.output, "--figure": figure},
        {"model": args.model, "--data": args.data, "--test": args.test},
        args.force,
    )
    frozen, val, test = load_all(args)
    from_logits = frozen is not None or not args.probabilities
    fitted = _fit_all(val, test, args.method, from_logits)
    chosen = fitted[args.method]
    _write(args, chosen, frozen, test or val, from_logits)
    if figure:
        _draw(figure, chosen, test or val, from_logits)
    return 0


def _check_suffixes(args):
    """Each file has the suffix of what it holds; none is added."""
    allowed = ".keras" if args.model else ".npz"
    if args.output and pathlib.Path(args.output).suffix != allowed:
        what = "a model" if args.model else "probabilities"
        raise CommandError(
            f"--output must end in {allowed} for {what}. "
            f"Received: {args.output}"
        )
    if args.figure and pathlib.Path(args.figure).suffix not in FIGURES:
        raise CommandError(
            f"--figure must end in one of {FIGURES}. Received: {args.figure}"
        )


def _figure(args):
    """Where the figure goes, or `None`."""
    if args.figure:
        import matplotlib  # noqa: F401

        return args.figure
    if not args.output:
        return None
    if importlib.util.find_spec("matplotlib") is None:
        print("no figure: matplotlib is missing, the extra [plots] brings it")
        return None
    return pathlib.Path(args.output).with_suffix(".png")


def _fit_all(val, test, method, from_logits):
    from keras_likelihood import recalibration

    names = dict(METHODS)
    if val.get("features") is None:
        del names["features"], names["deep"]
    if method not in (*names, "auto"):
        raise CommandError(f"The method {method!r} needs `features`.")
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
    # One column, or a plain vector, is the probability of yes.
    several = p.ndim > 1 and p.shape[-1] > 1
    predicted = p.argmax(-1) if several else p.reshape(y.shape) > 0.5
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


def _write(args, chosen, frozen, judged, from_logits):
    if not args.output:
        print("nothing written; --output names a file")
        return
    with replacing(args.output) as temporary:
        if frozen is not None:
            frozen.extend(chosen).save(temporary)
        else:
            p = probabilities(chosen, judged, from_logits)
            np.savez(temporary, probabilities=p)
    print(f"wrote {args.output} ({args.method})")


def _draw(figure, chosen, judged, from_logits):
    import matplotlib

    from keras_likelihood.plots.reliability import compare_reliability

    matplotlib.use("agg")
    titles = {
        "before": probabilities(None, judged, from_logits),
        "after": probabilities(chosen, judged, from_logits),
    }
    drawing = compare_reliability(judged["y"], titles)
    with replacing(figure) as temporary:
        drawing.savefig(temporary, dpi=150)
    print("wrote", figure)
