"""Tries to make tables on disk lose rows.

    python benchmarks/faults.py
    python benchmarks/faults.py --kills 10 --disks 4 --bytes 40 --pairs 2

Processes that write a table are killed; disks fill up while a table is made,
written or copied; bytes of tables are flipped and tables are cut; second
writers and readers come while a first one writes. After each the table is
compared with what was written. Printed is how often each was tried, how often
a row that had been written was lost or silently wrong, and how often a file
was touched that nobody named.

As root, the full disks are real ones, an ext4 image and a tmpfs of a few
megabytes, which are mounted in a temporary folder. Others get a limit on the
size of files (RLIMIT_FSIZE) instead, and the table says so.

The files of `benchmarks/bad_files.py`, if it is there, are tried afterwards.
"""

import argparse
import contextlib
import errno
import importlib.util
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
import types

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLUMNS = ("kind", "tried", "rows lost", "files touched", "other faults")


def import_row_file():
    """`RowFile` without the package around it, which takes seconds."""
    for name in ("keras_likelihood", "keras_likelihood.data_parameters"):
        module = types.ModuleType(name)
        module.__path__ = [str(ROOT.joinpath(*name.split(".")))]
        sys.modules[name] = module
    from keras_likelihood.data_parameters.row_file import RowFile

    return RowFile


def write(path, num_rows=64, width=20000, batch=32):
    """Writes the number of the step into a batch of rows, until killed.

    The step is said on the standard output when its write is done.
    """
    file = import_row_file()(path, num_rows=num_rows, width=width)
    batches = np.arange(num_rows).reshape(-1, batch)
    last = int(file.read(np.arange(num_rows)).max())
    for step in range(last + 1, 10**9):
        rows = np.full((batch, width), step, "float32")
        file.write(batches[step % len(batches)], rows)
        print(step, flush=True)


def start(*arguments, **options):
    """This script as another process."""
    return subprocess.Popen(
        [sys.executable, __file__, *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        **options,
    )


def tally(kind):
    return {**dict.fromkeys(COLUMNS, 0), "kind": kind}


def kill(args):
    """Kills writers at random moments; every fifth goes on with one table."""
    from keras_likelihood.data_parameters.row_file import RowFile

    row = tally("writer killed (SIGKILL)")
    sizes = [(64, 20000, 32), (4096, 2, 512), (1024, 64, 64)]
    kept = {size: 0 for size in sizes}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(args.kills):
            size = sizes[number % len(sizes)]
            again = number % 5 == 0
            name = f"kept{size[1]}" if again else f"{number}"
            path = pathlib.Path(folder, f"{name}.rows")
            last = kept[size] if again else 0
            with start("--write", path, *size) as writer:
                said = writer.stdout.readline()
                time.sleep(random.random() * 0.03)
                writer.send_signal(signal.SIGKILL)
                said += writer.stdout.read()
            # A line that was cut in the middle was not said.
            last = int(said.rpartition("\n")[0].split()[-1])
            num_rows, width, batch = size
            with contextlib.closing(
                RowFile(path, num_rows=num_rows, width=width)
            ) as file:
                rows, damaged = file.examine(slice(None))
            rows = rows[:, :-1].reshape(-1, batch * width)
            row["tried"] += 1
            row["rows lost"] += not _is_whole(rows, last) or damaged.any()
            kept[size] = last if again else kept[size]
            if not again:
                path.unlink()
        left = {p.name for p in pathlib.Path(folder).iterdir()}
        expected = {f"kept{width}.rows" for _, width, _ in sizes}
        row["files touched"] += len(left - expected)
    return [row]


def _is_whole(batches, last):
    """Whether each batch is whole and none that was said is missing."""
    steps = batches[:, 0]
    newest = steps.max()
    count = len(steps)
    expected = [
        max(
            (
                s
                for s in range(int(newest) - count + 1, int(newest) + 1)
                if s % count == place and s > 0
            ),
            default=0,
        )
        for place in range(count)
    ]
    return (
        newest in (last, last + 1)
        and np.array_equal(steps, expected)
        and np.all(batches == steps[:, None])
    )


@contextlib.contextmanager
def small_disk(kind, megabytes=4):
    """A folder on a disk that is soon full."""
    with tempfile.TemporaryDirectory() as folder:
        point = os.path.join(folder, "disk")
        os.mkdir(point)
        if kind == "limit":
            yield point
            return
        if kind == "tmpfs":
            source, options = (
                "tmpfs",
                ["-t", "tmpfs", "-o", f"size={megabytes}m"],
            )
        else:
            source, options = os.path.join(folder, "image"), ["-o", "loop"]
            with open(source, "wb") as image:
                image.truncate(megabytes * 2**20)
            _call("mkfs.ext4", "-q", "-O", "^has_journal", "-m", "0", source)
        _call("mount", *options, source, point)
        try:
            yield point
        finally:
            _call("umount", point)


def _call(*command):
    subprocess.run(command, check=True, capture_output=True)


def disk_kinds():
    """Kinds of small disks this user can have."""
    kinds = []
    for kind in ("ext4", "tmpfs"):
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            with small_disk(kind):
                kinds.append(kind)
    return kinds or ["limit"]


def fill(path, keep=0):
    """Takes all room of the disk but `keep` bytes."""
    with open(path, "wb", buffering=0) as file:
        for size in (2**16, 2**12, 2**9):
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(size))
    size = os.path.getsize(path)
    os.truncate(path, max(0, size - keep))


