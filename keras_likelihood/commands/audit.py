"""`keras-likelihood audit`: the page of suspicious data, from the shell."""

import pathlib

from keras_likelihood.commands.data_files import existing
from keras_likelihood.commands.recalibrate import load


def add_parser(subparsers):
    """Adds the command to an argparse subparsers object."""
    parser = subparsers.add_parser(
        "audit",
        help="write a page on which bad labels and hard examples are seen",
        description=(
            "Ranks examples by their learned or predicted temperature or "
            "scale, or by the likelihood of their labels, and writes one "
            "self-contained HTML page."
        ),
    )
    parser.add_argument("model", help="a .keras file, loaded in safe mode")
    parser.add_argument(
        "--data", required=True, help="the data: .npz with x and y"
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
        type=int,
        default=100,
        help="most examples in a section of the page (default: %(default)s)",
    )
    parser.add_argument(
        "--issues", help="a .csv of the judgement of each label"
    )
    parser.add_argument(
        "--task",
        choices=["classification", "regression"],
        help="found from the model and the labels if unset",
    )
    parser.add_argument("--title", help="of the page")
    parser.set_defaults(run=run)
    return parser


def run(args) -> int:
    """Runs the command; returns the exit status."""
    from keras_likelihood.auditing.audit import audit

    data = load(args.data)
    if "x" not in data or "y" not in data:
        raise SystemExit(
            f"{args.data}: the file needs arrays `x` and `y`. "
            f"Received: {sorted(data)}"
        )
    report = audit(
        args.model,
        data["x"],
        data["y"],
        args.output,
        label_names=names(args.labels),
        feature_names=names(args.features),
        top=args.top,
        task=args.task,
        title=args.title or f"Data audit of {pathlib.Path(args.data).name}",
    )
    if args.issues:
        report.to_csv(args.issues)
    _print(report, args)
    return 0


def names(path) -> list[str] | None:
    """Reads one name a line; `None` for no path."""
    if path is None:
        return None
    return existing(path).read_text(encoding="utf-8").splitlines()


def _print(report, args):
    n, issues = len(report.scores), report.num_issues
    what = "targets" if report.task == "regression" else "labels"
    lines = {
        "examples": f"{n:,}",
        "score": report.score_name,
        f"suspected {what}": f"{issues:,} ({issues / n:.1%})",
        "worst": ", ".join(map(str, report.suspects()[:8])) or "none",
        "page": report.path,
    }
    if args.issues:
        lines["table"] = args.issues
    for name, value in lines.items():
        print(f"{name:17} {value}")
