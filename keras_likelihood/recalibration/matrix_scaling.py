"""An affine map of all logits."""

from keras_likelihood.recalibration.joint_scaling import JointScaling


class MatrixScaling(JointScaling):
    """Maps the logits by a regularised matrix and bias.

        p = softmax(z (1 + v) + z D + b)

    `z` are the log-probabilities after GlobalScaling. The diagonal, the bias
    and the other entries have separate priors. It may change the predicted
    classes.

    Args:
        strength: strength of the prior, which favours GlobalScaling, `> 0`.
            Defaults to 1.
    """

    def __init__(self, *, strength: float = 1.0):
        super().__init__(logit_map="matrix", strength=strength)
