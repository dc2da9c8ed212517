"""A page for each public name, and a table of them for each subpackage.

The directive `{public-names}` draws the table. The pages are written before
the build into `reference/api`, which is not part of the repository.
"""

import inspect
import pathlib

from public_names import PACKAGE, members, public_names, subpackages
from sphinx.util.docutils import SphinxDirective

FOLDER = "reference/api"
GUIDES = {
    "auditing": "audit",
    "comparison": "guides/intervals",
    "conformal": "guides/intervals",
    "constraints": "guides/idea",
    "data_parameters": "data_parameters",
    "diagnosis": "guides/diagnosis",
    "ensembles": "guides/ensembles",
    "laplace": "guides/ensembles",
    "layers": "guides/regression",
    "likelihoods": "which_likelihood",
    "losses": "which_likelihood",
    "metrics": "guides/workflows",
    "models": "guides/idea",
    "outliers": "guides/outliers",
    "plots": "auto_gallery/index",
    "recalibration": "recalibration",
    "regularizers": "adaptive_regularization",
    "robust": "robust_regression",
    "serving": "tutorials/serving",
    "tabular": "guides/tables",
}
"""The page of the user guide that each subpackage belongs to."""


def described() -> dict[str, object]:
    """The names with a page; those of the top are in their subpackages."""
    names = public_names()
    below = {id(value) for name, value in names.items() if name.count(".") > 1}
    return {
        name: value
        for name, value in names.items()
        if name.count(".") > 1 or id(value) not in below
    }


def page_of(name: str, value: object, parent: str) -> str:
    """The reStructuredText of one page."""
    short = name.rpartition(".")[2]
    place = name.removeprefix(f"{PACKAGE}.").rpartition(".")[0]
    kind = "autoclass" if inspect.isclass(value) else "autofunction"
    options = "   :members:\n   :show-inheritance:\n"
    return (
        f":orphan:\n\n{short}\n{'=' * len(short)}\n\n"
        f"In :doc:`kl.{place} </reference/{parent}>`. {see_also(parent)}\n\n"
        f".. {kind}:: {name}\n{options if inspect.isclass(value) else ''}"
    )


def see_also(parent: str) -> str:
    """A link to the user guide."""
    guide = GUIDES.get(parent)
    return f"See also :doc:`/{guide}`." if guide else ""


def first_sentence(value: object) -> str:
    """The first paragraph of a docstring, fit for a cell of a table."""
    text = inspect.cleandoc(value.__doc__ or "").split("\n\n")[0]
    return " ".join(text.split()).replace("|", "\\|")


class PublicNames(SphinxDirective):
    """A table of the public names of a subpackage."""

    required_arguments = 1

    def run(self):
        place = self.arguments[0]
        rows = [
            f"| [`{name}`](#{place}.{name}) | {first_sentence(value)} |"
            for name, value in sorted(members(subpackages()[place]).items())
            if f"{place}.{name}" in described()
        ]
        return self.parse_text_to_nodes(
            "\n".join(["| name | what it is |", "|---|---|", *rows])
        )


def _write(app):
    folder = pathlib.Path(app.srcdir) / FOLDER
    folder.mkdir(exist_ok=True)
    pages = {}
    for name, value in described().items():
        parent = name.split(".")[1] if name.count(".") > 1 else "index"
        pages[f"{name}.rst"] = page_of(name, value, parent)
    for path in folder.glob("*.rst"):
        if path.name not in pages:
            path.unlink()
    for name, text in pages.items():
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def setup(app):
    app.add_directive("public-names", PublicNames)
    app.connect("builder-inited", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
