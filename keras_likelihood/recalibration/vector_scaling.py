"""A weight and a bias for each logit."""

from keras_likelihood.recalibration.joint_scaling import JointScaling


class VectorScaling(JointScaling):
    """Weighs and shifts each class's logit.

        p = softmax(z (1 + v) + b)

    with `z` the log-probabilities after GlobalScaling. May change the
    predicted classes.

    Args:
        strength: the strength of the pull towards GlobalScaling, `> 0`.
            Defaults to 1.
    """

    streams = True

    def __init__(self, *, strength: float = 1.0):
        super().__init__(logit_map="vector", strength=strength)
