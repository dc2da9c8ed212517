"""What a compiled Keras loss says about the output it is for."""

_REGRESSION = ("squared", "absolute", "mse", "mae", "huber", "cosh")


def task_of_loss(loss) -> str | None:
    """The task a compiled Keras loss is of, if its name tells."""
    name = _name(loss)
    if "crossentropy" in name or "cross_entropy" in name:
        return "classification"
    if any(word in name for word in _REGRESSION):
        return "regression"
    return None


def puts_out_logits(kind, loss, layer: str) -> bool:
    """Whether a classifier's output is logits.

    Args:
        kind: of its last layer, see `kind_of`.
        loss: that it was compiled with, or `None`.
        layer: what its last layer is, for the error if neither tells.
    """
    if kind is not None:
        return kind == "linear"
    if task_of_loss(loss) != "classification":
        raise ValueError(
            "The last layer must be a softmax, a sigmoid or linear to be "
            "recognised; say `from_logits=True` or `False` for others. "
            f"Received: {layer}"
        )
    config = loss.get_config() if hasattr(loss, "get_config") else {}
    return bool(config.get("from_logits", False))


def asks_questions(kind, loss) -> bool:
    """Whether a classifier's outputs are yes/no questions, by themselves."""
    return kind == "sigmoid" or (kind is None and "binary" in _name(loss))


def _name(loss):
    if loss is None or isinstance(loss, dict | list | tuple):
        return ""
    name = loss if isinstance(loss, str) else None
    return (name or getattr(loss, "__name__", type(loss).__name__)).lower()
