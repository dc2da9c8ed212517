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


def takes_logits(loss) -> bool | None:
    """Whether a cross-entropy is one of logits; `None` for other losses."""
    if task_of_loss(loss) != "classification":
        return None
    config = loss.get_config() if hasattr(loss, "get_config") else {}
    return bool(config.get("from_logits", False))


def is_binary(loss) -> bool:
    """Whether a loss is of yes/no questions."""
    return "binary" in _name(loss) and takes_logits(loss) is not None


def _name(loss):
    if loss is None or isinstance(loss, dict | list | tuple):
        return ""
    name = loss if isinstance(loss, str) else None
    return (name or getattr(loss, "__name__", type(loss).__name__)).lower()
