"""Imports the core of the package as soon as Keras is imported.

Importing Keras and its backend takes seconds. `import keras_likelihood` avoids
it, so `keras-likelihood --help` is fast. But `keras.saving.load_model` must
know the classes of this package, even if they have not been used before. So the
core is imported right after Keras, or now if Keras is already imported.
"""

import importlib
import importlib.abc
import importlib.machinery
import sys
from typing import Any

CORE = (
    "constraints",
    "data_parameters",
    "layers",
    "likelihoods",
    "losses",
    "metrics",
    "models",
    "regularizers",
)


def import_core() -> None:
    """Imports the subpackages with classes that saved models may contain."""
    for name in CORE:
        importlib.import_module(f"keras_likelihood.{name}")


def import_core_after_keras() -> None:
    """Calls `import_core` as soon as Keras or a part of it is imported."""
    if "keras" in sys.modules:
        import_core()
    else:
        sys.meta_path.insert(0, _Finder())


class _Finder(importlib.abc.MetaPathFinder):
    """Finds modules as usual, and imports the core after the first one."""

    _names = {"keras", *(f"keras_likelihood.{name}" for name in CORE)}

    def find_spec(self, fullname, path=None, target=None):
        if fullname not in self._names:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        loader: Any = spec and spec.loader
        if loader is not None:
            run = loader.exec_module

            def run_and_import(module):
                del loader.exec_module
                run(module)
                import_core()

            loader.exec_module = run_and_import
        return spec
