"""An import goes down a storey or stays on it."""

import ast
import pathlib

import pytest

STOREYS = {
    "core": (
        *("backend", "constraints", "likelihoods", "layers"),
        *("data_parameters", "losses", "metrics", "regularizers", "models"),
    ),
    "methods": (
        *("reading", "serving", "recalibration", "conformal", "ensembles"),
        *("laplace", "outliers", "robust", "diagnosis", "comparison"),
        "plots",
    ),
    "applications": (
        *("tables", "tabular", "auditing", "pages", "commands", "cli"),
    ),
}
HEIGHT = {
    room: height
    for height, rooms in enumerate(STOREYS.values())
    for room in rooms
}
# They name the package to users and start it, so they stand outside.
ENTRANCES = {"__init__.py", "__main__.py", "after_keras.py", "version.py"}
PACKAGE = pathlib.Path(__file__).parents[1] / "keras_likelihood"


def imported_rooms(code: str) -> list[tuple[int, str]]:
    """Line and room of each import from the package, in functions too."""
    found = []
    for node in ast.walk(ast.parse(code)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            package, *rest = name.split(".")
            if package == "keras_likelihood" and rest[0] in HEIGHT:
                found.append((node.lineno, rest[0]))
    return found


def upward_imports(room: str, code: str, place: str = "") -> list[str]:
    storeys = list(STOREYS)
    return [
        f"{place}:{line}: {room} ({storeys[HEIGHT[room]]}) imports {other} "
        f"({storeys[HEIGHT[other]]}), which stands above it"
        for line, other in imported_rooms(code)
        if HEIGHT[other] > HEIGHT[room]
    ]


@pytest.mark.one_backend
def test_imports_go_down():
    wrong = []
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE)
        if str(place) not in ENTRANCES:
            room = place.parts[0].removesuffix(".py")
            assert room in HEIGHT, f"{place}: {room} belongs to no storey"
            wrong += upward_imports(room, path.read_text(), str(place))
    assert not wrong, "\n".join(wrong)


@pytest.mark.one_backend
def test_an_upward_import_is_found():
    code = "def f():\n    from keras_likelihood.pages import page\n"
    (found,) = upward_imports("losses", code, "losses/batch.py")
    assert found == (
        "losses/batch.py:2: losses (core) imports pages (applications), "
        "which stands above it"
    )
    code = "from keras_likelihood import commands, likelihoods"
    assert len(upward_imports("recalibration", code)) == 1
    assert not upward_imports("cli", code)
