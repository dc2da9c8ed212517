"""Checks of names, targets and intervals."""

from keras import ops


def refuse_our_names(cls, registry):
    """Raises an error if a class has the name of a class of this package."""
    package = __name__.split(".")[0]
    ours = {
        name: (known.__module__, known.__qualname__)
        for name, known in registry.items()
        if known.__module__.split(".")[0] == package
    }
    me = (cls.__module__, cls.__qualname__)
    if ours.get(cls.name(), me) != me:
        raise ValueError(
            f"A likelihood must not be called one of {sorted(ours)}, which "
            "are names of keras_likelihood. Rename the class, for example "
            f"My{cls.__name__}, or override its `name()`. "
            f"Received: {'.'.join(me)} with the name {cls.name()!r}"
        )


def one_or_nan(possible, like):
    """A factor: 1 for possible targets, and NaN for others.

    Compiled code cannot raise an error, and a finite value would hide it.
    """
    return ops.where(possible, ops.ones_like(like), float("nan"))


def check_coverage(coverage: float):
    if not 0 < coverage < 1:
        raise ValueError(
            f"`coverage` must be strictly between 0 and 1. Received: {coverage}"
        )


def check_size(name: str, value, least: int, most=1000, note=""):
    """Raises an error if a number that a file may ask for is not sensible."""
    if not isinstance(value, int) or not least <= value <= most:
        raise ValueError(
            f"`{name}` must be a whole number from {least} to {most}. "
            f"{note}Received: {value!r}"
        )