def full_disk(folder, road, seed, limit):
    """One disk that fills up, in a process of its own.

    Prints a JSON object with the number of rows lost and of other faults.
    """
    import_row_file()
    from keras_likelihood.data_parameters.row_file import RowFile

    from keras_likelihood.data_parameters import row_file, table_files

    if limit:
        import resource

        top = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, top))
    rng = np.random.default_rng(seed)
    path, filler = os.path.join(folder, "t.rows"), os.path.join(folder, "fill")
    lost = faults = 0
    if road == "make":
        try:
            RowFile(path, num_rows=10**6, width=64)
            faults += 1
        except OSError as error:
            faults += error.errno not in (errno.ENOSPC, errno.EFBIG)
        faults += os.path.exists(path)
        print(json.dumps([lost, faults]))
        return
    sparse = road == "sparse"
    if sparse:
        # As on a file system that reserves nothing.
        from keras_likelihood.data_parameters import row_space

        row_file.writes_in_place = row_space.writes_in_place = lambda _: False
    rows = int(0.9 * 2**20 / 32) if limit else 40000
    file = RowFile(path, num_rows=rows, width=7)
    known = np.zeros((rows, 7), "float32")

    def step(size):
        index = rng.choice(rows, size, replace=False)
        new = rng.normal(size=(size, 7)).astype("float32")
        before = known.copy()
        known[index] = new
        try:
            file.write(index, new)
            return True
        except OSError as error:
            return bool(error.errno not in (errno.ENOSPC, errno.EFBIG)), before

    for _ in range(10):
        assert step(64) is True
    if not limit:
        fill(filler, keep=int(rng.integers(0, 30000)))
    if road == "copy":
        try:
            table_files.copy_rows(file, os.path.join(folder, "copy.rows"))
            faults += 1
        except OSError:
            faults += os.path.exists(os.path.join(folder, "copy.rows"))
        outcome = True
    else:
        outcome = True
        for size in [64] * 200 + [2000, rows // 2, rows]:
            outcome = step(size)
            if outcome is not True:
                break
        faults += outcome is True
    states = [known]
    if outcome is not True:
        faults += outcome[0]
        # The batch that was refused may be there, as a whole.
        states.append(outcome[1])
    with contextlib.closing(RowFile.of(path)) as reader:
        found = reader.read(slice(None))
    lost += not any(np.array_equal(found, s) for s in states)
    file.close()
    if not limit:
        os.remove(filler)
    known[:] = found
    file = RowFile(path, num_rows=rows, width=7)
    faults += step(64) is not True
    lost += not np.array_equal(file.read(slice(None)), known)
    file.close()
    faults += not table_files.verify(path).ok
    print(json.dumps([int(lost), int(faults)]))


def fill_disks(args):
    """Disks that fill up while a table is made, written or copied."""
    made = []
    kinds = disk_kinds()
    for kind in kinds:
        roads = ["make", "write", "sparse", "copy"]
        if kind == "limit":
            roads = ["make", "write"]
        row = tally(f"disk full ({_NAMES[kind]})")
        for number in range(-(-args.disks // len(kinds))):
            road = roads[number % len(roads)]
            with small_disk(kind) as folder:
                with start(
                    "--full-disk", folder, road, number, int(kind == "limit")
                ) as child:
                    said = child.stdout.read()
                if child.returncode:
                    lost, faults = 0, 1
                    print(f"{kind} {road}: status {child.returncode}")
                else:
                    lost, faults = json.loads(said)
                left = set(os.listdir(folder))
            row["tried"] += 1
            row["rows lost"] += lost
            row["other faults"] += faults
            row["files touched"] += len(left - {"t.rows", "lost+found"})
        made.append(row)
    return made


_NAMES = {
    "ext4": "ext4",
    "tmpfs": "tmpfs",
    "limit": "by RLIMIT_FSIZE: real ones need root",
}


def damage(args):
    """Flips bytes of tables and cuts them."""
    from keras_likelihood.data_parameters.row_file import RowFile
    from keras_likelihood.data_parameters.table_files import verify

    rng = np.random.default_rng(0)
    rows = {k: tally(k) for k in ("byte flipped", "file cut")}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "t.rows")
        file = RowFile(path, num_rows=300, width=5, owner={"a": 1})
        known = rng.normal(size=(300, 5)).astype("float32")
        file.write(np.arange(300), known)
        file.write(np.arange(40), known[:40])
        file.close()
        whole = pathlib.Path(path).read_bytes()
        for number in range(args.bytes):
            kind = "file cut" if number % 4 == 0 else "byte flipped"
            content = bytearray(whole)
            if kind == "file cut":
                content = content[: rng.integers(len(content))]
            else:
                place = rng.integers(len(content))
                content[place] ^= 1 << int(rng.integers(8))
            pathlib.Path(path).write_bytes(content)
            row = rows[kind]
            row["tried"] += 1
            report = verify(path)
            try:
                with contextlib.closing(RowFile.of(path, "r+")) as file:
                    found, damaged = file.examine(slice(None))
                wrong = np.any(found[:, :-1] != known, axis=1)
                row["rows lost"] += int((wrong & ~damaged).sum())
                told = np.flatnonzero(damaged).tolist()
                row["other faults"] += told != report.damaged
            except ValueError:
                row["other faults"] += report.ok
            row["files touched"] += os.listdir(folder) != ["t.rows"]
    return list(rows.values())


def pair(args):
    """Second writers and readers beside a first writer."""
    from keras_likelihood.data_parameters.row_file import RowFile

    second, reader = tally("second writer"), tally("reader beside a writer")
    options = {"num_rows": 1024, "width": 64}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(args.pairs):
            path = os.path.join(folder, f"{number}.rows")
            with start("--write", path, 1024, 64, 64) as writer:
                said = writer.stdout.readline()
                for _ in range(5):
                    second["tried"] += 1
                    try:
                        RowFile(path, **options).close()
                        second["other faults"] += 1
                    except BlockingIOError as error:
                        named = f"process {writer.pid}" in str(error)
                        second["other faults"] += not named
                    reader["tried"] += 1
                    file = RowFile(path, mode="r", **options)
                    rows = file.read(slice(None))
                    file.close()
                    reader["rows lost"] += int(
                        np.any(rows != rows[:, :1], axis=1).sum()
                    )
                writer.send_signal(signal.SIGKILL)
                said += writer.stdout.read()
            last = int(said.rpartition("\n")[0].split()[-1])
            with contextlib.closing(RowFile(path, **options)) as file:
                rows = file.read(slice(None)).reshape(16, -1)
            second["rows lost"] += not _is_whole(rows, last)
        left = {p for p in os.listdir(folder) if not p.endswith(".rows")}
        second["files touched"] += len(left)
    return [second, reader]


def run(args) -> list[dict]:
    """Rows of the table, dicts of `COLUMNS`.

    Args:
        args: has `kills`, `disks`, `bytes` and `pairs`: how often.
    """
    import_row_file()
    rows = []
    for attempt in (kill, fill_disks, damage, pair):
        rows += attempt(args)
    return rows


def show(rows):
    """Prints dicts as a table."""
    columns = list(rows[0])
    cells = [columns, *([str(r[c]) for c in columns] for r in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    for line in cells:
        first, *others = zip(line, widths, strict=True)
        text = [first[0].ljust(first[1]), *(c.rjust(w) for c, w in others)]
        print("  ".join(text))


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--disks", type=int, default=24)
    parser.add_argument("--bytes", type=int, default=600)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--no-files", action="store_true", help="tables alone")
    parser.add_argument("--every", type=int, default=1, help="of the bad files")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--write", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--full-disk", nargs=4, help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    args = parse()
    if args.write:
        path, *sizes = args.write
        write(path, *map(int, sizes))
        return
    if args.full_disk:
        folder, road, seed, limit = args.full_disk
        full_disk(folder, road, int(seed), limit == "1")
        return
    begin = time.time()
    rows = run(args)
    show(rows)
    print(f"{time.time() - begin:.0f} s")
    bad = sum(row[c] for row in rows for c in COLUMNS[2:])
    if importlib.util.find_spec("bad_files") and not args.no_files:
        for name in [n for n in sys.modules if n.startswith("keras_likeli")]:
            del sys.modules[name]
        sys.path.insert(0, str(ROOT))
        import bad_files

        print()
        show(bad_files.run(args))
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
