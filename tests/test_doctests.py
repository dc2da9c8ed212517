"""The examples in docstrings run and print what they say."""

import doctest
import importlib
import pathlib

import keras
import numpy as np
import pytest

import keras_likelihood as kl

PACKAGE = pathlib.Path(kl.__file__).parent
MODULES = [
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    for path in sorted(PACKAGE.rglob("*.py"))
    if ">>> " in path.read_text()
]
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def failures(module) -> list[str]:
    """What the examples of a module printed instead of what they say."""
    runner = doctest.DocTestRunner(optionflags=OPTIONS, verbose=False)
    reports: list[str] = []
    names = {**vars(module), "np": np, "keras": keras, "kl": kl}
    for test in doctest.DocTestFinder().find(module, globs=names):
        runner.run(test, out=reports.append)
    return reports


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_docstrings(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    keras.utils.set_random_seed(0)
    assert not failures(importlib.import_module(name))


def test_a_wrong_example_is_found():
    module = type(doctest)("wrong")
    module.__doc__ = ">>> 1 + 1\n3\n"
    assert "Expected:\n    3\nGot:\n    2" in failures(module)[0]
