"""Cross-entropy for labels of which some are wrong."""

from keras_likelihood.backend.registration import serializable
from keras_likelihood.likelihoods.noisy_labels import NoisyLabels
from keras_likelihood.losses.likelihood_loss import LikelihoodLoss


@serializable
class NoisyLabelsLoss(LikelihoodLoss):
    """Loss of a classifier whose training labels are partly wrong.

    Every training example keeps a memory of what the network believed of it.
    The network is rewarded for agreeing with this memory; see
    `likelihoods.NoisyLabels`, and Liu et al. (2020), whose loss it is. Wrong
    labels are then hardly learned by heart, and `kl.audit` finds them and
    counts them.

    ```python
    memory = kl.DataParameter(len(x))
    model.compile("adam", loss=kl.losses.NoisyLabelsLoss(memory))
    model.fit(x, kl.indexed(y))
    report = kl.audit(model, x, y)
    ```

    Validation and test data have no memory. Their loss is the cross-entropy.

    Args:
        memory: a `DataParameter` with one row per training example. For
            sequences of labels give it `dimension="element"`.
        temperature: divides the logits, as in `SoftmaxLoss`. Defaults to 1.
        **options: `ignore_class`, `dimension`, `reduction`, `name` and
            `dtype` of `LikelihoodLoss`.
    """

    likelihood = NoisyLabels

    def __init__(self, memory, temperature=1.0, **options):
        super().__init__(temperature=temperature, memory=memory, **options)
        if "memory" not in self.data_parameters:
            raise ValueError(
                "`memory` must be a `DataParameter` with one row for each "
                f"training example. Received: {memory!r}"
            )

    def build(self, prediction_shape, count=0):
        memory = self.data_parameters["memory"]
        if len(prediction_shape) > 2 and memory.dimension != "element":
            raise ValueError(
                "Several labels an example need a memory each: "
                'DataParameter(n, dimension="element"). Received: '
                f"dimension={memory.dimension!r} for predictions of shape "
                f"{tuple(prediction_shape)}"
            )
        super().build(prediction_shape, count)
