"""Shows examples on a page, as images, text or table cells."""

import base64
import io
import math
from typing import Any

import numpy as np

from keras_likelihood.backend.types import Array
from keras_likelihood.likelihoods.checks import check_argument
from keras_likelihood.tables.columns import middle_and_spread

HELD_FEATURES = 60
UNUSUAL = 3.5
"""Robust deviations from the median at which a value is marked."""
LARGEST_SIDE, SMALLEST_SIDE = 192, 24
MOST_BYTES = 16_000_000
"""Largest total size of the images or texts of a page, in bytes."""
LONGEST = 4_000
"""Largest number of characters of a text on the page."""


class Unseen:
    """Examples that are shown by their index only."""

    features: list[dict[str, Any]] = []  # noqa: RUF012

    def make_room(self, indices: Array) -> None:
        """Shrinks images and texts until those of `indices` fit the page."""

    def describe(self, index: int) -> dict[str, Any]:
        """The content of an example for the page's script."""
        return {}

    def cell(self, index: int) -> str:
        """The example in a cell of a table; "" if it has no picture."""
        return ""


class Images(Unseen):
    """Images `(n, h, w)` or `(n, h, w, channels)` of any range."""

    def __init__(self, x: Array):
        self.x = x if x.ndim == 4 else x[..., None]
        self.low, self.high = _range(x)
        self.step = -(-max(self.x.shape[1:3]) // LARGEST_SIDE)

    def make_room(self, indices: Array) -> None:
        some = indices[:: -(-len(indices) // 16)]
        while min(self.x.shape[1:3]) > SMALLEST_SIDE * self.step:
            size = np.mean([len(self.describe(i)["image"]) for i in some])
            if size * len(indices) <= MOST_BYTES:
                break
            self.step += 1

    def describe(self, index: int) -> dict[str, Any]:
        image, file = self.thumbnail(index), io.BytesIO()
        # Photographs are much smaller as JPEG. Small images stay exact.
        kind = "jpeg" if image.mode == "RGB" and self.x.shape[2] > 48 else "png"
        image.save(file, kind, quality=85, optimize=True)
        code = base64.b64encode(file.getvalue()).decode("ascii")
        return {"image": f"data:image/{kind};base64,{code}"}

    def thumbnail(self, index: int) -> Any:
        """A `PIL.Image` of at most `LARGEST_SIDE` pixels per side."""
        from PIL import Image

        share = (self.x[index] - self.low) / (self.high - self.low)
        pixels = np.rint(255 * np.clip(share, 0, 1)).astype("uint8")
        one = pixels.shape[-1] == 1
        image = Image.fromarray(pixels[..., 0] if one else pixels)
        return image.reduce(self.step)

    def cell(self, index: int) -> str:
        from markupsafe import Markup

        tag = Markup('<img class="tiny" alt="example {}" src="{}">')
        return tag.format(index, self.describe(index)["image"])


def _range(x: Array) -> tuple[float, float]:
    """Values of black and white: common bounds if they fit, or the extremes."""
    x = x[:: -(-len(x) // 10_000)]
    low, high = float(x.min()), float(x.max())
    for least, most in ((0.0, 1.0), (-1.0, 1.0), (0.0, 255.0)):
        # On a range to 255, values up to 16 would be almost black.
        if least <= low and most / 4 < high <= most:
            return least, most
    return low, high if high > low else low + 1.0


class Texts(Unseen):
    """Strings or bytes `(n,)` or `(n, 1)`, cut off if they are long."""

    def __init__(self, x: Array):
        self.x = x.reshape(len(x))
        self.longest = LONGEST

    def make_room(self, indices: Array) -> None:
        self.longest = min(LONGEST, max(200, MOST_BYTES // len(indices)))

    def describe(self, index: int) -> dict[str, Any]:
        return {"text": self._text(index, self.longest)}

    def cell(self, index: int) -> str:
        return self._text(index, 200)

    def _text(self, index: int, most: int) -> str:
        text = self.x[index]
        if isinstance(text, bytes):
            text = text.decode("utf-8", errors="replace")
        text = str(text)
        return f"{text[:most]}\u2026" if len(text) > most else text


class Rows(Unseen):
    """Rows `(n, features)`; NaN is a missing value."""

    def __init__(self, x: Array, names: list[str]):
        self.x, self.names = x, names
        self.features = [
            {"name": name, "digits": decimals(column)}
            for name, column in zip(names, x.T[:HELD_FEATURES], strict=False)
        ]
        sample = x[:: max(1, len(x) // 20_000)].astype("float64")
        finite = [values[np.isfinite(values)] for values in sample.T]
        # An empty column has no median.
        units = [middle_and_spread(v) if v.size else (0, 0) for v in finite]
        self.middle, self.spread = np.transpose(units)

    def describe(self, index: int) -> dict[str, Any]:
        row = self.x[index].astype("float64")
        away = np.abs(row - self.middle) / np.where(self.spread, self.spread, 1)
        away[(self.spread == 0) | np.isnan(row)] = 0
        most, marked = int(away.argmax()), away > UNUSUAL
        text = f"{self.names[most]} = {row[most]:.4g}"
        return {
            "features": [plain(value) for value in row[:HELD_FEATURES]],
            "marked": np.flatnonzero(marked[:HELD_FEATURES]).tolist(),
            "unusual": text if marked[most] else None,
        }


def plain(value: float) -> float | str | None:
    """A number for JSON, which has neither NaN nor infinity."""
    if np.isnan(value):
        return None
    return float(f"{value:.7g}") if np.isfinite(value) else str(value)


def decimals(values: Any) -> int:
    """Decimals for four digits of the largest number; 0 for integers.

    >>> decimals(np.array([0.5, 12.25]))
    2
    """
    values = np.asarray(values, "float64")
    values = values[np.isfinite(values)]
    if np.array_equal(values, np.round(values)):
        return 0
    largest = float(np.abs(values).max())
    return min(max(3 - math.floor(math.log10(largest)), 0), 4)


def show_inputs(x: Any, feature_names: Any = None) -> Unseen:
    """Chooses how inputs, an array or a structure of them, are shown."""
    is_array = isinstance(x, np.ndarray)
    rank = x.ndim if is_array and x.dtype.kind in "biuf" else 0
    if feature_names is not None and rank not in (1, 2):
        raise ValueError(
            "`feature_names` needs an array `x` of shape (n, features). "
            f"Received: x of shape {np.shape(x)}"
        )
    if rank in (1, 2):
        x = x.reshape(len(x), -1)
        names = as_names(feature_names, "feature_names", x.shape[1])
        names = names or [f"x{i}" for i in range(x.shape[1])]
        return Rows(x, names) if x.shape[1] else Unseen()
    if rank == 4 and x.shape[-1] not in (1, 3, 4):
        x = np.moveaxis(x, 1, -1)
    is_grey = rank == 3 and min(x.shape[1:]) > 3
    if is_grey or (rank == 4 and x.shape[-1] in (1, 3, 4)):
        return Images(x)
    if is_array and x.size == len(x) and _is_text(x):
        return Texts(x)
    return Unseen()


def _is_text(x: Array) -> bool:
    if x.dtype.kind == "O":
        return all(isinstance(text, str | bytes) for text in x.ravel())
    return x.dtype.kind in "SUT"


def as_names(names: Any, argument: str, count: int | None) -> list[str] | None:
    """Returns `count` names as strings, or `None` without names."""
    if names is None or count is None:
        return None
    received = names if isinstance(names, str) else len(names)
    check_argument(argument, received, received == count, f"{count} names")
    return [str(name) for name in names]
