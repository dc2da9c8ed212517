"""A weight and a bias for each logit."""

from keras_likelihood.recalibration.joint_scaling import JointScaling


class VectorScaling(JointScaling):
    """Multiplies each logit by a weight and adds a bias.

        p = softmax(z (1 + v) + b)

    `z` are the log-probabilities after GlobalScaling. It may change the
    predicted classes.

    Args:
        strength: strength of the prior, which favours GlobalScaling, `> 0`.
            Defaults to 1.
    """

    streams = True

    def __init__(self, *, strength: float = 1.0):
        super().__init__(logit_map="vector", strength=strength)
