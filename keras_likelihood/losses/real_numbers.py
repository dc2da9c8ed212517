"""Losses of real numbers."""

from keras_likelihood.backend.registration import serializable
from keras_likelihood.likelihoods import (
    Huber,
    Laplace,
    Logistic,
    Normal,
    RobustRho,
    StudentT,
)
from keras_likelihood.losses.location_scale_loss import LocationScaleLoss


@serializable
class NormalLoss(LocationScaleLoss):
    """Negative log-likelihood of the normal distribution.

        (y - prediction)^2 / (2 scale^2) + log(scale) + log(2 pi) / 2

    With `beta=1` and `ScaleHead(..., isolated=True)` the predictions are
    trained exactly as by squared error, and the scale is fitted to their
    residuals.

    ```python
    model.compile("adam", loss=kl.losses.NormalLoss())           # from a head
    model.compile("adam", loss=kl.losses.NormalLoss(scale=0.5))  # fixed
    ```

    Args:
        scale: standard deviation: a number, `"global"`, a `GlobalParameter`,
            or `None` (default). With `None` the head predicts it, or else the
            loss learns it.
        **options: `beta` and `balanced` of `LocationScaleLoss`; `dimension`,
            `reduction`, `name` and `dtype` of `LikelihoodLoss`.
    """

    likelihood = Normal

    def __init__(self, scale=None, **options):
        super().__init__(scale=scale, **options)


@serializable
class LaplaceLoss(LocationScaleLoss):
    """Negative log-likelihood of the Laplace distribution.

        |y - prediction| / scale + log(2 scale)

    With `beta=1` and `ScaleHead(..., isolated=True)` the predictions are
    trained exactly as by absolute error.

    ```python
    model.compile("adam", loss=kl.losses.LaplaceLoss())
    ```

    Args:
        scale: mean absolute deviation: a number, `"global"`, a
            `GlobalParameter`, or `None` (default). With `None` the head
            predicts it, or else the loss learns it.
        **options: `beta` and `balanced` of `LocationScaleLoss`; `dimension`,
            `reduction`, `name` and `dtype` of `LikelihoodLoss`.
    """

    likelihood = Laplace

    def __init__(self, scale=None, **options):
        super().__init__(scale=scale, **options)


@serializable
class LogisticLoss(LocationScaleLoss):
    """Negative log-likelihood of the logistic distribution.

        z + 2 log(1 + exp(-z)) + log(scale),    z = (y - prediction) / scale

    Up to its scale and a constant it is Keras' `"log_cosh"` with a learned
    width.

    ```python
    model.compile("adam", loss=kl.losses.LogisticLoss())
    ```

    Args:
        scale: a number, `"global"`, a `GlobalParameter`, or `None` (default).
            With `None` the head predicts it, or else the loss learns it.
        **options: `beta` and `balanced` of `LocationScaleLoss`; `dimension`,
            `reduction`, `name` and `dtype` of `LikelihoodLoss`.
    """

    likelihood = Logistic

    def __init__(self, scale=None, **options):
        super().__init__(scale=scale, **options)


@serializable
class StudentTLoss(LocationScaleLoss):
    """Negative log-likelihood of Student's t distribution.

        (df + 1) / 2 * log(1 + z^2 / df) + log(scale) + log Z(df)

    with `z = (y - prediction) / scale`.

    At `beta=1` the expected gradient by the prediction has no first-order
    change with the scale. The weight depends on `df`, see `LocationScaleLoss`.

    ```python
    model.compile("adam", loss=kl.losses.StudentTLoss(df=4.0))
    ```

    Args:
        df: degrees of freedom: a number, `"global"`, a `GlobalParameter`, or
            `None` (default). With `None` the head predicts it, or else the
            loss learns it.
        scale: the scale, given in the same ways.
        **options: `beta` and `balanced` of `LocationScaleLoss`; `dimension`,
            `reduction`, `name` and `dtype` of `LikelihoodLoss`.
    """

    likelihood = StudentT

    def __init__(self, df=None, scale=None, **options):
        super().__init__(df=df, scale=scale, **options)


@serializable
class HuberLoss(LocationScaleLoss):
    """Negative log-likelihood of Huber's density.

        rho(z) + log(scale) + log Z(threshold),  z = (y - prediction) / scale

    rho is Huber's loss. It is half the square up to the threshold and a
    straight line beyond it.

    ```python
    model.compile("adam", loss=kl.losses.HuberLoss(threshold=1.345))
    ```

    Args:
        threshold: where the tails begin, in scales: a number, `"global"`, a
            `GlobalParameter`, or `None` (default). With `None` the head
            predicts it, or else the loss learns it.
        scale: the scale, given in the same ways.
        **options: `beta` and `balanced` of `LocationScaleLoss`; `dimension`,
            `reduction`, `name` and `dtype` of `LikelihoodLoss`.
    """

    likelihood = Huber

    def __init__(self, threshold=None, scale=None, **options):
        super().__init__(threshold=threshold, scale=scale, **options)


@serializable
class RobustRhoLoss(LocationScaleLoss):
    """Negative log-likelihood of Barron's general robust distribution.

        rho(y - prediction, shape, scale) + log(scale) + log Z(shape)

    `shape` sets the tails: 2 is normal, 1 a smooth absolute error, 0 Cauchy.
    A learned one stays in (0, 3).

    At `beta=1` the expected gradient by the prediction has no first-order
    change with the scale. The weight depends on `shape`, see
    `LocationScaleLoss`.

    ```python
    model.compile("adam", loss=kl.losses.RobustRhoLoss())           # both
    model.compile("adam", loss=kl.losses.RobustRhoLoss(shape=1.0))  # scale
    ```

    Args:
        shape: alpha: a number, `"global"`, a `GlobalParameter`, or `None`
            (default). With `None` the head predicts it, or else the loss
            learns it.
        scale: the scale, given in the same ways.
        **options: `beta` and `balanced` of `LocationScaleLoss`; `dimension`,
            `reduction`, `name` and `dtype` of `LikelihoodLoss`.
    """

    likelihood = RobustRho

    def __init__(self, shape=None, scale=None, **options):
        super().__init__(shape=shape, scale=scale, **options)
