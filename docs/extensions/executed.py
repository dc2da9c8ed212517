"""Pages whose code runs when the documentation is built.

A block of Python is followed by what it prints and draws. A `{run}` block is
not shown itself, only what comes out of it: it draws a stored result.

    ```python
    print(model.evaluate(x, y))
    ```

MyST-NB would start a process for each page, and each would import the
backend anew: minutes for two dozen pages. Here all pages share the process
of the build, as they do in sphinx-gallery. On other backends than TensorFlow
the tests run the same blocks. Every page can be had as a notebook as well.
"""

import contextlib
import io
import json
import os
import pathlib
import re
import tempfile
import time

BLOCK = re.compile(r"^```(python|\{run\}.*?)\n(.*?)^```\n", re.S | re.M)
FIGURES = "auto_figures"
WIDE = 88
"""Longer lines of output are set in smaller letters."""
INSTALL = '%pip install --quiet "keras-likelihood[tensorflow,all]"'
ALSO = ("onnxruntime", "tf2onnx", "pandas", "tensorflow_datasets")
"""Packages that a notebook installs if its page names them."""


class Page:
    """A page of Markdown and the state that its blocks share.

    Args:
        name: the name of the page, such as `"guides/regression"`.
        figures: the folder into which figures are written.
        shown: whether `python` blocks run, and not only `{run}` blocks.
    """

    def __init__(self, name, figures, shown):
        self.name = name
        self.figures = pathlib.Path(figures)
        self.shown = shown
        self.scope = {"__name__": "page"}
        self.drawn = 0

    def with_outputs(self, text):
        """The page with the outputs of each block below it."""
        with tempfile.TemporaryDirectory() as folder, _inside(folder):
            return BLOCK.sub(self._run, text)

    def _run(self, block):
        kind, code = block[1], block[2]
        hidden = kind.startswith("{run}")
        if not hidden and not self.shown:
            return block[0]
        printed = run(code, self.scope, self.name)
        alt = kind.removeprefix("{run}").strip() if hidden else ""
        alt = alt or "What the code above draws."
        parts = [] if hidden else [block[0]]
        if printed.strip():
            parts.append(_output(printed))
        parts += [self._figure(figure, alt) for figure in _take_figures()]
        return "\n".join(parts)

    def _figure(self, figure, alt):
        self.drawn += 1
        file = f"{self.name.replace('/', '-')}-{self.drawn}.png"
        self.figures.mkdir(exist_ok=True)
        figure.savefig(self.figures / file, dpi=130)
        return (
            f"```{{image}} /{FIGURES}/{file}\n"
            f":alt: {alt}\n:class: figure drawn\n```\n"
        )


def _output(printed):
    widest = max(map(len, printed.splitlines()))
    style = "output wide" if widest > WIDE else "output"
    return f"```{{code-block}} text\n:class: {style}\n\n{printed}```\n"


def run(code, scope, name):
    """Executes a block and returns what it prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, name, "exec"), scope)
    lines = [line.rstrip() for line in printed.getvalue().splitlines()]
    return "".join(f"{line}\n" for line in lines)


def notebook(text):
    """The page as a Jupyter notebook; its first cell installs packages."""
    also = [name for name in ALSO if name in text]
    cells = [_cell("code", " ".join([INSTALL, *also]))]
    position = 0
    for block in BLOCK.finditer(text):
        cells.append(_cell("markdown", _plain(text[position : block.start()])))
        if block[1] == "python":
            cells.append(_cell("code", block[2].strip()))
        position = block.end()
    cells.append(_cell("markdown", _plain(text[position:])))
    return json.dumps(
        {
            "cells": [cell for cell in cells if cell["source"]],
            "metadata": {
                "kernelspec": {
                    "display_name": "Python 3",
                    "language": "python",
                    "name": "python3",
                }
            },
            "nbformat": 4,
            "nbformat_minor": 4,
        },
        indent=1,
    )


def _cell(kind, source):
    cell = {"cell_type": kind, "metadata": {}, "source": source}
    if kind == "code":
        cell |= {"execution_count": None, "outputs": []}
    return cell


def _plain(text):
    """Markdown without links to other pages, which a notebook cannot follow."""
    return re.sub(r"\[([^\]]+)\]\((?!http)[^)]*\)", r"\1", text).strip()


@contextlib.contextmanager
def _inside(folder):
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _take_figures():
    import matplotlib.pyplot as plt

    figures = [plt.figure(number) for number in plt.get_fignums()]
    plt.close("all")
    return figures


def _read(app, docname, source):
    from sphinx.util import logging
    from sphinx.util.matching import patmatch

    text = source[0]
    shown = any(patmatch(docname, p) for p in app.config.executed_pages)
    if not BLOCK.search(text) or not (shown or "```{run}" in text):
        return
    _prepare()
    start = time.perf_counter()
    figures = pathlib.Path(app.srcdir) / FIGURES
    source[0] = Page(docname, figures, shown).with_outputs(text)
    took = time.perf_counter() - start
    logging.getLogger(__name__).info(" %s ran in %.1f s", docname, took)
    if shown:
        target = pathlib.Path(app.outdir) / f"{docname}.ipynb"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(notebook(text))
        source[0] = _with_link(source[0], target.name)


def _with_link(text, name):
    title, rest = text.split("\n", 1)
    link = f'<a class="notebook" href="{name}" download>Open as a notebook</a>'
    return f"{title}\n\n```{{raw}} html\n{link}\n```\n{rest}"


def _prepare():
    """Every page starts alike, whatever the page before it did."""
    import keras
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcdefaults()
    matplotlib.rcParams["figure.constrained_layout.use"] = True
    keras.utils.clear_session()
    keras.utils.set_random_seed(0)


def setup(app):
    app.add_config_value("executed_pages", [], "env")
    app.connect("source-read", _read)
    return {"parallel_read_safe": False}
