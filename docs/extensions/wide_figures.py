"""On a phone, a wide figure is scrolled rather than shrunk.

Three panels side by side cannot be read at 350 px. Figures that are more than
twice as wide as high get a container, whose width the stylesheet sets.
"""

import pathlib
import struct

from docutils import nodes

WIDE = 2.0
"""Ratio of width and height."""


def ratio(path: pathlib.Path) -> float:
    """Width over height of a PNG; 0 for other files."""
    head = path.read_bytes()[:24] if path.suffix == ".png" else b""
    if len(head) < 24:
        return 0.0
    width, height = struct.unpack(">II", head[16:24])
    return width / height


def _wrap(app, doctree):
    for image in list(doctree.findall(nodes.image)):
        path = pathlib.Path(app.srcdir) / image["uri"]
        if not path.is_file() or ratio(path) < WIDE:
            continue
        linked = isinstance(image.parent, nodes.reference)
        shown = image.parent if linked else image
        container = nodes.container(classes=["wide-figure"])
        shown.replace_self(container)
        container += shown


def setup(app):
    # After Sphinx has found the files of the images.
    app.connect("doctree-read", _wrap, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
