"""Good files, and what a case is made of."""

import dataclasses
import functools
import io
import json
import pathlib
import tempfile
import zipfile
from collections.abc import Callable

import keras
import numpy as np

MODEL_CALIBRATION = "recalibrate model.keras --data val.npz --method global"
CALIBRATION = "recalibrate --data logits.npz --method global"
CSV_CALIBRATION = "recalibrate --data logits.csv --method global"
CHECKUP = "checkup model.keras --data val.npz --output page.html"
AUDIT = "audit model.keras --data val.npz --output page.html"
DETECT = "detect table.npz --output scores.csv"
CSV_DETECT = "detect table.csv --output scores.csv"
READERS = {
    "model.keras": (AUDIT, MODEL_CALIBRATION, CHECKUP),
    "val.npz": (AUDIT, MODEL_CALIBRATION, CHECKUP),
    "logits.npz": (CALIBRATION,),
    "logits.csv": (CSV_CALIBRATION,),
    "table.npz": (DETECT,),
    "table.csv": (CSV_DETECT,),
}


@dataclasses.dataclass
class Case:
    """One run of a command in a folder of its own.

    Args:
        kind: row of the printed table.
        command: its arguments, separated by spaces.
        files: contents that replace or join the good files; `None` removes.
        expected: exit statuses that are right.
        outputs: files that may be written.
        prepare: called in the folder before the run, for links and folders.
        same: whether a run that ends well must print what the good files
            print.
    """

    kind: str
    command: str
    files: dict = dataclasses.field(default_factory=dict)
    expected: tuple = (1, 2)
    outputs: tuple = ("page.html", "scores.csv", "out.npz", "out.keras")
    prepare: Callable | None = None
    same: bool = False


@functools.cache
def good_files() -> dict:
    """Contents of good files, by name."""
    random = np.random.default_rng(0)
    x = 3 * random.normal(size=(40, 3)).astype("float32")
    y = (x + random.gumbel(size=x.shape)).argmax(axis=1)
    csv = "".join(
        ",".join(f"{v:.4f}" for v in row) + f",{c}\n"
        for row, c in zip(x, y, strict=True)
    )
    table = "a,b,c\n" + "".join(f"{a},{b},{c}\n" for a, b, c in x)
    return {
        "model.keras": model_bytes(),
        "val.npz": npz(x=x, y=y),
        "logits.npz": npz(logits=x, y=y, features=x[:, :2]),
        "logits.csv": csv.encode(),
        "table.npz": npz(X=x),
        "table.csv": table.encode(),
        "names.txt": b"cat\ndog\nbird\n",
    }


def model_bytes(model=None) -> bytes:
    """A saved model: three inputs, three classes."""
    if model is None:
        keras.utils.set_random_seed(0)
        inputs = keras.Input((3,), name="given")
        layer = keras.layers.Dense(
            3, kernel_initializer="identity", activation="softmax", name="last"
        )
        model = keras.Model(inputs, layer(inputs), name="small")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "model.keras")
        model.save(path)
        content = path.read_bytes()
    # Without the time at which it was saved.
    about = json.loads(read_entry(content, "metadata.json"))
    about["date_saved"] = "2000-01-01@00:00:00"
    return rezip(content, metadata__json=json.dumps(about))


def npz(save=np.savez, **arrays) -> bytes:
    """The bytes of an .npz."""
    file = io.BytesIO()
    save(file, **arrays)
    return file.getvalue()


def arrays_of(name) -> dict:
    """The arrays of a good .npz."""
    with np.load(io.BytesIO(good_files()[name])) as file:
        return dict(file)


def rezip(content: bytes, **changes) -> bytes:
    """An archive with entries replaced, or removed if `None`.

    Names are given with `__` for the dot.
    """
    changes = {k.replace("__", "."): v for k, v in changes.items()}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entries = {n: archive.read(n) for n in archive.namelist()}
    entries = {k: v for k, v in {**entries, **changes}.items() if v is not None}
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, text in entries.items():
            archive.writestr(zipfile.ZipInfo(name), text)
    return made.getvalue()


def read_entry(content: bytes, name: str) -> bytes:
    """One entry of an archive."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return archive.read(name)
