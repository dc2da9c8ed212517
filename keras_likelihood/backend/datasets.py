"""What can be known about data pipelines before they run."""

import sys

from keras_likelihood.backend import private


def why_not_numbered(dataset) -> str | None:
    """The step of a `tf.data.Dataset` without fixed numbers, or `None`.

    Every epoch must give single examples in the same order. All steps that
    lead to `dataset` are looked at, and the functions inside of them.
    """
    free = ["false"]
    if dataset.options().deterministic is False:
        free.append("default")
    stack, unbatched = [dataset], False
    while stack:
        step = stack.pop()
        kind = type(step).__name__.strip("_")
        unbatched = unbatched or "Unbatch" in kind
        is_batch = "Batch" in kind or "Window" in kind
        if (
            (is_batch and not unbatched)
            or ("Shuffle" in kind and not private.shuffle_repeats(step))
            or "DirectedInterleave" in kind
            or "Random" in kind
        ):
            return kind
        if "Parallel" in kind and private.order_of_step(step) in free:
            return f"{kind} that is not deterministic"
        if any("Shuffle" in name for name in private.operations_of_step(step)):
            return f"{kind} over shuffled datasets"
        stack.extend(private.inputs_of_step(step))
    return None


def is_of_torch(data, *names: str) -> bool:
    """Whether `data` is of one of these classes of `torch.utils.data`."""
    torch = sys.modules.get("torch.utils.data")
    kinds = [getattr(torch, name) for name in names] if torch else []
    return isinstance(data, tuple(kinds))
