"""Loss for images of which many are mislabeled."""

import dataclasses
from typing import Any

from keras import ops

from keras_likelihood.backend.registration import serializable
from keras_likelihood.backend.types import Tensor
from keras_likelihood.likelihoods.checks import check_argument
from keras_likelihood.likelihoods.sparse_noise import SparseNoise
from keras_likelihood.losses.batch import Batch
from keras_likelihood.losses.likelihood_loss import (
    LikelihoodLoss,
    ParameterValue,
)

_BALANCE = 0.1
_AGREEMENT = 0.9


@dataclasses.dataclass(frozen=True, eq=False)
class _TwoViews(Batch):
    """A batch of first views, with the predictions of the last views."""

    last: Any = None


@serializable
@dataclasses.dataclass(eq=False, repr=False)
class SparseNoiseLoss(LikelihoodLoss):
    """Classification loss that explains wrong labels by a vector per example.

    The vectors are those of `likelihoods.SparseNoise` (SOP, Liu et al. 2022).
    Two terms are added:

        - 0.1 mean_c log(mean over the batch of p_c)
        + 0.9 KL(p of the first view, p of the second view)

    The first keeps the network from predicting few classes. The second makes
    the two views of each example agree that `layers.TwoViews` makes. Without
    two views it is zero. Validation and test data have no vectors.

    ```python
    h = kl.layers.TwoViews(weak, strong)(inputs)
    noise = kl.DataParameter(len(x))
    model.compile("sgd", loss=kl.losses.SparseNoiseLoss(noise))
    model.fit(x, kl.indexed(y), epochs=300)
    ```

    Args:
        noise: a `DataParameter` with one row per training example.
        temperature: divides the logits, as in `SoftmaxLoss`. Defaults to 1.
        dimension, reduction, name, dtype: as in `LikelihoodLoss`.
    """

    likelihood = SparseNoise

    noise: ParameterValue
    temperature: ParameterValue = 1.0

    def __post_init__(self, dtype: Any) -> None:
        super().__post_init__(dtype)
        allowed = "a `DataParameter` with one row for each training example"
        fits = "noise" in self.data_parameters
        check_argument("noise", self.noise, fits, allowed)

    def batch(
        self,
        y_true: Any,
        y_pred: Any,
        sample_weight: Any = None,
        index: Any = None,
    ) -> Batch:
        logits = ops.convert_to_tensor(y_pred)
        if y_true is None or len(logits.shape) != 2:
            return super().batch(y_true, y_pred, sample_weight, index)
        # The views of an example are adjacent rows.
        shape = ops.shape(y_true)[0], -1, logits.shape[-1]
        views = ops.reshape(logits, shape)
        first = super().batch(y_true, views[:, 0], sample_weight, index)
        return _TwoViews(**vars(first), last=views[:, -1])

    def of(self, distribution: Any, batch: Batch) -> Tensor:
        value = super().of(distribution, batch)
        if not isinstance(batch, _TwoViews):
            return value
        p = distribution.mean()
        mean = ops.clip(ops.mean(p, axis=0), 1e-4, 1.0)
        balance = -ops.mean(ops.log(mean))
        last = ops.cast(batch.last, p.dtype) / distribution.temperature
        first = ops.stop_gradient(p)
        apart = first * (ops.log(first + 1e-8) - ops.log_softmax(last))
        agreement = ops.mean(ops.sum(apart, axis=-1))
        return value + _BALANCE * balance + _AGREEMENT * agreement
