"""What a compiled Keras loss says about its output."""

_REGRESSION = ("squared", "absolute", "mse", "mae", "huber", "cosh")


def task_of_loss(loss) -> str | None:
    """The task of a compiled Keras loss, if its name says so."""
    name = _name(loss)
    if "crossentropy" in name or "cross_entropy" in name:
        return "classification"
    if any(word in name for word in _REGRESSION):
        return "regression"
    return None


def puts_out_logits(kind, loss, layer: str) -> bool:
    """Whether a classifier's output is logits.

    Args:
        kind: the kind of its last layer, see `kind_of`.
        loss: the loss that it was compiled with, or `None`.
        layer: the name of its last layer, for the error message.
    """
    if kind is not None:
        return kind == "linear"
    if task_of_loss(loss) != "classification":
        raise ValueError(
            "The last layer must be a softmax, a sigmoid or linear. For other "
            "layers give `from_logits=True` or `from_logits=False`. "
            f"Received: {layer}"
        )
    config = loss.get_config() if hasattr(loss, "get_config") else {}
    return bool(config.get("from_logits", False))


def asks_questions(kind, loss) -> bool:
    """Whether a classifier's outputs are independent yes/no questions."""
    return kind == "sigmoid" or (kind is None and "binary" in _name(loss))


def _name(loss):
    if loss is None or isinstance(loss, dict | list | tuple):
        return ""
    name = loss if isinstance(loss, str) else None
    return (name or getattr(loss, "__name__", type(loss).__name__)).lower()
