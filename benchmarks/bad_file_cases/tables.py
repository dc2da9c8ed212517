"""Arrays and tables that are in order, but hold what they must not."""

import numpy as np

from bad_file_cases.good import (
    CALIBRATION,
    CSV_CALIBRATION,
    DETECT,
    READERS,
    Case,
    arrays_of,
    good_files,
    npz,
)


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
    bad_x = [
        None,
        x[:0],
        x[:, :0],
        x[0, 0],
        x[:-1],
        x + 1j,
        np.full(x.shape, None),
    ]
    bad_x += [np.where(x == x.max(), v, x) for v in (np.nan, np.inf, -np.inf)]
    bad_x += [x.astype("M8[s]"), x.view([("a", "<f4")])]
    if key == "x":
        bad_x += [x[:, :2], x[:, 0], np.array(["a", "b"] * 20)]
    bad_y = [None, y[:0], y[:-1], y[0], y + 7, y - 1, y + 0.5, y * np.nan]
    bad_y += [y.astype(str), np.full(y.shape, None), y + 0j, np.ones((40, 3))]
    bad_y += [np.zeros((40, 5)), np.eye(4)[y], y.astype("M8[s]")]
    # On x86-64 a long double has bytes that hold nothing: zero at first.
    long = np.zeros(x.shape, "g")
    long += x
    fine_x = [x.astype(">f4"), x.astype("f2"), long, x.astype(int)]
    fine_x += [np.asfortranarray(x)]
    fine_y = [y[:, None], np.eye(3)[y], y.astype(">i2"), y.astype("f8")]
    for values, name, expected in (
        (bad_x, key, (1,)),
        (bad_y, "y", (1,)),
        (fine_x, key, (0,)),
        (fine_y, "y", (0,)),
    ):
        for value in values:
            yield {name: value}, expected


def _tables(x):
    yield from (x[:0], x[:1], x[:, :0], x[0, 0], x[:, 0], x[..., None])
    yield from (
        x + 1j,
        np.full(x.shape, None),
        x.astype(str),
        x.astype("M8[s]"),
    )
    yield from (np.where(x == x.max(), v, x) for v in (np.nan, np.inf))
    yield from (np.ones((40, 3)), x.view([("a", "<f4")]))


def wrong_csv():
    """Tables with cells, rows and codings that are wrong, or only unusual.

    A detector fills what is missing; logits must all be there.
    """
    for name in ("logits.csv", "table.csv"):
        content = good_files()[name]
        first, second, *rest = content.decode().splitlines(keepends=True)
        cells = second.split(",")
        command = READERS[name][0]

        def with_cell(cell, first=first, cells=cells, rest=rest):
            row = ",".join([cell, *cells[1:]])
            return first + row + "".join(rest)

        may_miss = (0,) if name == "table.csv" else (1,)
        for cell in ("nan", "inf", "1e999", "x", "", "0x10", "1;2", "--"):
            files = {name: with_cell(cell).encode()}
            yield Case("odd cells", command, files, may_miss)
        for text in (
            with_cell('"'),
            with_cell("\x00"),
            first + second[:-1] + ",9\n" + "".join(rest),
            first + cells[0] + "\n" + "".join(rest),
            "a,b,c,d\n",
            "#\n",
            "\n\n\n",
            '"' + "1" * 200_000,
        ):
            yield Case("wrong .csv", command, {name: text.encode()})
        for coding in ("utf-16", "utf-32"):
            encoded = content.decode().encode(coding)
            yield Case("wrong .csv", command, {name: encoded})
        for fine in (
            b"\xef\xbb\xbf" + content,
            b"\xe9" + content if first[0].isalpha() else content,
            content.replace(b",", b";"),
            content.replace(b"\n", b",\n"),
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
