"""Small PNG images as `data:` addresses."""

import base64
import struct
import zlib

import numpy as np

_COLOR_TYPES = {1: 0, 3: 2, 4: 6}


def encode_png(pixels) -> bytes:
    """Encodes 8-bit pixels as a PNG file.

    Args:
        pixels: uint8 `(h, w, channels)` with 1 (grey), 3 (RGB) or 4 (RGBA)
            channels.
    """
    pixels = np.ascontiguousarray(pixels)
    height, width, channels = pixels.shape
    header = struct.pack(
        ">IIBBBBB", width, height, 8, _COLOR_TYPES[channels], 0, 0, 0
    )
    # Each line begins with its filter: 0 is none.
    lines = np.zeros((height, 1 + width * channels), "uint8")
    lines[:, 1:] = pixels.reshape(height, -1)
    return (
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", header)
        + _chunk(b"IDAT", zlib.compress(lines.tobytes(), 9))
        + _chunk(b"IEND", b"")
    )


def _chunk(kind, data):
    check = struct.pack(">I", zlib.crc32(kind + data))
    return struct.pack(">I", len(data)) + kind + data + check


def png_address(pixels) -> str:
    """The image as a `data:` address; arguments as in `encode_png`."""
    code = base64.b64encode(encode_png(pixels)).decode("ascii")
    return f"data:image/png;base64,{code}"
