"""A regression loss whose tails fit the data."""

from keras_likelihood.backend.registration import serializable
from keras_likelihood.likelihoods import StudentT
from keras_likelihood.losses.location_scale_loss import LocationScaleLoss


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
