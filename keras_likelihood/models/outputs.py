"""The outputs of a model, and what belongs to each of them."""

import dataclasses
from typing import Any

import keras

from keras_likelihood.backend.private import has_producer, producer
from keras_likelihood.data_parameters.indexed import split_index


@dataclasses.dataclass(frozen=True)
class Outputs:
    """Keys and names of the outputs, in the order of Keras.

    The key of a single output is `""`. Several outputs have the keys of their
    dict or their positions in a list, for which the names of the layers stand.
    """

    keys: tuple[Any, ...] = ("",)
    names: tuple[str, ...] = ("",)
    with_loss: tuple[Any, ...] = ("",)
    """Keys of the outputs with a loss."""

    @classmethod
    def of(cls, loss: Any, outputs: Any = None) -> "Outputs":
        """The outputs of a model with the `loss` of `compile`.

        The losses give the keys if the model has not been called yet.
        """
        given = loss if outputs is None else outputs
        if isinstance(given, dict):
            keys = tuple(keras.tree.flatten({key: key for key in given}))
        elif _is_several(loss, outputs):
            keys = tuple(range(len(given)))
        else:
            keys = ("",)
        names = tuple(map(str, keys))
        if outputs is not None and not isinstance(outputs, dict):
            parts = outputs if keys != ("",) else [outputs]
            names = _layer_names(parts, names)
        losses = cls(keys, names, keys).parts(loss, "loss")
        with_loss = tuple(k for k in keys if losses.get(k) is not None)
        return cls(keys, names, with_loss)

    def name(self, key: Any) -> str:
        """Name of an output in the logs."""
        return self.names[self.keys.index(key)]

    def parts(self, structure: Any, what: str) -> dict[Any, Any]:
        """The parts of a structure, such as targets, by key."""
        if isinstance(structure, dict):
            named = dict(zip(self.names, self.keys, strict=True))
            named |= {key: key for key in self.keys}
            if set(structure) <= set(named):
                return {named[k]: part for k, part in structure.items()}
        elif isinstance(structure, list | tuple):
            for keys in (self.keys, self.with_loss):
                if len(structure) == len(keys):
                    return dict(zip(keys, structure, strict=True))
        elif structure is None or self.keys == ("",):
            return dict.fromkeys(self.keys, structure)
        raise self._mismatch(structure, what)

    def _mismatch(self, structure: Any, what: str) -> ValueError:
        return ValueError(
            f"`{what}` and the outputs have different structures. It needs one "
            f"part for each of the outputs {list(self.names)}, as a dict or "
            f"list. Received: {_kinds(structure)}"
        )

    def of_model(self, y_pred: Any) -> dict[Any, Any]:
        """The outputs of the model by key."""
        if self.keys == ("",):
            is_list = isinstance(y_pred, list) and len(y_pred) == 1
            return {"": y_pred[0] if is_list else y_pred}
        if isinstance(y_pred, dict) and set(self.with_loss) <= set(y_pred):
            return y_pred
        if isinstance(y_pred, list | tuple) and len(y_pred) == len(self.keys):
            return dict(zip(self.keys, y_pred, strict=True))
        raise ValueError(
            "A dict of outputs needs a dict of losses with its keys, and a "
            "list of outputs a list of losses, one for each output. Received: "
            f"losses for {list(self.with_loss)} and {_kinds(y_pred)}"
        )

    def weights(self, sample_weight: Any) -> dict[Any, Any]:
        """Sample weights by key. A single array counts for all outputs."""
        if isinstance(sample_weight, dict | list | tuple):
            return self.parts(sample_weight, "sample_weight")
        return dict.fromkeys(self.keys, sample_weight)

    def targets(
        self, y: Any, sample_weight: Any = None
    ) -> dict[Any, tuple[Any, ...]]:
        """Target, sample weight and index of each output with a loss."""
        y, sample_weight, index = split_index(y, sample_weight)
        targets = self.parts(y, "y")
        if any(targets.get(key) is None for key in self.with_loss):
            raise self._mismatch(y, "y")
        weights = self.weights(sample_weight)
        parts = {}
        for key in self.with_loss:
            *part, own = split_index(targets[key], weights.get(key))
            parts[key] = (*part, index if own is None else own)
        return parts


def _is_several(loss: Any, outputs: Any) -> bool:
    """Whether a list of outputs is no `(prediction, parameter, ...)`."""
    if isinstance(loss, dict | list | tuple) and len(loss) > 1:
        return True
    if not isinstance(loss, dict) or not isinstance(outputs, list | tuple):
        return False
    return len(outputs) > 1 and any(map(keras.tree.is_nested, outputs))


def _layer_names(parts: Any, otherwise: tuple[str, ...]) -> tuple[str, ...]:
    found: list[str] = []
    for part, name in zip(parts, otherwise, strict=True):
        first = keras.tree.flatten(part)[0]
        if has_producer(first):
            name = producer(first)[0].name
        found.append(f"{name}_{len(found)}" if name in found else name)
    return tuple(found)


def _kinds(structure: Any) -> Any:
    """A structure with the types of its parts."""
    return keras.tree.map_structure(lambda v: type(v).__name__, structure)
