"""`keras-likelihood audit`: writes a page of doubtful labels."""

import argparse
import pathlib
from typing import Any

import numpy as np

from keras_likelihood import auditing
from keras_likelihood.auditing.audit import audit
from keras_likelihood.auditing.page import write_audit
from keras_likelihood.backend.files import replacing
from keras_likelihood.commands import files
from keras_likelihood.commands.console import callback
from keras_likelihood.commands.options import data_suffix
from keras_likelihood.pages.examples import show_inputs
from keras_likelihood.reading import load_model
from keras_likelihood.tables.csv_files import CsvFile


def run(args: argparse.Namespace) -> None:
    if args.model and args.epochs and not args.apply:
        raise files.UsageError(
            "--epochs applies only if no model is given. "
            f"Received: {args.model}"
        )
    model = load_model(args.model) if args.model else None
    data = files.read_examples(model, args.data, args)
    if args.apply:
        _apply(args, data)
        return
    labels = data.get("labels")
    if args.labels:
        text = pathlib.Path(args.labels).read_bytes()
        labels = text.decode("utf-8", "replace").splitlines()
    examples = show_inputs(data.get("shown", data["x"]), data.get("names"))
    report = _rank(args, model, data, labels)
    command = files.shell(
        "audit",
        # A model of a table defines the classes.
        args.model if "shown" in data else None,
        data=args.data,
        target=args.target,
        apply="decisions.csv",
        output=files.unused(f"corrected{data_suffix(args.data)}"),
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
) -> auditing.AuditReport:
    """Audits with the model, or with a network that is trained here."""
    x, y = data["x"], data["y"]
    options = {"label_names": names, "task": args.task}
    if model is not None:
        options["from_logits"] = False if args.probabilities else None
        running_model = files.running(args.model, args.data)
        with running_model, args.console.progress("running the model"):
            return audit(model, x, y, None, **options)
    x = auditing.fill_missing(x)
    with args.console.progress("training a network", 0) as on_epoch:
        model = auditing.train_for_audit(
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
    y, keep = auditing.apply(data["y"], args.apply)
    is_new = (y != data["y"]).reshape(len(y), -1).any(axis=1)
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
    console, left_out = args.console, int((~keep).sum())
    counts = {"corrected labels": int(is_new.sum()), "left out": left_out}
    counts["examples"] = int(keep.sum())
    facts = {name: f"{count:,}" for name, count in counts.items()}
    console.facts({**facts, "data": args.output})
    console.result(corrected=counts["corrected labels"], left_out=left_out)
    console.result(written=args.output)
    options = {"target": args.target, "output": files.unused("audit.html")}
    console.next_step(
        "train on the corrected data, or audit it again:",
        files.shell("audit", data=args.output, **options),
    )


def worst_examples(
    report: auditing.AuditReport, most: int = 8
) -> list[dict[str, Any]]:
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


def _print(
    report: auditing.AuditReport, args: argparse.Namespace, command: str
) -> None:
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
    console.say(f"The {kind}, counted from 0:", style="bold")
    console.table(list(worst[0]), [list(map(shown, w.values())) for w in worst])
    console.next_step(
        f"open {report.path} in a browser, mark {what} as right or wrong, "
        "export your decisions, and apply them:",
        command,
    )


def shown(value: Any) -> str:
    """A number or a name as text for a table."""
    return f"{value:.3g}" if isinstance(value, float) else str(value)
