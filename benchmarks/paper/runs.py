"""Runs of a study, kept in a file so that none is done twice."""

import json
import pathlib

from results import circumstances_now, parser, record


class Runs:
    """What single runs found, by keys such as a seed.

    Several processes may fill the same file side by side if no two of them do
    the same run.

    Args:
        path: of a file of JSON lines, or `None` to keep nothing.
    """

    def __init__(self, path: pathlib.Path | None):
        self.path = path
        self.lines = []
        self._spent = 0.0
        if path and path.exists():
            self.lines = [json.loads(x) for x in path.read_text().splitlines()]

    def find(self, **keys) -> dict | None:
        """The run of these keys, or `None`."""
        for line in self.lines:
            if all(line.get(key) == value for key, value in keys.items()):
                return line
        return None

    def add(self, **found) -> None:
        """Keeps a run: its keys and what it found, as JSON can hold it."""
        made = circumstances_now()
        total = made["seconds"]
        made["seconds"] = round(total - self._spent, 1)
        self._spent = total
        line = {**found, "made": made}
        self.lines.append(line)
        if self.path:
            with self.path.open("a") as file:
                file.write(json.dumps(line) + "\n")
        print(found, flush=True)

    def once(self, keys: dict, measure, *args) -> dict:
        """The run of these keys, done now if it is missing.

        Args:
            keys: of the run.
            measure: a function of `args` that returns a dict of what it found.
        """
        if not self.find(**keys):
            self.add(**keys, **measure(*args))
        return self.find(**keys)

    def of_sets(self, sets: dict, study, *args, **keys) -> dict:
        """A run of `study(set, *args)` for each set, by the key of the set.

        The keys of a run are `keys` and that of its set.
        """
        return {
            key: self.once({**keys, "set": key}, study, one, *args)
            for key, one in sets.items()
        }

    def circumstances(self) -> dict:
        """Of the first run, as `record` takes them.

        The seconds are those of all runs, as if none had run beside another,
        and the cores those of the smallest machine.
        """
        made = [line["made"] for line in self.lines]
        seconds = sum(one["seconds"] for one in made)
        cores = min(one["cores"] for one in made)
        return {**made[0], "seconds": round(seconds, 1), "cores": cores}

    def record(self, name: str, data: dict, *, quick: bool) -> None:
        """Leaves the results of a study, with the circumstances of its runs."""
        record(name, data, quick=quick, circumstances=self.circumstances())


def study_options(description: str, steps: int, sets: dict, quick_set: str):
    """`(options, steps, seeds, sets)` of the command line of a study.

    With `--quick` it is one seed of ten steps on one set.
    """
    made = parser(description)
    made.add_argument("--seeds", type=int, default=5)
    made.add_argument("--runs", type=pathlib.Path)
    options = made.parse_args()
    if options.quick:
        return options, 10, 1, {quick_set: sets[quick_set]}
    return options, steps, options.seeds, sets
