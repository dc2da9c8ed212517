"""Loss for classes of which many are mislabeled."""

import dataclasses
from typing import Any

from keras import ops

from keras_likelihood import likelihoods
from keras_likelihood.backend.types import Shape, Tensor
from keras_likelihood.likelihoods.checks import check_argument
from keras_likelihood.losses.batch import Batch
from keras_likelihood.losses.likelihood_loss import (
    LikelihoodLoss,
    ParameterValue,
    registered_loss,
)

_METHODS = {
    "early_learning": (likelihoods.NoisyLabels, "memory"),
    "sparse": (likelihoods.SparseNoise, "noise"),
}
"""The likelihood of each method, and its parameter with a value per row."""


@dataclasses.dataclass(frozen=True, eq=False)
class _TwoViews(Batch):
    """A batch of first views, with the predictions of the last views."""

    last: Any = None


@registered_loss
class NoisyLabelsLoss(LikelihoodLoss):
    """Classification loss for partly mislabeled training data.

    Every training example has a memory, so the network memorizes few wrong
    labels. The methods are

    - `"early_learning"`: the memory is the running mean of the example's
      predictions, and the network is rewarded for agreeing with it, see
      `likelihoods.NoisyLabels` (ELR, Liu et al. 2020). `kl.audit` finds and
      counts the wrong labels with it.
    - `"sparse"`: the memory is a sparse vector that explains a wrong label, see
      `likelihoods.SparseNoise` (SOP, Liu et al. 2022). It is the best method
      for long training on images. Two terms are added:

          - 0.1 mean_c log(mean over the batch of p_c)
          + 0.9 KL(p of the first view, p of the second view)

      The first keeps the network from predicting few classes. The second makes
      the two views agree that `layers.TwoViews` makes, and is zero without it.

    ```python
    memory = kl.DataParameter(len(x))
    model.compile("adam", loss=kl.losses.NoisyLabelsLoss(memory))
    model.fit(x, kl.indexed(y))
    report = kl.audit(model, x, y)
    ```

    Validation and test data have no memory.

    Args:
        memory: a `DataParameter` with one row per training example. For
            sequences of labels it needs `dimension="element"`.
        temperature: divides the logits, as in `SoftmaxLoss`. Defaults to 1.
        method: `"early_learning"` (default) or `"sparse"`.
    """

    memory: ParameterValue
    temperature: ParameterValue = 1.0
    _: dataclasses.KW_ONLY
    method: str = "early_learning"

    def _choose(self, likelihood: Any) -> Any:
        fits, allowed = self.method in _METHODS, f"one of {sorted(_METHODS)}"
        check_argument("method", self.method, fits, allowed)
        return _METHODS[self.method][0]

    def _prepare(self, likelihood: Any, dtype: Any, parameters: Any) -> None:
        self._choose(None)
        rows = _METHODS[self.method][1]
        given = {rows: self.memory, "temperature": self.temperature}
        super()._prepare(likelihood, dtype, given)
        allowed = "a `DataParameter` with one row for each training example"
        fits = rows in self.data_parameters
        check_argument("memory", self.memory, fits, allowed)

    def build(self, prediction_shape: Shape, count: int = 0) -> None:
        (memory,) = self.data_parameters.values()
        if len(prediction_shape) > 2 and memory.dimension != "element":
            raise ValueError(
                "With several labels per example, each label needs its own "
                'memory: DataParameter(n, dimension="element"). Received: '
                f"dimension={memory.dimension!r} for predictions of shape "
                f"{tuple(prediction_shape)}"
            )
        super().build(prediction_shape, count)

    def batch(
        self,
        y_true: Any,
        y_pred: Any,
        sample_weight: Any = None,
        index: Any = None,
    ) -> Batch:
        logits = ops.convert_to_tensor(y_pred)
        has_views = self.method == "sparse" and len(logits.shape) == 2
        if not has_views or y_true is None:
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
        last = ops.cast(batch.last, p.dtype) / distribution.temperature
        first = ops.stop_gradient(p)
        apart = first * (ops.log(first + 1e-8) - ops.log_softmax(last))
        agreement = ops.mean(ops.sum(apart, axis=-1))
        return value - 0.1 * ops.mean(ops.log(mean)) + 0.9 * agreement

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        config["memory"] = config.pop(_METHODS[self.method][1])
        return config
