"""Options and outputs that are wrong."""

import functools
import os
import pathlib

from bad_file_cases.damage import make_folder
from bad_file_cases.good import (
    AUDIT,
    CALIBRATION,
    DETECT,
    MODEL_CALIBRATION,
    Case,
)


def wrong_options():
    """Options that are not, and outputs that would cost a file."""
    for extra in (
        "--no-such",
        "--top x",
        "--task naming",
        "--task regression",
        "--labels none.txt",
        "--labels val.npz",
        "--labels long.txt",
        "--features long.txt",
        "--top 0",
        "--top -3",
    ):
        files = {"long.txt": b"a\nb\nc\nd\n"}
        yield Case("wrong option", f"{AUDIT} {extra}", files)
    for extra in (
        "--contamination 0",
        "--contamination 0.9",
        "--contamination nan",
        "--contamination x",
        "--seed -1",
        "--seed x",
        "--seed 99999999999999",
        "--top -1",
        "--detector lof",
    ):
        yield Case("wrong option", f"{DETECT} {extra}")
    for command in (
        "",
        "train",
        "audit",
        "audit model.keras",
        "recalibrate model.keras",
        "recalibrate --data val.npz",
        "recalibrate model.keras --data logits.npz",
        "recalibrate model.keras --data table.csv",
        "recalibrate model.h5 --data val.npz",
        f"{CALIBRATION} --probabilities",
        f"{MODEL_CALIBRATION} --features no_such_layer",
        "recalibrate --data logits.csv --method deep",
        "recalibrate --data logits.csv --method best",
        "detect model.keras",
        "demo --output names.txt",
        "demo --output names.txt/report",
    ):
        yield Case("wrong option", command)


def wrong_outputs():
    """Outputs that are inputs, exist or cannot be written."""
    outputs = {
        f"{AUDIT} --force --issues": "val.npz",
        f"{AUDIT} --force --labels names.txt --issues": "names.txt",
        f"{DETECT} --force --save": "table.npz",
        "audit model.keras --data val.npz --force --output": "model.keras",
        "detect table.csv --force --output": "table.csv",
        f"{CALIBRATION} --force --output": "logits.npz",
        f"{MODEL_CALIBRATION} --force --output": "model.keras",
    }
    for command, source in outputs.items():
        suffix = pathlib.Path(source).suffix
        link = f"link{suffix}"
        yield Case("output is input", f"{command} {source}")
        yield Case(
            "output is input",
            f"{command} ./deep/../{source}",
            prepare=make_folder("deep"),
        )
        for make in (os.symlink, os.link):
            prepare = functools.partial(make, source, link)
            yield Case("output is input", f"{command} {link}", prepare=prepare)
        command = command.replace(" --force", "")
        old = {f"old{suffix}": b"precious"}
        yield Case("output exists", f"{command} old{suffix}", old)
        prepare = functools.partial(os.symlink, "nowhere", link)
        yield Case("output exists", f"{command} {link}", prepare=prepare)
        for path in (
            "deep",
            "deep/",
            "/dev/null",
            "no/such/out",
            f"names.txt/out{suffix}",
            "n" * 300 + suffix,
        ):
            yield Case(
                "unwritable", f"{command} {path}", prepare=make_folder("deep")
            )
    for extra in ("--output out", "--output out.keras"):
        yield Case("wrong suffix", f"{CALIBRATION} {extra}")
    for extra in ("--output out", "--output out.npz"):
        yield Case("wrong suffix", f"{MODEL_CALIBRATION} {extra}")
    written = {"out.npz": b"precious"}
    both = f"{AUDIT} --issues page.html"
    yield Case("output exists", f"{CALIBRATION} --output out.npz", written)
    yield Case("output is output", both)
    yield Case("output is output", f"{DETECT} --save ./scores.csv")
    yield Case("output exists", "demo", {"report/demo.html": b"precious"})
