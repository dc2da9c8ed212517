"""L2 regularization of learned strength."""

import math

import numpy as np
from keras import ops

from keras_likelihood.backend.registration import serializable
from keras_likelihood.likelihoods.normal import Normal
from keras_likelihood.regularizers.adaptive_regularizer import (
    SCALE_FREE,
    AdaptiveRegularizer,
)
from keras_likelihood.regularizers.evidence import smooth_evidence
from keras_likelihood.regularizers.measured_evidence import (
    measured_smooth_evidence,
)


@serializable
class DRidge(AdaptiveRegularizer):
    """L2 with a learned strength: a normal prior with a learned scale `s`.

        penalty = sum_j (w_j^2 / (2 s^2) + log(s) + log(2 pi) / 2)
                  / num_examples

    The scale follows the marginal likelihood, by MacKay's fixed point

        s^2 = sum_j w_j^2 / df,    df = sum_j h s^2 / (1 + h s^2)

    which counts only the weights that the data determine. It takes the
    curvature `h` as fixed. This is too strong for classes that hardly overlap:
    there the curvature falls as the weights grow. In a linear classifier of
    three classes or more, `MeasuredCurvature` therefore chooses the scale by
    the log-loss of examples left out (Rad and Maleki, 2020). In a network with
    a `SoftmaxLoss` it learns one factor, at most 1, on the strengths of all
    layers, so that the network is neither too sure nor too unsure of examples
    left out.

    With fewer examples than weights the evidence can hardly separate signal
    from noise. A weak hyper-prior then decides: it assumes as much signal as
    noise.

    ```python
    keras.layers.Dense(
        1, kernel_regularizer=kl.regularizers.DRidge(num_examples=500)
    )
    ```

    Args:
        num_examples: number of likelihood terms that the loss averages over.
        group: `"tensor"` (default) for one scale, `"input"` or `"output"`
            for one per input feature or output unit, which switches off
            features or units that carry nothing.
        **options: those of `AdaptiveRegularizer`.
    """

    def __init__(self, *, num_examples: float, group="tensor", **options):
        super().__init__(num_examples=num_examples, group=group, **options)

    def prior_nll(self, weight, scale):
        return Normal(ops.zeros_like(weight), scale=scale).nll(weight)

    def evidence(self, weight, scale, noise):
        return smooth_evidence(
            weight, scale, noise, self.num_examples, self._gain(weight)
        )

    def measured_evidence(self, weight, scale, noise, curvature):
        return measured_smooth_evidence(weight, scale, curvature, noise)

    def target_scale(self, weight, scale, evidence):
        return _fixed_point(ops, weight, scale, evidence)

    def _measured_target(self, weight, scale, evidence):
        if type(self).target_scale is not DRidge.target_scale:
            return super()._measured_target(weight, scale, evidence)
        # In NumPy: JAX would compile each operation for each shape.
        return _fixed_point(np, weight, scale, evidence)

    def _accelerated(self, move):
        # The fixed point is approached slowly where the evidence is flat, so
        # moves that keep their sign grow, and one that turns starts anew.
        speed, last = self._links.pace or (1.0, move)
        speed = np.where(move * last > 0, np.minimum(1.25 * speed, 8.0), 1.0)
        self._links.pace = speed, move
        return speed * move

    def _leaning(self, scale, noise, curvature, evidence):
        # The hyper-prior: log(scale) is normal with deviation 1 around the
        # scale at which the weights explain as much as the noise. It adds its
        # slope to the degrees of freedom, and so weighs as one observation.
        total = np.sum(curvature.eigenvalues(noise))
        even = np.sqrt(self.num_examples / total)
        slope = np.log(scale.item() / even)
        used = max(evidence.freedom, 1e-6)
        return np.sqrt(used / max(used + slope, 0.5 * used))

    def decay(self, strength: float) -> bool:
        # The penalty adds `strength * w` to the gradient of a weight w.
        if math.prod(self.log_scale.shape) > 1 or self.objective == "joint":
            return False
        scale = math.sqrt(self._factor / (strength * self.num_examples))
        log_scale = math.log(scale) / self.learning_rate_multiplier
        shape = tuple(self.log_scale.shape)
        self.log_scale.assign(np.full(shape, log_scale, "float32"))
        self.measured.assign(np.array(SCALE_FREE, "float32"))
        return True

    def _is_on(self, weight, scale, precision):
        signal = precision * ops.square(scale)
        copies = math.prod(weight.shape) / math.prod(scale.shape)
        known = copies * signal / (1.0 + signal)
        return ops.broadcast_to(ops.cast(known > 0.2, "int32"), weight.shape)

    def _strength_of(self, scale):
        return 0.5 / (self.num_examples * scale**2)


def has_one_scale(regularizer) -> bool:
    """Whether this is a `DRidge` whose one scale follows the evidence."""
    return (
        isinstance(regularizer, DRidge)
        and regularizer.objective == "evidence"
        and regularizer.group == "tensor"
    )


def _fixed_point(ops, weight, scale, evidence):
    """MacKay's next scale, by the functions of `ops`: Keras' or NumPy's."""
    axes = tuple(i for i, n in enumerate(scale.shape) if n == 1)
    signal = evidence.precision * ops.square(scale)
    known = ops.broadcast_to(signal / (1.0 + signal), weight.shape)
    known = ops.mean(known, axis=axes, keepdims=True)
    mean = ops.mean(ops.square(weight), axis=axes, keepdims=True)
    # Below this scale all weights together use one degree of freedom.
    total = float(math.prod(weight.shape))
    least = 1.0 / (ops.mean(evidence.precision) * total)
    return ops.sqrt(ops.maximum(mean / known, least))
