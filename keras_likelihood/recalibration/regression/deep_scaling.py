"""A scale predicted by a small network on the features."""

from keras_likelihood.recalibration.network import fit_network
from keras_likelihood.recalibration.regression.predicted_scaling import (
    PredictedScaling,
)


class DeepScaling(PredictedScaling):
    """Predicts each example's scale by a network on its features.

        scale = g * f(network(x)) * base

    with `g` the factor of GlobalScaling and `f` the shifted softplus. The
    network starts as GlobalScaling. Held-out folds decide how long it is
    trained.

    Args:
        likelihood: `"auto"` (default), `"normal"` or `"student_t"`.
        hidden: sizes of the hidden layers. Defaults to `(16,)`.
        offset: the offset of the softplus, `>= 0`. Defaults to 0.01.
        seed: the random seed of the initial weights and the folds. Defaults to
            0.
    """

    def __init__(
        self,
        *,
        likelihood: str = "auto",
        hidden=(16,),
        offset: float = 0.01,
        seed: int = 0,
    ):
        super().__init__(likelihood=likelihood, offset=offset)
        self.hidden = tuple(hidden)
        self.seed = seed

    def _fit_network(self, objective, raw):
        objective.weight = objective.weight / objective.weight.mean()
        parts, steps = fit_network(
            objective.by_row, objective.x, raw, self.hidden, self.seed
        )
        self.parameters_ = {"iterations": steps}
        return parts
