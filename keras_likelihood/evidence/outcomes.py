"""The distributions that the output of a model describes."""

from typing import Any, NamedTuple

from keras_likelihood.likelihoods.output import distribution_of, split_output


class Outcome(NamedTuple):
    """One output of a model.

    Attributes:
        distribution: its `Likelihood`.
        prediction: the predicted tensor, with the mask that Keras gave it.
        is_prediction_alone: whether the model predicts no parameter.
        loss_weight: its weight in the loss.
    """

    distribution: Any
    prediction: Any
    is_prediction_alone: bool
    loss_weight: float


def outcomes_of(model, likelihood=None, parameters=None):
    """Finds how to read the outputs of a model as distributions.

    Args:
        model: a compiled model.
        likelihood: class of the likelihood of a stock model, or `None` for
            the losses of a `LikelihoodModel`.
        parameters: values of the likelihood's parameters, by name.

    Returns:
        Function from the output to a list of `Outcome`s. `None` if a part of
        the loss is no likelihood, or needs the index of each example.
    """
    if likelihood is not None:
        return lambda output: [
            _outcome(
                output,
                distribution_of(likelihood, output, known=parameters),
                None,
            )
        ]
    loss = getattr(model, "loss", None)
    weight_of = getattr(model, "loss_weight", lambda key: None)
    losses: dict = loss if isinstance(loss, dict) else {"": loss}
    for value in losses.values():
        if not hasattr(value, "distribution") or value.data_parameters:
            return None

    def found(output):
        parts = {k: output[k] if k else output for k in losses}
        return [
            _outcome(parts[k], losses[k].distribution(parts[k]), weight_of(k))
            for k in losses
        ]

    return found


def _outcome(part, distribution, weight):
    prediction, parameters = split_output(part)
    weight = 1.0 if weight is None else float(weight)
    return Outcome(distribution, prediction, not parameters, weight)
