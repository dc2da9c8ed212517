"""What every rule for the scales of a prior can do."""


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

        It is asked once, at the start of `fit`.
        """
        raise NotImplementedError

    def interval(self, site) -> int:
        """Number of training steps between two calls of `scale`."""
        return 16

    def scale(self, site):
        """The new scales, an array that broadcasts with those of the prior.

        `None` leaves them as they are. It is asked before the first step of
        `fit`, and then after every `interval` of steps.
        """
        raise NotImplementedError
