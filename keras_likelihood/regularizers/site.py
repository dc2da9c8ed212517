"""One regularized weight, as a rule sees it."""

import numpy as np

from keras_likelihood.likelihoods.checks import to_float64


class Site:
    """One weight, its prior, and measurements of both.

    All values are NumPy arrays, measured on demand.

    Args:
        variable: the `keras.Variable` of the weight.
        learner: the `LearnScales` that calls the rules.

    Attributes:
        variable: the weight, a `keras.Variable`.
        prior: its `AdaptiveRegularizer`.
        memory: dict for the state of a rule, per weight.
        freedom: the last recorded degrees of freedom.
    """

    def __init__(self, variable, learner):
        self.variable = variable
        self.prior = variable.regularizer
        self.memory: dict = {}
        self.freedom = 0.0
        self._changes: list = []
        self._learner = learner
        self._scale = None

    @property
    def weight(self):
        """The weight as a float64 array."""
        return to_float64(self.variable)

    @property
    def scale(self):
        """The present scales of the prior, a float64 array."""
        if self._scale is None:
            self._scale = self.prior.scale().astype("float64")
        return self._scale

    @scale.setter
    def scale(self, scale):
        # Reading it back would wait until an accelerator ends all its steps.
        self._scale = np.broadcast_to(scale, self.scale.shape)
        self._changes.append((self.prior.log_scale, self.prior.stored(scale)))

    def take_changes(self) -> list:
        """Pairs of variables and their new values, each returned once."""
        changes, self._changes = self._changes, []
        return changes

    def forget_scale(self):
        """Reads the scales again, as something else may have set them."""
        self._scale = None

    @property
    def step(self) -> int:
        """Number of training steps so far."""
        return self._learner.step

    @property
    def total_steps(self) -> int | None:
        """Number of steps of this `fit`, `None` if it is not known."""
        return self._learner.total_steps

    @property
    def progress(self) -> float:
        """Share of the steps of this `fit` that are done, 0 if not known."""
        return self._learner.progress

    @property
    def has_held_out(self) -> bool:
        """Whether there are held-out rows."""
        return self._learner.measurements.has_held_out

    @property
    def held_out_slope(self):
        """`g . pull` for each scale, or `None` before the first result.

        `g` is the gradient of the NLL of held-out rows with respect to the
        weight, averaged over the last measurements, and `pull` that of the
        prior. It is the result of the previous measurement, so that the host
        does not wait for an accelerator.
        """
        return self._slopes()[0]

    @property
    def noise_slope(self) -> float | None:
        """The same for a learned noise, up to a positive factor."""
        return self._slopes()[1]

    def _slopes(self):
        measured = self._learner.measurements
        return measured.held_out_slopes(self.variable, self.step)

    @property
    def share(self) -> float:
        """Share of this weight in the entries of all regularized weights."""
        return self._learner.share_of(self)

    @property
    def has_curvature(self) -> bool:
        """Whether the curvature can be measured."""
        return self._learner.measurements.has_curvature

    @property
    def curvature(self):
        """`Curvature` of the whole NLL with respect to the weight.

        `None` if it is zero or not finite.
        """
        return self._learner.measurements.curvature(self.variable, self.step)

    def record(self, *, freedom: float, precision: float | None = None):
        """Saves measurements in the prior, for `report` and `prune`.

        Args:
            freedom: degrees of freedom that the weight uses. A learned noise
                is corrected for them (see `NoisePrior`).
            precision: inverse variance of a single entry.
        """
        self.freedom = freedom
        self._changes.append((self.prior.freedom, np.float32(freedom)))
        if precision is not None:
            found = np.float32(np.log(precision))
            self._changes.append((self.prior.log_precision, found))
