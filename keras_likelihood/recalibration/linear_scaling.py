"""A temperature linear in the logits."""

from keras_likelihood.recalibration.joint_scaling import JointScaling


class LinearScaling(JointScaling):
    """Predicts each example's temperature from its logits.

        p = softmax(z / T(z)),    T(z) = f(log_softmax(z) w + c)

    with `z` the logits after GlobalScaling and `f` the shifted softplus. The
    weights have a prior around zero, which means GlobalScaling. Its strength
    maximises the marginal likelihood. The predicted classes do not change.

    Args:
        offset: the offset of the softplus, `>= 0`. T is always above offset /
            (ln 2 + offset) times the global temperature. Defaults to 0.2.

    >>> scaling = LinearScaling().fit_arrays(logits, y)
    >>> probabilities = scaling.calibrate(test_logits)
    """

    def __init__(self, *, offset: float = 0.2):
        super().__init__(temperature="logits", offset=offset)
