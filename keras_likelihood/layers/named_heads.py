"""Heads for one kind of likelihood."""

from keras_likelihood import likelihoods
from keras_likelihood.backend.registration import serializable
from keras_likelihood.layers.likelihood_head import LikelihoodHead


@serializable
class ScaleHead(LikelihoodHead):
    """Maps features to `(prediction, scale)`, for normal or Laplace losses.

    ```python
    outputs = kl.layers.ScaleHead(1)(features)
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile("adam", loss=kl.losses.NormalLoss())
    prediction, scale = model.predict(x)
    ```

    Args:
        units: size of the prediction's last axis.
        likelihood: `"normal"` (default), `"laplace"` or another likelihood
            whose only parameter is a scale.
        **options: those of `LikelihoodHead`.
    """

    def __init__(self, units: int, *, likelihood="normal", **options):
        super().__init__(likelihood, units, **options)
        _require_one_parameter(self, "scale")


@serializable
class TemperatureHead(LikelihoodHead):
    """Maps features to `(logits, temperature)`, for softmax or Bernoulli loss.

    ```python
    outputs = kl.layers.TemperatureHead(10)(features)
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile("adam", loss=kl.losses.SoftmaxLoss())
    ```

    Args:
        units: number of classes (softmax) or of yes/no outcomes (Bernoulli).
        likelihood: `"softmax"` (default) or `"bernoulli"`.
        **options: those of `LikelihoodHead`.
    """

    def __init__(self, units: int, *, likelihood="softmax", **options):
        super().__init__(likelihood, units, **options)
        _require_one_parameter(self, "temperature")


@serializable
class RobustRhoHead(LikelihoodHead):
    """Maps features to `(prediction, shape, scale)`, for `RobustRhoLoss`.

    ```python
    outputs = kl.layers.RobustRhoHead(3, conditioning={"shape": "global"})(maps)
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile("adam", loss=kl.losses.RobustRhoLoss())
    ```

    Args:
        units: size of the prediction's last axis.
        **options: those of `LikelihoodHead`.
    """

    def __init__(self, units: int, **options):
        likelihood = options.pop("likelihood", "robust_rho")
        if likelihood != "robust_rho":
            raise ValueError(
                "`RobustRhoHead` has the likelihood 'robust_rho'. "
                f"Received: {likelihood!r}; use `LikelihoodHead`"
            )
        super().__init__(likelihood, units, **options)


@serializable
class QuantilesHead(LikelihoodHead):
    """Maps features to `(quantiles, scale)`, for `QuantilesLoss`.

    The first quantile is a plain output. Each other quantile is the one before
    plus a softplus. So the quantiles always increase.

    ```python
    levels = (0.05, 0.5, 0.95)
    outputs = kl.layers.QuantilesHead(levels)(features)
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile("adam", loss=kl.losses.QuantilesLoss(levels))
    quantiles, scale = model.predict(x)
    ```

    Args:
        levels: increasing, each in (0, 1).
        **options: those of `LikelihoodHead`.
    """

    def __init__(self, levels, **options):
        made = likelihoods.Quantiles(levels)
        super().__init__(made, units=len(made.levels), **options)

    def get_config(self):
        config = {**super().get_config(), "levels": self.likelihood.levels}
        del config["likelihood"], config["units"]
        return config


def _require_one_parameter(head, name):
    names = [p.name for p in head.likelihood.parameters]
    if names != [name]:
        raise ValueError(
            f"`{type(head).__name__}` is for likelihoods whose one parameter "
            f"is a {name}. Received: {head.likelihood.name()!r}, which has "
            f"{names}; use `LikelihoodHead`"
        )
