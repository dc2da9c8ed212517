"""Files and options that must not end a command badly: see `bad_files.py`.

Every case is made from good files by seeded changes, so the corpus is the
same on every run.
"""

import dataclasses
import functools
import io
import json
import os
import pathlib
import struct
import tempfile
import zipfile
from collections.abc import Callable

import keras
import numpy as np

MODEL_CALIBRATION = "recalibrate model.keras --data val.npz --method global"
CALIBRATION = "recalibrate --data logits.npz --method global"
CSV_CALIBRATION = "recalibrate --data logits.csv --method global"
AUDIT = "audit model.keras --data val.npz --output page.html"
DETECT = "detect table.npz --output scores.csv"
CSV_DETECT = "detect table.csv --output scores.csv"
READERS = {
    "model.keras": (AUDIT, MODEL_CALIBRATION),
    "val.npz": (AUDIT, MODEL_CALIBRATION),
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
    expected: tuple = (2,)
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


def damaged():
    """Every good file cut, flipped, blanked, doubled and misnamed."""
    random = np.random.default_rng(1)
    for name, content in good_files().items():
        for command in READERS.get(name, ()):
            archive = not name.endswith("csv")
            size = len(content)
            cuts = [1, 3, 22, size // 4, size // 2, 3 * size // 4, size - 1]
            for cut in cuts:
                # A cut .csv may end at a row's end, and then is a table.
                yield Case(
                    "truncated",
                    command,
                    {name: content[:cut]},
                    (2,) if archive else (0, 2),
                )
            for _ in range(24):
                flipped = bytearray(content)
                flipped[random.integers(size)] ^= 1 << random.integers(8)
                yield Case(
                    "bit-flipped",
                    command,
                    {name: bytes(flipped)},
                    (0, 2),
                    same=archive,
                )
            for _ in range(4):
                at = int(random.integers(size - 32))
                blank = content[:at] + bytes(32) + content[at + 32 :]
                files = {name: blank}
                yield Case("blanked", command, files, (0, 2), same=archive)
            for blob in (b"", b"\n", bytes(1000), random.bytes(1000)):
                yield Case("empty or noise", command, {name: blob})
            yield Case("missing", command, {name: None})
            yield Case("directory", command, {name: None}, prepare=_mkdir(name))
            yield Case(
                "looped link", command, {name: None}, prepare=_loop(name)
            )
            yield Case("pipe", command, {name: None}, prepare=_pipe(name))
            yield from misnamed(name, command)


def misnamed(name, command):
    """Contents of one kind under the name of another."""
    kinds = {**good_files(), "array.npy": _npy(np.zeros((4, 3)))}
    kinds["page.html"] = b"<html><body>404</body></html>\n"
    kinds["old.h5"] = b"\x89HDF\r\n\x1a\n" + bytes(64)
    kinds["data.gz"] = b"\x1f\x8b\x08\x00" + bytes(30)
    for other, content in kinds.items():
        if pathlib.Path(other).suffix != pathlib.Path(name).suffix:
            yield Case("misnamed", command, {name: content})


def _npy(array, **options):
    file = io.BytesIO()
    np.lib.format.write_array(file, array, **options)
    return file.getvalue()


def _mkdir(name):
    return lambda: os.mkdir(name)


def _loop(name):
    return lambda: os.symlink(name, name)


def _pipe(name):
    return lambda: os.mkfifo(name)


def header(text: str, version=1, claimed=None) -> bytes:
    """An .npy with any header."""
    body = text.encode("latin1") + b"\n"
    size = len(body) if claimed is None else claimed
    packed = struct.pack("<H" if version == 1 else "<I", size)
    return b"\x93NUMPY" + bytes([version, 0]) + packed + body + bytes(96)


def false_headers():
    """Arrays and archives that claim to be what they are not."""
    plain = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }"
    texts = [
        plain % ("<f8", "(1000000000000000,)"),
        plain % ("<f8", "(100000000, 3)"),
        plain % ("<f8", "(-4, 3)"),
        plain % ("<f8", "(0, 1000000000000000)"),
        plain % ("<f8", "(1000000000000000, 0)"),
        plain % ("<f8", "(4, 'x')"),
        plain % ("|V1000000000000", "(1,)"),
        plain % ("<q9", "(4, 3)"),
        plain % ("|O", "(4, 3)"),
        "{'shape': (4, 3)}",
        "(" * 5000,
        "__import__('os').getcwd()",
        "",
    ]
    entries = [header(text) for text in texts]
    entries += [
        header(plain % ("<f8", "(4, 3)"), version=2, claimed=2**32 - 1),
        header(plain % ("<f8", "(4, 3)"), version=1, claimed=65535),
        header(plain % ("<f8", "(4, 3)"), version=9),
        b"\x93NUMPY",
        b"\x80\x04]q\x00.",
        b"",
    ]
    places = {"val.npz": "x", "logits.npz": "logits", "table.npz": "X"}
    for name, key in places.items():
        for entry in entries:
            content = rezip(good_files()[name], **{f"{key}__npy": entry})
            yield Case("false header", READERS[name][0], {name: content})
    for name in (*places, "model.keras"):
        for content in false_entries(good_files()[name]):
            yield Case("false zip entry", READERS[name][0], {name: content})


def false_entries(content):
    """The archive with its directory of entries changed, entry by entry."""
    start = content.index(b"PK\x01\x02")
    fields = {8: "<H", 10: "<H", 20: "<I", 24: "<I", 42: "<I"}
    values = {8: 1, 10: 14, 20: 2**31, 24: 2**32 - 2, 42: 2**31}
    for at, form in fields.items():
        changed = bytearray(content)
        struct.pack_into(form, changed, start + at, values[at])
        yield bytes(changed)
    made = io.BytesIO(content)
    with zipfile.ZipFile(made, "a") as archive:
        first = archive.namelist()[0]
        archive.fp.seek(archive.start_dir)
        archive.filelist.append(archive.getinfo(first))
        archive._didModify = True
    yield made.getvalue()


def wrong_arrays():
    """Archives in order, with arrays that are not."""
    for name, key in {"val.npz": "x", "logits.npz": "logits"}.items():
        good = arrays_of(name)
        x, y = good[key], good["y"]
        for changes, expected in _changes(key, x, y):
            kept = {
                k: v for k, v in {**good, **changes}.items() if v is not None
            }
            for command in READERS[name]:
                files = {name: npz(**kept)}
                yield Case("wrong arrays", command, files, expected)
    x = arrays_of("table.npz")["X"]
    for table in _tables(x):
        yield Case("wrong arrays", DETECT, {"table.npz": npz(X=table)})
    for table in (x.astype(">f8"), x.astype("float16"), np.asfortranarray(x)):
        files = {"table.npz": npz(np.savez_compressed, x=table)}
        yield Case("fine arrays", DETECT, files, (0,))
    vector = good["logits"][:, 0]
    files = {"logits.npz": npz(logits=vector, y=(vector > 0).astype(int))}
    yield Case("fine arrays", CALIBRATION, files, (0,))
    for changes in (
        {"features": x[:-1]},
        {"features": np.full((40, 2), np.nan)},
        {"features": np.zeros((0, 2))},
        {"features": np.array(["a"] * 40)},
    ):
        files = {"logits.npz": npz(**{**good, **changes})}
        command = CALIBRATION.replace("global", "features")
        yield Case("wrong arrays", command, files)
    for test in (
        npz(logits=x[:, :2], y=y % 2, features=x[:, :2]),
        npz(logits=x, y=y),
        npz(logits=x, y=y, features=x),
        npz(x=x, y=y),
        b"",
    ):
        command = f"{CALIBRATION} --test test.npz"
        yield Case("wrong arrays", command, {"test.npz": test})


def _changes(key, x, y):
    bad_x = [None, x[:0], x[:, :0], x[0, 0], x[:-1], x + 1j, x.astype(object)]
    bad_x += [np.where(x == x.max(), v, x) for v in (np.nan, np.inf, -np.inf)]
    bad_x += [x.astype("M8[s]"), x.view([("a", "<f4")])]
    if key == "x":
        bad_x += [x[:, :2], x[:, 0], np.array(["a", "b"] * 20)]
    bad_y = [None, y[:0], y[:-1], y[0], y + 7, y - 1, y + 0.5, y * np.nan]
    bad_y += [y.astype(str), y.astype(object), y + 0j, np.ones((40, 3))]
    bad_y += [np.zeros((40, 5)), np.eye(4)[y], y.astype("M8[s]")]
    fine_x = [x.astype(">f4"), x.astype("f2"), x.astype("g"), x.astype(int)]
    fine_x += [np.asfortranarray(x)]
    fine_y = [y[:, None], np.eye(3)[y], y.astype(">i2"), y.astype("f8")]
    for values, name, expected in (
        (bad_x, key, (2,)),
        (bad_y, "y", (2,)),
        (fine_x, key, (0,)),
        (fine_y, "y", (0,)),
    ):
        for value in values:
            yield {name: value}, expected


def _tables(x):
    yield from (x[:0], x[:1], x[:, :0], x[0, 0], x[:, 0], x[..., None])
    yield from (x + 1j, x.astype(object), x.astype(str), x.astype("M8[s]"))
    yield from (np.where(x == x.max(), v, x) for v in (np.nan, np.inf))
    yield from (np.ones((40, 3)), x.view([("a", "<f4")]))


def wrong_csv():
    """Tables with cells, rows and codings that are wrong."""
    for name in ("logits.csv", "table.csv"):
        content = good_files()[name]
        first, second, *rest = content.decode().splitlines(keepends=True)
        cells = second.split(",")
        texts = [first + ",".join(["nan", *cells[1:]]) + "".join(rest)]
        for cell in ("inf", "1e999", "x", "", "0x10", "1;2", "--", '"', "\x00"):
            row = ",".join([cell, *cells[1:]])
            texts.append(first + row + "".join(rest))
        texts += [
            first + second[:-1] + ",9\n" + "".join(rest),
            first + cells[0] + "\n" + "".join(rest),
            content.decode().replace(",", ";"),
            content.decode().replace("\n", ",\n"),
            "a,b,c,d\n",
            "#\n",
            "\n\n\n",
            '"' + "1" * 200_000,
        ]
        command = READERS[name][0]
        for text in texts:
            yield Case("wrong .csv", command, {name: text.encode()})
        for coding in ("utf-16", "utf-32"):
            encoded = content.decode().encode(coding)
            yield Case("wrong .csv", command, {name: encoded})
        yield Case("wrong .csv", command, {name: b"\xe9" + content})
        for fine in (
            b"\xef\xbb\xbf" + content,
            content.replace(b"\n", b"\r\n"),
            content.replace(b"\n", b"\n\n"),
            content[:-1],
        ):
            yield Case("fine .csv", command, {name: fine}, (0,))
    labels = good_files()["logits.csv"].decode()
    for wrong in (
        labels.replace(",1\n", ",1.7\n"),
        labels.replace(",1\n", ",7\n"),
    ):
        files = {"logits.csv": wrong.encode()}
        yield Case("wrong .csv", CSV_CALIBRATION, files)
    files = {"logits.csv": b"1\n2\n"}
    yield Case("wrong .csv", CSV_CALIBRATION, files)


def wrong_models():
    """Models with other insides than Keras wrote."""
    good = good_files()["model.keras"]
    config = json.loads(read_entry(good, "config.json"))
    weights = read_entry(good, "model.weights.h5")
    contents = [
        rezip(good, config__json=json.dumps(c)) for c in _configs(config)
    ]
    contents += [
        rezip(good, config__json=None),
        rezip(good, config__json=b"{"),
        rezip(good, config__json=b"\xff\xfe"),
        rezip(good, config__json=b"[" * 100_000),
        rezip(good, model__weights__h5=None),
        rezip(good, model__weights__h5=b""),
        rezip(good, model__weights__h5=weights[: len(weights) // 2]),
        rezip(good, model__weights__h5=bytes(len(weights))),
        rezip(good, model__weights__h5=good_files()["val.npz"]),
        model_bytes(_dense_model(4, 3)),
        model_bytes(_dense_model(3, 2)),
        model_bytes(_two_outputs()),
        model_bytes(_nan_model()),
    ]
    other = read_entry(model_bytes(_dense_model(3, 5)), "model.weights.h5")
    contents.append(rezip(good, model__weights__h5=other))
    contents += [
        rezip(good, model__weights__h5=w) for w in _huge_weights(weights)
    ]
    for content in contents:
        for command in READERS["model.keras"]:
            yield Case("wrong model", command, {"model.keras": content})


def _configs(config):
    """Configurations that are broken, unknown or dangerous."""
    yield from ([], {}, None, 3, "text", {"class_name": "Dense"})
    layer = config["config"]["layers"][1]
    yield layer
    for changes in (
        {"class_name": "Unknown", "registered_name": "Unknown"},
        {
            "class_name": "Own",
            "module": "somebody.layers",
            "registered_name": "own>Own",
        },
        {"class_name": "system", "module": "os", "registered_name": "system"},
        {"class_name": "Lambda", "config": _lambda_config()},
        {"config": {**layer["config"], "units": 10**13}},
        {"config": {**layer["config"], "units": -1}},
        {"config": {**layer["config"], "units": "x"}},
        {"config": {**layer["config"], "activation": "no_such"}},
        {"config": {}},
        {"inbound_nodes": []},
        {"inbound_nodes": 5},
    ):
        copy = json.loads(json.dumps(config))
        copy["config"]["layers"][1].update(changes)
        yield copy


def _lambda_config():
    code = keras.saving.serialize_keras_object(
        keras.layers.Lambda(lambda x: x, name="last")
    )
    return code["config"]


def _dense_model(columns, classes):
    inputs = keras.Input((columns,))
    return keras.Model(
        inputs, keras.layers.Dense(classes, activation="softmax")(inputs)
    )


def _two_outputs():
    inputs = keras.Input((3,))
    return keras.Model(inputs, [keras.layers.Dense(3)(inputs) for _ in "ab"])


def _nan_model():
    model = _dense_model(3, 3)
    model.set_weights([w * np.nan for w in model.get_weights()])
    return model


def _huge_weights(weights):
    """Weights whose kernel claims to be larger than any memory."""
    import h5py

    file = io.BytesIO(weights)
    with h5py.File(file, "a") as h5:
        found = []
        h5.visititems(
            lambda n, v: (
                found.append(n) if isinstance(v, h5py.Dataset) else None
            )
        )
        for name in found:
            del h5[name]
            h5.create_dataset(name, (10**9, 10**6), "f4", chunks=(1000, 1000))
    yield file.getvalue()


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
        "recalibrate model.keras --data logits.csv",
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
            prepare=_mkdir("deep"),
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
            "/proc/out",
        ):
            yield Case(
                "unwritable", f"{command} {path}", prepare=_mkdir("deep")
            )
    for extra in ("--output out", "--output out.keras", "--figure out.xyz"):
        yield Case("wrong suffix", f"{CALIBRATION} {extra}")
    for extra in ("--output out", "--output out.npz"):
        yield Case("wrong suffix", f"{MODEL_CALIBRATION} {extra}")
    figure = {"out.png": b"precious"}
    both = f"{AUDIT} --issues page.html"
    yield Case("output exists", f"{CALIBRATION} --output out.npz", figure)
    yield Case("output is output", both)
    yield Case("output is output", f"{DETECT} --save ./scores.csv")
    yield Case("output exists", "demo", {"report/demo.png": b"precious"})


def all_cases() -> list[Case]:
    """The corpus, in one order."""
    makers = (
        damaged,
        false_headers,
        wrong_arrays,
        wrong_csv,
        wrong_models,
        wrong_options,
        wrong_outputs,
    )
    return [case for maker in makers for case in maker()]
