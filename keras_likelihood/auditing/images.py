"""Examples as thumbnails."""

import numpy as np

from keras_likelihood.auditing.png import png_address

LARGEST_SIDE = 192
MAX_IMAGE_BYTES = 4_000_000
"""Bytes that all images of a page may take together."""


class Images:
    """Examples as thumbnails.

    Args:
        x: `(n, h, w)` or `(n, h, w, channels)`, of any range.
    """

    features = ()

    def __init__(self, x):
        self.x = x if x.ndim == 4 else x[..., None]
        self.low, self.high = _range(x)
        self.step = -(-max(self.x.shape[1:3]) // LARGEST_SIDE)

    def make_room(self, indices) -> None:
        """Shrinks the thumbnails until those of `indices` fit a page."""
        some = indices[:: -(-len(indices) // 16)]
        while min(self.x.shape[1:3]) > 32 * self.step:
            size = np.mean([len(self.describe(i)["image"]) for i in some])
            if size * len(indices) <= MAX_IMAGE_BYTES:
                break
            self.step += 1

    def describe(self, index: int) -> dict:
        """What the page shows of an example."""
        return {"image": png_address(self.thumbnail(index))}

    def thumbnail(self, index: int) -> np.ndarray:
        """uint8 `(h, w, channels)`, of at most `LARGEST_SIDE` pixels."""
        pixels = self.x[index].astype("float64")
        step = self.step
        if step > 1 and min(pixels.shape[:2]) >= step:
            rows, columns = (s // step for s in pixels.shape[:2])
            pixels = pixels[: rows * step, : columns * step]
            pixels = pixels.reshape(rows, step, columns, step, -1)
            pixels = pixels.mean(axis=(1, 3))
        share = (pixels - self.low) / (self.high - self.low)
        return np.rint(255 * np.clip(share, 0, 1)).astype("uint8")


def _range(x):
    """Black and white: the usual bounds where they fit, else the extremes."""
    x = x[:: -(-len(x) // 10_000)]
    low, high = float(x.min()), float(x.max())
    for least, most in ((0.0, 1.0), (-1.0, 1.0), (0.0, 255.0)):
        # Values up to 16, say, would be all but black out of 255.
        if least <= low and most / 4 < high <= most:
            return least, most
    return low, high if high > low else low + 1.0
