"""A temperature linear in the features before the logits."""

from keras_likelihood.recalibration.joint_scaling import JointScaling


class LinearFeatureScaling(JointScaling):
    """Predicts each example's temperature from its features.

        p = softmax(z / T(x)),    T(x) = f(x w + c)

    with `z` the logits after GlobalScaling, `x` the penultimate features and
    `f` the shifted softplus. The weights have a prior around zero, which means
    GlobalScaling. Its strength maximises the marginal likelihood, so that
    thousands of features do not overfit. The predicted classes do not change.

    Args:
        offset: the offset of the softplus, `>= 0`. T is always above offset /
            (ln 2 + offset) times the global temperature. Defaults to 0.2.

    >>> scaling = LinearFeatureScaling().fit_arrays(logits, y, features)
    >>> probabilities = scaling.calibrate(test_logits, test_features)
    """

    def __init__(self, *, offset: float = 0.2):
        super().__init__(temperature="features", offset=offset)
