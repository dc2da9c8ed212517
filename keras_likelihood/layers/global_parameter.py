"""A likelihood parameter that is the same for every example."""

import keras
import numpy as np
from keras import ops

from keras_likelihood import constraints, likelihoods
from keras_likelihood.backend.registration import serializable
from keras_likelihood.layers.step_control import StepControl


@serializable
class GlobalParameter(keras.Layer):
    """One learned value of a likelihood parameter, independent of the input.

        value = constraint(u),    u learned, constraint(u at start) = initial

    Give it to a loss in place of `"global"` to say how the value is learned:

    ```python
    scale = kl.layers.GlobalParameter(initial=0.1, dimension="channel")
    model.compile("adam", loss=kl.losses.NormalLoss(scale=scale))
    ```

    Args:
        initial: value to start from. Defaults to the likelihood's own.
        constraint: map from the reals to the domain. Defaults to the
            likelihood's own.
        dimension: `"scalar"` (one value), `"channel"` (one per entry of the
            prediction's last axis) or `"element"` (one per element of an
            example's prediction). Defaults to `"scalar"`.
        learning_rate_multiplier: factor on the optimizer's steps. Defaults
            to 1.
        weight_decay: strength of an L2 penalty on the distance from `initial`.
            Defaults to 0.
        clipnorm: largest norm of the gradient, or `None`.
    """

    def __init__(
        self,
        *,
        initial: float | tuple[float, ...] | None = None,
        constraint=None,
        dimension: str = "scalar",
        learning_rate_multiplier: float = 1.0,
        weight_decay: float = 0.0,
        clipnorm: float | None = None,
        **kwargs,
    ):
        super().__init__(autocast=False, **kwargs)
        self.supports_masking = True
        self.initial = initial
        self.constraint = constraint and constraints.get(constraint)
        self.dimension = dimension
        self.control = StepControl(
            learning_rate_multiplier, weight_decay, clipnorm
        )
        self.likelihood = None
        self.parameter: str | None = None

    def bind(self, likelihood, name: str) -> "GlobalParameter":
        """Says which parameter of which likelihood this is; returns self.

        Binding it again to the same parameter changes nothing.
        """
        likelihood = likelihoods.get(likelihood)
        bound = (likelihood, name)
        if self.likelihood is not None:
            if bound != (self.likelihood, self.parameter):
                raise ValueError(
                    "A GlobalParameter stands for one parameter of one "
                    f"likelihood. Received: {name!r} of {likelihood.name()} "
                    f"for the {self.parameter!r} of "
                    f"{self.likelihood.name()}"
                )
            return self
        self.likelihood, self.parameter = bound
        declared = likelihood.parameter(name)
        self._constraint = self.constraint or declared.constraint
        self.start = declared.initial if self.initial is None else self.initial
        if self.dimension == "scalar" and declared.size is None:
            self._add_weight(())
        return self

    def build(self, input_shape):
        if self.likelihood is None:
            raise ValueError(
                "A GlobalParameter must be given to a loss or a head before "
                "it is called. Received: a call of a parameter without one"
            )
        if not self.built:
            self._add_weight(
                self.likelihood.shape_of(
                    self.parameter, input_shape, self.dimension
                )
            )

    def _add_weight(self, shape):
        start = np.resize(self._constraint.inverse(self.start), shape)
        self.unconstrained = self.control.add_weight(
            self, "unconstrained", shape, start
        )
        self.built = True

    def value(self):
        """The current value: `()`, or the shape of one example's parameter."""
        return self._constraint(self.control(self.unconstrained))

    @property
    def latest(self) -> float | tuple[float, ...] | np.ndarray:
        """The current value as a number or NumPy array, or the initial value.

        Assign a value of the domain to set the parameter.
        """
        if not self.built:
            return self.start
        value = ops.convert_to_numpy(self.value())
        return value if value.ndim else float(value)

    @latest.setter
    def latest(self, value):
        unconstrained = self._constraint.inverse(np.asarray(value, "float64"))
        multiplier = self.control.learning_rate_multiplier
        self.unconstrained.assign(
            np.reshape(unconstrained / multiplier, self.unconstrained.shape)
        )

    @property
    def is_fresh(self) -> bool:
        """Whether the value is still the initial one of the likelihood."""
        latest = self.latest
        return self.initial is None and np.allclose(
            latest, np.resize(self.start, np.shape(latest)), rtol=1e-6
        )

    def call(self, prediction):
        """The value once per example: `(batch, 1 or dim, ...)`."""
        value = self.value()
        batch = ops.shape(prediction)[0]
        shape = tuple(value.shape) or (1,) * (len(prediction.shape) - 1)
        return ops.broadcast_to(value, (batch, *shape))

    def get_build_config(self):
        # The loss or head that owns this layer builds it.
        return None

    def get_config(self):
        return {
            **super().get_config(),
            "initial": self.initial,
            "constraint": keras.saving.serialize_keras_object(self.constraint),
            "dimension": self.dimension,
            **self.control.get_config(),
        }
