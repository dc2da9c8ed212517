"""Rules that choose the scales of priors."""

import math

import numpy as np

from keras_likelihood.regularizers.curvature import LARGEST_MATRIX

_FIRST_STEP, _LARGEST_MOVE = 16, 0.5
_SQUARE_DECAY, _START = 0.99, 1.4


class ScaleRule:
    """Chooses scales. `LearnScales` asks the first rule that applies:

    ```python
    class RootMeanSquare(kl.regularizers.ScaleRule):
        def applies(self, site):
            return site.prior.group == "tensor"

        def scale(self, site):
            return np.sqrt(np.mean(site.weight**2, keepdims=True))
    ```
    """

    def applies(self, site) -> bool:
        """Whether this rule can choose the scales at this `Site`.

        It is called once, at the start of `fit`.
        """
        raise NotImplementedError

    def interval(self, site) -> int:
        """Number of training steps between two calls of `scale`."""
        return 16

    def scale(self, site):
        """The new scales, an array that broadcasts with those of the prior.

        `None` leaves them unchanged. It is called before the first step of
        `fit`, and then after every `interval` of steps.
        """
        raise NotImplementedError


class Evidence(ScaleRule):
    """Follows the measured Laplace evidence. It needs no held-out rows.

    The curvature of the NLL with respect to each weight is measured during
    training, at targets drawn from the model's own distribution (Immer et
    al., 2021, train by the evidence in this way). From it follow

    - `DRidge`: MacKay's fixed point (`ridge_scale`);
    - `DLasso`: Stein's unbiased estimate of the risk (`lasso_scale`);
    - `MultiLasso`, `MultiRidge`: the gain in likelihood that a weight needs
      in order to be on (`multi_lasso_scale`, `multi_ridge_scale`).

    Each move changes a scale by a factor of at most 1.65.

    The formulas take the curvature as fixed. In a deep network that
    separates its classes the curvature depends on the weights, and in front
    of a normalisation the size of a weight has no effect. Give such a network
    held-out rows, so that `HeldOut` applies.

    Reference: A. Immer, M. Bauer, V. Fortuin, G. Ratsch, M. E. Khan,
    *Scalable marginal likelihood estimation for model selection in deep
    learning*, ICML 2021.
    """

    def applies(self, site):
        return site.prior.evidence_scale is not None and site.has_curvature

    def interval(self, site):
        # The joint curvature of a small weight is inverted in each move.
        entries = math.prod(site.variable.shape)
        inverse = entries**3 // 2_000_000 if entries <= LARGEST_MATRIX else 0
        return max(16, inverse, (site.total_steps or 0) // 100)

    def scale(self, site):
        if site.step < _FIRST_STEP:
            return None
        curvature, weight, scale = site.curvature, site.weight, site.scale
        if curvature is None or not np.all(np.isfinite(weight)):
            return None
        found, freedom, precision = site.prior.evidence_scale(
            weight, scale, curvature, site.prior.num_examples
        )
        move = np.log(found) - np.log(scale)
        if not np.all(np.isfinite(move)):
            return None
        if site.share < 1:
            # The counts of several layers overlap, so they are limited to
            # half of the examples.
            freedom = min(freedom, 0.5 * site.share * site.prior.num_examples)
        typical = np.exp(np.mean(np.log(precision)))
        site.record(freedom=freedom, precision=typical)
        return scale * np.exp(np.clip(move, -_LARGEST_MOVE, _LARGEST_MOVE))


class HeldOut(ScaleRule):
    """Follows the gradient of the held-out NLL.

    A step of training with the strength `lambda` moves a weight by
    `-rate * lambda * p`, where `p` is the pull of its prior: `w` for L2 and
    `sign(w)` for L1. To first order, the NLL of held-out rows, with the
    gradient `g`, changes with the strength by

        d NLL / d log(lambda) = -rate * lambda * (g . p)

    (Luketina et al., 2016). So the logarithm of the strength follows RMSProp
    on `-(g . p)`: it grows where smaller weights would lower the held-out NLL.

    Looking one step ahead regularizes deep networks too strongly. So `g` is
    a running mean over about five measurements. At an earlier one the weight
    was `w - change`, so this adds `g . change`: what training has done to the
    held-out NLL since then. While training improves it, the strength falls.
    In front of batch normalisation, where the size of a weight has no effect
    and `g . w` is zero, only this term is left. So `g` is computed with the
    statistics of the batch, as in training.

    There is one strength for each scale of a prior. A prior without an
    `initial_scale` starts from 1.4 times the root mean square of the initial
    weight: too weak a start lets a network memorize its training rows before
    the strength has grown.

    A noise that the loss learns would follow the residuals of the training
    rows. What corrects it (`NoisePrior`) follows the held-out rows as well.

    Reference: J. Luketina, M. Berglund, K. Greff, T. Raiko, *Scalable
    gradient-based tuning of continuous regularization hyperparameters*, ICML
    2016.

    Args:
        rate: step size in the logarithm of the strength. Defaults to 0.1. It
            falls to half of it during a call of `fit`, if its length is known.
        moves: number of moves in one call of `fit`, if its length is known.
    """

    def __init__(self, rate: float = 0.1, moves: int = 100):
        for name, value in (("rate", rate), ("moves", moves)):
            if not value > 0:
                raise ValueError(f"`{name}` must be > 0. Received: {value}")
        self.rate, self.moves = rate, moves

    def applies(self, site):
        return site.has_held_out

    def interval(self, site):
        if site.total_steps is None:
            return super().interval(site)
        return max(site.total_steps // self.moves, 8)

    def scale(self, site):
        prior = site.prior
        if self not in site.memory:
            site.memory[self] = {}
            size = np.sqrt(np.mean(site.weight**2))
            is_fresh = prior.initial_scale is None and np.all(site.scale == 1.0)
            return _START * size if is_fresh and size else None
        slope = site.held_out_slope
        if slope is None or not np.all(np.isfinite(slope)):
            return None
        if site.noise_slope is not None:
            # It counts more degrees of freedom while the noise is too small.
            left = site.memory[self].get("left", 1.0)
            left *= np.exp(self._step(site, "noise", site.noise_slope))
            left = site.memory[self]["left"] = float(np.clip(left, 0.05, 1.0))
            site.record(freedom=(1.0 - left) * prior.num_examples * site.share)
        move = self._step(site, "scale", slope)
        return site.scale * np.exp(-move / prior.order)

    def _step(self, site, name, slope):
        count, square = site.memory[self].get(name, (0, 0.0))
        square = _SQUARE_DECAY * square + (1 - _SQUARE_DECAY) * slope**2
        count += 1
        site.memory[self][name] = count, square
        size = np.sqrt(square / (1 - _SQUARE_DECAY**count))
        # Smaller steps at the end leave less noise in the final strengths.
        rate = self.rate * (1.0 - 0.5 * site.progress)
        return rate * slope / (size + 1e-30)
