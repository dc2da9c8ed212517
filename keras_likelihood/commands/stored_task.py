"""Recalibration of logits that stay on the disk."""

import functools
import pathlib

import numpy as np

from keras_likelihood.commands.archives import regular_file
from keras_likelihood.commands.classifier_task import ClassifierTask
from keras_likelihood.commands.command_error import CommandError

_DRAWN = 100_000
"""Rows of a figure, spread over the file."""


def read_folder(path) -> dict:
    """The memory-mapped `logits.npy` and the `y.npy` of a folder."""
    found = {}
    for name in ("logits", "y"):
        file = regular_file(pathlib.Path(path) / f"{name}.npy")
        try:
            found[name] = np.load(
                file,
                mmap_mode="r" if name == "logits" else None,
                allow_pickle=False,
            )
        except (ValueError, OSError) as error:
            raise CommandError(
                f"{file}: a plain array of numbers is needed. Received: {error}"
            ) from error
    logits, y = found["logits"], found["y"]
    if logits.ndim != 2 or logits.dtype.kind not in "iuf":
        raise CommandError(
            f"{path}: `logits` must be numbers of shape (rows, classes). "
            f"Received: shape {logits.shape} of {logits.dtype}"
        )
    if y.dtype.kind not in "biuf" or len(y) != len(logits):
        raise CommandError(
            f"{path}: `y` must have one class number a row of `logits`, "
            f"{len(logits)}. Received: shape {y.shape} of {y.dtype}"
        )
    return found


class StoredTask(ClassifierTask):
    """As `ClassifierTask`; `logits` are memory-mapped and read in blocks."""

    def methods(self) -> dict:
        """Class names of the methods that may read so many logits."""
        from keras_likelihood import recalibration
        from keras_likelihood.recalibration.stored_logits import fits_memory

        names = super().methods()
        if fits_memory(self.fitted_to["logits"]):
            return names
        return {
            name: kind
            for name, kind in names.items()
            if getattr(recalibration, kind).streams
        }

    def judge(self, recalibrator) -> dict:
        """The scores on the data to judge on; `None` is the model itself."""
        from keras_likelihood.metrics.functions import binned_error

        right, belief, nll = self._by_rows(recalibrator)
        return {
            "NLL": float(nll.mean()),
            "ECE": binned_error(right, belief),
            "accuracy": float(right.mean()),
        }

    def _top_class(self, recalibrator):
        return self._by_rows(recalibrator)[:2]

    @functools.cached_property
    def _found(self) -> dict:
        """By recalibrator: what `_by_rows` found."""
        return {}

    def _by_rows(self, recalibrator):
        """Whether the likeliest class is right, its belief, and the NLL.

        A file is read once for each recalibrator: three numbers a row are
        little beside its logits.
        """
        if recalibrator not in self._found:
            self._found[recalibrator] = self._read_rows(recalibrator)
        return self._found[recalibrator]

    def _read_rows(self, recalibrator):
        from keras_likelihood.metrics.functions import top_class

        labels = self.judged_on["y"]
        parts = []
        for part, p in self._blocks(recalibrator):
            y = labels[part]
            tiny = np.finfo(p.dtype).tiny
            nll = -np.log(np.maximum(p[np.arange(len(p)), y], tiny))
            parts.append((*top_class(y, p), nll))
        return tuple(map(np.concatenate, zip(*parts, strict=True)))

    def _blocks(self, recalibrator):
        from keras_likelihood.recalibration.stored_logits import StoredLogits

        stored = StoredLogits(self.judged_on["logits"])
        recalibrator = recalibrator or self._unchanged()
        for part in stored.blocks():
            yield (
                part,
                recalibrator.calibrate(
                    stored.read(part), from_logits=self.from_logits
                ),
            )

    def write(self, recalibrator, path):
        """Writes the probabilities as an `.npy`, block by block."""
        out = np.lib.format.open_memmap(
            path, "w+", "float32", self.judged_on["logits"].shape
        )
        for part, p in self._blocks(recalibrator):
            out[part] = p
        out.flush()

    def draw(self, recalibrator):
        """A Matplotlib figure of the reliability, before and after."""
        every = -(-len(self.judged_on["y"]) // _DRAWN)
        few = {
            "logits": np.array(self.judged_on["logits"][::every]),
            "y": self.judged_on["y"][::every],
        }
        drawn = ClassifierTask(few, few, from_logits=self.from_logits)
        return drawn.draw(recalibrator)
