"""A temperature predicted by a small network on the features."""

from keras_likelihood.recalibration.feature_basis import FeatureBasis
from keras_likelihood.recalibration.joint_scaling import JointScaling
from keras_likelihood.recalibration.network import SoftplusLink, fit_network
from keras_likelihood.recalibration.softmax_moments import solve_temperature
from keras_likelihood.recalibration.softmax_objectives import tempered_softmax


class DeepScaling(JointScaling):
    """Predicts each example's temperature by a network on its features.

        p = softmax(z / T(x)),    T(x) = f(network(x))

    with `z` the logits after GlobalScaling and `f` the shifted softplus. The
    network starts as GlobalScaling. Held-out folds decide how long it is
    trained. The predicted classes do not change.

    Args:
        hidden: sizes of the hidden layers. Defaults to `(16,)`.
        offset: the offset of the softplus, `>= 0`. Defaults to 0.2.
        seed: the random seed of the initial weights and the folds. Defaults to
            0.

    >>> scaling = DeepScaling().fit_arrays(logits, y, features)
    """

    def __init__(self, *, hidden=(16,), offset: float = 0.2, seed: int = 0):
        super().__init__(temperature="features", offset=offset)
        self.hidden = tuple(hidden)
        self.seed = seed

    def _fit(self, logits, labels, features, weight):
        base = solve_temperature(logits, labels, weight)
        basis = FeatureBasis(features, weight)
        columns = {"features": basis(features).astype("float64")}
        link = SoftplusLink(self.offset)
        objective = tempered_softmax(
            logits / base, labels, columns, link, weight
        )
        (kernel, bias, *rest), steps = fit_network(
            objective, features, self.hidden, self.seed
        )
        kernel, shift = basis.to_raw(kernel)
        self.parameters_ = {
            "temperature": base,
            "network": [kernel, bias + shift, *rest],
            "iterations": steps,
        }
