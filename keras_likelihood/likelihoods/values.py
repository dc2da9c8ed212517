"""A distribution as a value: its arrays, slices and description."""

import copy
from typing import TYPE_CHECKING, Any, ClassVar

import keras
import numpy as np
from keras import ops


class Values:
    """Has a `prediction` and `parameters`, which are arrays or tensors."""

    parameters: ClassVar[Any]
    prediction: Any

    if TYPE_CHECKING:
        # Each parameter is an attribute, such as `scale`.
        def __getattr__(self, name: str) -> Any: ...

    def values(self) -> dict:
        """The prediction and the parameters, by name."""
        names = ["prediction", *(p.name for p in self.parameters)]
        return {name: getattr(self, name) for name in names}

    def as_numpy(self):
        """The same distribution, whose attributes are NumPy arrays.

        The results of its methods are NumPy arrays too.
        """
        return self.map_values(ops.convert_to_numpy)

    def map_values(self, function, **replaced):
        """A copy with `function` of the prediction and of each parameter.

        Args:
            function: maps a tensor to a tensor or an array.
            **replaced: values that are used as they are.
        """
        other = copy.copy(self)
        for name, value in self.values().items():
            if name not in replaced:
                replaced[name] = function(value)
        vars(other).update(replaced)
        return other

    def repeated(self, like):
        """The distribution, with predictions repeated to the shape of `like`.

        Args:
            like: tensor whose last axes are those of the prediction.
        """
        ones = (1,) * (len(like.shape) - len(self.prediction.shape))

        def reshaped(value):
            if not len(value.shape):
                return value
            return ops.reshape(value, ones + tuple(ops.shape(value)))

        every = ops.broadcast_to(self.prediction, ops.shape(like))
        return self.map_values(reshaped, prediction=every)

    def __getitem__(self, index):
        shape = tuple(self.prediction.shape)

        def chosen(value):
            if not len(value.shape):
                return value
            every = (*shape[:-1], value.shape[-1])
            if isinstance(value, np.ndarray):
                return np.broadcast_to(value, every)[index]
            return ops.broadcast_to(value, every)[index]

        found = self.map_values(chosen)
        if tuple(found.prediction.shape)[-1:] != shape[-1:]:
            raise IndexError(
                "A distribution is sliced along all axes but the last of its "
                f"predictions of shape {shape}. Received: {index!r}"
            )
        return found

    def __repr__(self):
        parts = []
        for name, value in self.values().items():
            shape = tuple(value.shape)
            is_known = not shape and isinstance(value, np.ndarray)
            parts.append(f"{name}={value if is_known else shape}")
        dtype = keras.backend.standardize_dtype(self.prediction.dtype)
        return f"{type(self).__name__}({', '.join(parts)}, dtype={dtype})"
