"""`keras-likelihood audit`: writes the page of suspicious data."""

import pathlib

from keras_likelihood.backend.whole_files import replacing
from keras_likelihood.commands.archives import regular_file
from keras_likelihood.commands.command_error import CommandError, UsageError
from keras_likelihood.commands.data_files import read_arrays
from keras_likelihood.commands.model_files import load_model, running
from keras_likelihood.commands.options import at_least, new_command
from keras_likelihood.commands.outputs import check_outputs


def add_parser(subparsers):
    """Adds the command to an argparse subparsers object."""
    parser = new_command(
        subparsers,
        "audit",
        help="write a page on which bad labels and hard examples are seen",
        text=(
            "Ranks examples by their learned or predicted temperature or "
            "scale, or by the likelihood of their labels, and writes one "
            "self-contained HTML page. Without a model it first trains a "
            "small network of its own on the data, in which every example "
            "has a temperature or scale."
        ),
        example="keras-likelihood audit model.keras --data train.npz",
    )
    parser.add_argument(
        "model",
        nargs="?",
        help="a .keras file, loaded in safe mode; without it, a network is "
        "trained",
    )
    parser.add_argument(
        "--data",
        required=True,
        help="the data: .npz with x and y. Without a model, x holds images "
        "(n, height, width) or (n, height, width, channels), or a table "
        "(n, features) in which NaN is a missing value",
    )
    parser.add_argument(
        "--output",
        default="audit.html",
        help="the page (default: %(default)s)",
    )
    parser.add_argument(
        "--labels", help="a text file with the name of a class on each line"
    )
    parser.add_argument(
        "--features", help="a text file with the name of a column on each line"
    )
    parser.add_argument(
        "--top",
        type=at_least(1),
        default=100,
        help="most examples in a section of the page (default: %(default)s)",
    )
    parser.add_argument(
        "--issues", help="a .csv of the judgement of each label"
    )
    parser.add_argument(
        "--task",
        choices=["classification", "regression"],
        help="found from the model and the labels if unset; without a "
        "model, whole numbers are classes",
    )
    parser.add_argument(
        "--epochs",
        type=at_least(1),
        help="of the network that is trained (default: by the number of "
        "examples)",
    )
    parser.add_argument("--title", help="of the page")
    parser.set_defaults(run=run)
    return parser


def run(args) -> int:
    """Runs the command and returns the exit status."""
    check_outputs(
        {"--output": args.output, "--issues": args.issues},
        {
            "model": args.model,
            "--data": args.data,
            "--labels": args.labels,
            "--features": args.features,
        },
        args.force,
    )
    if args.model and args.epochs:
        raise UsageError(
            "--epochs is for the network that is trained without a model. "
            f"Received: {args.model}"
        )
    labels, features = read_names(args.labels), read_names(args.features)
    judge = _with_model if args.model else _with_own_network
    report = judge(
        args,
        output=args.output,
        label_names=labels,
        feature_names=features,
        top=args.top,
        task=args.task,
        title=args.title or f"Data audit of {pathlib.Path(args.data).name}",
    )
    if args.issues:
        with replacing(args.issues) as temporary:
            report.to_csv(temporary)
    _print(report, args, labels)
    return 0


def _with_model(args, **options):
    data = read_arrays(args.data, ("x", "y"))
    model = load_model(args.model)
    from keras_likelihood.auditing.audit import audit

    running_model = running(args.model, args.data)
    with running_model, args.console.progress("running the model"):
        return audit(model, data["x"], data["y"], **options)


def _with_own_network(args, **options):
    data = read_arrays(args.data, ("x", "y"), missing=("x",))
    x, y = data["x"], data["y"]
    from keras_likelihood.auditing.audit import audit
    from keras_likelihood.auditing.own_data import check_names, fill_missing
    from keras_likelihood.auditing.own_network import train_for_audit

    filled = fill_missing(x)
    labels = options["label_names"]
    check_names(x, y, args.task, labels, options["feature_names"])
    with args.console.progress("training a network", 0) as on_epoch:
        network = train_for_audit(
            filled,
            y,
            task=args.task,
            classes=labels and len(labels),
            epochs=args.epochs,
            on_epoch=on_epoch,
        )
    return audit(
        network.model,
        filled,
        y,
        **options,
        data_parameter=network.data_parameter,
        show=x,
    )


def read_names(path) -> list[str] | None:
    """Reads one name from each line, or `None` without a path."""
    if path is None:
        return None
    try:
        return regular_file(path).read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise CommandError(f"{path}: the file is not text ({error})") from error


def worst_examples(report, names=None, most: int = 8) -> list[dict]:
    """The worst suspects, or the highest scores if nothing is suspected.

    Args:
        report: an `AuditReport`.
        names: the names of the classes, or `None`.
        most: how many examples.
    """
    issues, columns = report.label_issues, dict(report.columns)
    if report.score_name == "predicted scale":
        del columns["scale"]
    chosen = report.suspects() if report.num_issues else report.ranked()
    chosen = chosen[:most]

    def label(value):
        value = value.item()
        if report.task == "regression":
            return value
        return names[value] if names else value

    return [
        {
            "example": int(at),
            "given": label(issues["given_label"][at]),
            "predicted": label(issues["predicted_label"][at]),
            "score": float(report.scores[at]),
            **{k: float(v[at]) for k, v in columns.items()},
        }
        for at in chosen
    ]


def _print(report, args, names):
    console = args.console
    n, issues = len(report.scores), report.num_issues
    what = "targets" if report.task == "regression" else "labels"
    files = {"page": report.path}
    if args.issues:
        files["table"] = args.issues
    console.facts(
        {
            "examples": f"{n:,}",
            "score": report.score_name,
            f"suspected {what}": f"{issues:,} ({issues / n:.1%})",
            **files,
        }
    )
    worst = worst_examples(report, names)
    console.result(
        examples=n,
        task=report.task,
        score=report.score_name,
        suspected=issues,
        worst=worst,
        **files,
    )
    kind = f"worst suspected {what}" if issues else "highest scores"
    console.say(f"The {kind}:", style="bold")
    console.table(
        list(worst[0]), [[shown(v) for v in row.values()] for row in worst]
    )
    console.next_step(
        f"open {report.path} in a browser, mark {what} as right or wrong, "
        "export the decisions, and apply them in Python:",
        'y, keep = kl.audit.apply(y, "decisions.csv")',
    )


def shown(value) -> str:
    """A number or a name as text for a table."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
