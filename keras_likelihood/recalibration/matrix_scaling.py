"""An affine map of all logits."""

from keras_likelihood.recalibration.joint_scaling import JointScaling


class MatrixScaling(JointScaling):
    """Maps the logits by a regularised matrix and bias.

        p = softmax(z (1 + v) + z D + b)

    with `z` the log-probabilities after GlobalScaling. The diagonal, the
    bias and the rest have priors of their own. May change the predicted
    classes.

    Args:
        strength: the strength of the pull towards GlobalScaling, `> 0`.
            Defaults to 1.
    """

    def __init__(self, *, strength: float = 1.0):
        super().__init__(logit_map="matrix", strength=strength)
