"""Scales that follow the likelihood of held-out rows."""

import numpy as np

from keras_likelihood.regularizers.rules.scale_rule import ScaleRule

_DECAY, _SQUARE_DECAY = 0.9, 0.99
_START = 1.4


class HeldOut(ScaleRule):
    """Follows the gradient of the held-out NLL (Luketina et al., 2016).

    A step of training with the strength `lambda` moves a weight by
    `-rate * lambda * p`, where `p` is the pull of its prior: `w` for L2 and
    `sign(w)` for L1. To first order, the NLL of held-out rows, with the
    gradient `g`, changes with the strength by

        d NLL / d log(lambda) = -rate * lambda * (g . p)

    So the logarithm of the strength follows Adam on `-(g . p)`: it grows
    where the held-out rows would like smaller weights. At rest, the size of
    the weight is best for the held-out rows. There is one strength for each
    scale of a prior. A prior without an `initial_scale` starts from 1.4 times
    the root mean square of the initial weight: too weak a start lets a network
    learn its training rows by heart before the strength has grown.

    A noise that the loss learns would follow the residuals of the training
    rows. What corrects it (`NoisePrior`) follows the held-out rows as well.

    Reference: J. Luketina, M. Berglund, K. Greff, T. Raiko, *Scalable
    gradient-based tuning of continuous regularization hyperparameters*, ICML
    2016.

    Args:
        rate: step size in the logarithm of the strength. Defaults to 0.1.
        moves: number of moves in one call of `fit`, if its length is known.
    """

    def __init__(self, rate: float = 0.1, moves: int = 100):
        for name, value in (("rate", rate), ("moves", moves)):
            if not value > 0:
                raise ValueError(f"`{name}` must be > 0. Received: {value}")
        self.rate = rate
        self.moves = moves

    def applies(self, site):
        return site.has_held_out

    def interval(self, site):
        if site.total_steps is None:
            return super().interval(site)
        return max(site.total_steps // self.moves, 8)

    def scale(self, site):
        if self not in site.memory:
            site.memory[self] = {}
            return self._start(site)
        slope = site.held_out_slope
        if slope is None or not np.all(np.isfinite(slope)):
            return None
        if site.noise_slope is not None:
            self._correct_noise(site)
        move = self._adam(site, "scale", slope)
        return site.scale * np.exp(-move / site.prior.order)

    def _correct_noise(self, site):
        """Counts more degrees of freedom while the noise is too small."""
        left = site.memory[self].get("left", 1.0)
        left *= np.exp(self._adam(site, "noise", site.noise_slope))
        left = site.memory[self]["left"] = float(np.clip(left, 0.05, 1.0))
        examples = site.prior.num_examples * site.share
        site.record(freedom=(1.0 - left) * examples)

    def _adam(self, site, name, slope):
        """A step of Adam along a slope, of about the size `rate`."""
        count, mean, square = site.memory[self].get(name, (0, 0.0, 0.0))
        count += 1
        mean = _DECAY * mean + (1 - _DECAY) * slope
        square = _SQUARE_DECAY * square + (1 - _SQUARE_DECAY) * slope**2
        site.memory[self][name] = count, mean, square
        mean = mean / (1 - _DECAY**count)
        square = square / (1 - _SQUARE_DECAY**count)
        return self.rate * mean / (np.sqrt(square) + 1e-30)

    def _start(self, site):
        size = np.sqrt(np.mean(site.weight**2))
        is_fresh = np.all(site.scale == 1.0)
        if site.prior.initial_scale is not None or not is_fresh or not size:
            return None
        return _START * size
