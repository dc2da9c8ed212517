"""Functions that change only the gradient."""

from keras import ops

from keras_likelihood.backend.custom_gradient import with_gradient


def scale_step(weight, multiplier: float):
    """`multiplier * weight`, with the gradient of `weight` left as it is.

    With any optimizer, such as SGD or Adam, the product then moves by
    `multiplier` times the usual step.
    """
    if multiplier == 1.0:
        return weight
    weight = ops.convert_to_tensor(weight)
    return ops.stop_gradient(multiplier * weight) + (
        weight - ops.stop_gradient(weight)
    )


def clip_gradient(x, norm: float):
    """`x`, with a gradient whose 2-norm is at most `norm`."""

    def clipped(_, gradient):
        length = ops.sqrt(ops.sum(ops.square(gradient)))
        return (lambda: gradient * (norm / ops.maximum(length, norm)),)

    # TensorFlow takes a tensor here, and no variable.
    x = ops.convert_to_tensor(x) + 0
    return with_gradient(lambda x: (x, ()), clipped)(x)
