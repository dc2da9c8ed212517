"""Losses of classes: softmax, yes/no, ordered, partly mislabeled."""

from keras_likelihood.backend.registration import serializable
from keras_likelihood.likelihoods import Bernoulli, Ordinal, Softmax
from keras_likelihood.likelihoods.noisy_labels import NoisyLabels
from keras_likelihood.losses.likelihood_loss import LikelihoodLoss


@serializable
class SoftmaxLoss(LikelihoodLoss):
    """Negative log-likelihood of classes under a tempered softmax.

        log sum_c exp(logits_c / temperature) - logits_y / temperature

    Targets are class numbers or one-hot (or soft) labels. Their shape says
    which. The model must give logits, not probabilities.

    ```python
    model.compile("adam", loss=kl.losses.SoftmaxLoss(), metrics=["accuracy"])
    ```

    Args:
        temperature: divides the logits: a number, `"global"`, a
            `GlobalParameter`, or `None` (default). With `None` the head
            predicts it, or else the loss learns it.
        **options: `ignore_class`, `dimension`, `reduction`, `name` and
            `dtype` of `LikelihoodLoss`.
    """

    likelihood = Softmax

    def __init__(self, temperature=None, **options):
        super().__init__(temperature=temperature, **options)


@serializable
class BernoulliLoss(LikelihoodLoss):
    """Negative log-likelihood of yes/no targets under tempered logits.

        log(1 + exp(l)) - y l,    l = logits / temperature

    ```python
    model.compile("adam", loss=kl.losses.BernoulliLoss())
    ```

    Args:
        temperature: divides the logits: a number, `"global"`, a
            `GlobalParameter`, or `None` (default). With `None` the head
            predicts it, or else the loss learns it.
        **options: `ignore_class`, `dimension`, `reduction`, `name` and
            `dtype` of `LikelihoodLoss`.
    """

    likelihood = Bernoulli

    def __init__(self, temperature=None, **options):
        super().__init__(temperature=temperature, **options)


@serializable
class OrdinalLoss(LikelihoodLoss):
    """Negative log-likelihood of ordered classes under a hidden score.

        P(y <= k) = 1 / (1 + exp(prediction - cut_k))

    The model predicts one score for each target, by `Dense(1)`. The loss
    learns the cut points between the classes.

    ```python
    model = kl.LikelihoodModel(inputs, keras.layers.Dense(1)(features))
    model.compile("adam", loss=kl.losses.OrdinalLoss(classes=5))
    p = model.predict_distribution(x).class_probabilities()
    ```

    Args:
        classes: how many there are, at least 3.
        gaps: distances between the cut points: a number, a tuple of
            `classes - 2` numbers, `"global"`, a `GlobalParameter`, or `None`
            (default). With `None` the head predicts them, or else the loss
            learns them.
        **options: `ignore_class`, `dimension`, `reduction`, `name` and
            `dtype` of `LikelihoodLoss`.
    """

    def __init__(self, classes: int, gaps=None, **options):
        super().__init__(Ordinal(classes), gaps=gaps, **options)

    def get_config(self):
        config = {**super().get_config(), "classes": self.likelihood.classes}
        del config["likelihood"]
        return config


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
