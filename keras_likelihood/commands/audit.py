"""`keras-likelihood audit`: writes a page of doubtful labels."""

import argparse
import pathlib
from typing import Any

import numpy as np

from keras_likelihood.backend.files import replacing
from keras_likelihood.commands import files, outputs
from keras_likelihood.commands.console import callback
from keras_likelihood.tables.csv_files import CsvFile
from keras_likelihood.tables.table_files import is_text_table

add_parser = outputs.new_command(
    "audit",
    help="write a page of doubtful labels, to review in a browser",
    text="Ranks examples by how doubtful their labels are, and writes one "
    "self-contained HTML page on which you mark them as right or wrong. "
    "Without a model, a small network with a memory of every label is trained "
    "first. With --apply, the command writes the data with the labels that you "
    "corrected on the page.",
    example="keras-likelihood audit model.keras --data train.npz",
    options={
        "model": "a .keras file, loaded in safe mode (default: a small network "
        "is trained)",
        "--data": "the data: .npz with x and y, or a .csv with a target "
        "column. Without a model, x holds images (n, height, width) or (n, "
        "height, width, channels), or a table (n, features) in which NaN is a "
        "missing value",
        "--output": "the page (default: audit.html); with --apply, the "
        "corrected data (default: corrected.npz)",
        "--apply": "the decisions.csv that was exported from the page",
        "--labels": "a text file with one class name per line",
        "--top": "number of highest and of lowest scores on the page, in "
        "addition to all suspects (default: %(default)s)",
        "--issues": "also write a .csv with a verdict for each label",
        "--epochs": "epochs of the network that is trained (default: depends "
        "on the number of examples)",
        **outputs.DATA_OPTIONS,
        **outputs.TASK_OPTION,
    },
    model={"nargs": "?"},
    top={"type": outputs.number(int, 1), "default": 100},
)


def run(args: argparse.Namespace) -> None:
    default = "corrected.npz" if args.apply else "audit.html"
    args.output = args.output or default
    suffix = ".csv" if is_text_table(args.data) else ".npz"
    needed = suffix if args.apply else ""
    outputs.check_files(args, "output", "issues", suffix=needed)
    if args.model and args.epochs and not args.apply:
        raise files.UsageError(
            "--epochs applies only if no model is given. "
            f"Received: {args.model}"
        )
    labels = None
    if args.labels:
        text = pathlib.Path(args.labels).read_bytes()
        labels = text.decode("utf-8", "replace").splitlines()
    model = files.load_model(args.model) if args.model else None
    data = files.read_examples(model, args.data, args)
    if args.apply:
        _apply(args, data)
        return
    # A missing package must fail before the long computation.
    from keras_likelihood.auditing.page import write_audit
    from keras_likelihood.pages.examples import show_inputs

    examples = show_inputs(data.get("shown", data["x"]), data.get("names"))
    report = _rank(args, model, data, labels or data.get("labels"))
    command = outputs.shell(
        "audit",
        # A model of a table defines the classes.
        args.model if "shown" in data else None,
        data=args.data,
        target=args.target,
        apply="decisions.csv",
        output=outputs.unused(f"corrected{suffix}"),
    )
    title = f"Data audit of {pathlib.Path(args.data).name}"
    advice = "This command writes the corrected data:", command
    report.path = write_audit(
        report, examples, args.output, args.top, title, data["y"], advice
    )
    if args.issues:
        report.to_csv(args.issues)
    _print(report, args, command)


def _rank(
    args: argparse.Namespace,
    model: Any,
    data: dict[str, Any],
    names: list[str] | None,
) -> Any:
    """Audits with the model, or with a network that is trained here."""
    from keras_likelihood.auditing import fill_missing, train_for_audit
    from keras_likelihood.auditing.audit import audit

    x, y = data["x"], data["y"]
    options = {"label_names": names, "task": args.task}
    if model is not None:
        options["from_logits"] = False if args.probabilities else None
        running_model = files.running(args.model, args.data)
        with running_model, args.console.progress("running the model"):
            return audit(model, x, y, None, **options)
    x = fill_missing(x)
    with args.console.progress("training a network", 0) as on_epoch:
        model = train_for_audit(
            x,
            y,
            task=args.task,
            classes=len(names) if names else None,
            epochs=args.epochs,
            callbacks=[callback(on_epoch)],
        )
    return audit(model, x, y, None, **options)


def _apply(args: argparse.Namespace, data: dict[str, Any]) -> None:
    """Writes the data with the corrected labels."""
    from keras_likelihood.auditing import apply

    y, keep = apply(data["y"], files.regular_file(args.apply))
    is_new = (y != data["y"]).reshape(len(y), -1).any(axis=1)
    changed, left_out = int(is_new.sum()), int((~keep).sum())
    with replacing(args.output) as temporary:
        if "table" in data:
            names, target = data.get("labels"), data["table"].target
            cells = {
                at: names[y[at]] if names else f"{y[at]:.15g}"
                for at in np.flatnonzero(is_new).tolist()
            }
            CsvFile(args.data).write(temporary, target, cells, keep)
        else:
            np.savez(temporary, x=data["x"][keep], y=y[keep])
    console = args.console
    counts = {"corrected labels": changed, "left out": left_out}
    counts["examples"] = int(keep.sum())
    facts = {name: f"{count:,}" for name, count in counts.items()}
    console.facts({**facts, "data": args.output})
    console.result(corrected=changed, left_out=left_out, written=args.output)
    options = {"target": args.target, "output": outputs.unused("audit.html")}
    console.next_step(
        "train on the corrected data, or audit it again:",
        outputs.shell("audit", data=args.output, **options),
    )


def worst_examples(report: Any, most: int = 8) -> list[dict[str, Any]]:
    """The worst suspects, or the highest scores if nothing is suspected."""
    names = report.label_names
    columns = {"score": report.scores, **report.columns}
    chosen = report.suspects() if report.num_issues else report.ranked()
    rows = []
    for at in chosen[:most].tolist():
        row = {"example": at}
        for which in ("given", "predicted"):
            value = report.label_issues[f"{which}_label"][at]
            row[which] = names[value] if names else value.item()
        rows.append(row | {k: float(v[at]) for k, v in columns.items()})
    return rows


def _print(report: Any, args: argparse.Namespace, command: str) -> None:
    console = args.console
    n, issues = len(report.scores), report.num_issues
    what = "targets" if report.task == "regression" else "labels"
    written = {"page": report.path}
    if args.issues:
        written["table"] = args.issues
    facts = {"examples": f"{n:,}", "score": report.score_name}
    facts[f"suspected {what}"] = f"{issues:,} ({issues / n:.1%})"
    console.facts({**facts, **written})
    worst = worst_examples(report)
    console.result(examples=n, task=report.task, score=report.score_name)
    console.result(suspected=issues, worst=worst, **written)
    kind = f"most doubtful {what}" if issues else "highest scores"
    console.say(f"The {kind}:", style="bold")
    console.table(list(worst[0]), [list(map(shown, w.values())) for w in worst])
    console.next_step(
        f"open {report.path} in a browser, mark {what} as right or wrong, "
        "export your decisions, and apply them:",
        command,
    )


def shown(value: Any) -> str:
    """A number or a name as text for a table."""
    return f"{value:.3g}" if isinstance(value, float) else str(value)
