"""Every public name of the package, from its subpackages' `__all__`."""

import importlib
import inspect
import types

PACKAGE = "keras_likelihood"


def subpackages() -> dict[str, types.ModuleType]:
    """The public modules by dotted name, the package itself first."""
    found = {}
    waiting = [PACKAGE]
    while waiting:
        name = waiting.pop(0)
        module = importlib.import_module(name)
        found[name] = module
        for member in getattr(module, "__all__", []):
            if isinstance(getattr(module, member), types.ModuleType):
                waiting.append(f"{name}.{member}")
    return found


def members(module: types.ModuleType) -> dict[str, object]:
    """Public classes and functions of a subpackage, by name.

    Without `__all__`, those defined there that have a docstring.
    """
    names = getattr(module, "__all__", None)
    if names is None:
        names = [
            name
            for name, value in vars(module).items()
            if not name.startswith("_")
            and getattr(value, "__module__", None) == module.__name__
            and value.__doc__
        ]
    values = {name: getattr(module, name) for name in names}
    return {
        name: value
        for name, value in values.items()
        if inspect.isclass(value) or inspect.isfunction(value)
    }


def public_names() -> dict[str, object]:
    """Public classes and functions by dotted name."""
    return {
        f"{place}.{name}": value
        for place, module in subpackages().items()
        for name, value in members(module).items()
    }


def undocumented() -> list[str]:
    """Public names and subpackages without a docstring of their own."""
    things = {**subpackages(), **public_names()}
    return sorted(name for name, value in things.items() if not value.__doc__)


def missing(documented: set[str]) -> list[str]:
    """Public names that a reference with these entries leaves out.

    A name at the top of the package may be documented in its subpackage.
    """
    names = public_names()
    covered = {id(names[name]) for name in names if name in documented}
    return sorted(
        name
        for name, value in names.items()
        if name not in documented
        and (name.count(".") > 1 or id(value) not in covered)
    )
