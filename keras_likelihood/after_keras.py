"""Imports what saved models need as soon as Keras is imported.

Importing Keras and its backend takes seconds, so `import keras_likelihood`
avoids it. But `keras.saving.load_model` must know the classes of this package.
So they are imported right after Keras, or now if Keras is already imported.
"""

import importlib
import importlib.machinery
import sys
from typing import Any

IN_FILES = (
    "conformal",
    "constraints",
    "data_parameters",
    "ensembles",
    "layers",
    "likelihoods",
    "losses",
    "metrics",
    "models",
    "regularizers",
    "serving",
    "tables.table_features",
    "tables.gaussian_process",
)
"""Modules with classes that saved models may contain."""


def import_all() -> None:
    """Imports the modules with classes that saved models may contain."""
    for name in IN_FILES:
        importlib.import_module(f"keras_likelihood.{name}")


def import_after_keras() -> None:
    """Calls `import_all` as soon as Keras or a part of it is imported."""
    if "keras" in sys.modules:
        import_all()
    else:
        sys.meta_path.insert(0, _Finder())


class _Finder:
    """Finds modules as usual, and imports the core after the first one."""

    # `conformal` imports `reading`, which must not be half imported then.
    _names = {
        "keras",
        *(f"keras_likelihood.{name}" for name in (*IN_FILES, "reading")),
    }

    def find_spec(
        self, fullname: str, path: Any = None, target: Any = None
    ) -> Any:
        if fullname not in self._names:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        loader: Any = spec and spec.loader
        if loader is not None:
            run = loader.exec_module

            def run_and_import(module: Any) -> None:
                del loader.exec_module
                run(module)
                import_all()

            loader.exec_module = run_and_import
        return spec
