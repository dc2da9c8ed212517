"""What can be known about data pipelines before they run."""

import sys

from keras_likelihood.backend import private

_BATCHES = ("Batch", "Window")


def why_not_numbered(dataset) -> str | None:
    """Why the elements of a `tf.data.Dataset` have no fixed numbers.

    Every epoch must give single examples in the same order. All steps that
    lead to `dataset` are looked at, and the functions inside of them.

    Returns:
        The step that forbids it, or `None`.
    """
    free = dataset.options().deterministic is False
    stack, unbatched = [dataset], False
    while stack:
        step = stack.pop()
        kind = type(step).__name__.strip("_")
        if "Unbatch" in kind:
            unbatched = True
        elif any(word in kind for word in _BATCHES) and not unbatched:
            return kind
        if "Shuffle" in kind and not private.shuffle_repeats(step):
            return kind
        if "DirectedInterleave" in kind or "Random" in kind:
            return kind
        if _is_free(step, free):
            return f"{kind} that is not deterministic"
        inner = private.operations_of_step(step)
        if any("Shuffle" in name for name in inner):
            return f"{kind} over shuffled datasets"
        stack.extend(private.inputs_of_step(step))
    return None


def _is_free(step, free):
    if "Parallel" not in type(step).__name__:
        return False
    given = private.order_of_step(step)
    return given == "false" or (given == "default" and free)


def is_torch_dataset(data) -> bool:
    """Whether `data` is a map-style `torch.utils.data.Dataset`."""
    torch = sys.modules.get("torch.utils.data")
    return (
        torch is not None
        and isinstance(data, torch.Dataset)
        and not isinstance(data, torch.IterableDataset)
    )


def is_torch_loader(data) -> bool:
    """Whether `data` is a `torch.utils.data.DataLoader`, or streams."""
    torch = sys.modules.get("torch.utils.data")
    return torch is not None and isinstance(
        data, torch.DataLoader | torch.IterableDataset
    )
