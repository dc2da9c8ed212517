"""Any fitted likelihood model as an outlier detector."""

import keras
import numpy as np

from keras_likelihood.models import LikelihoodModel
from keras_likelihood.outliers.detector import OutlierDetector

_SCORES = ("scale", "temperature")


class ScoreDetector(OutlierDetector):
    """Scores an example by the likelihood parameter a model has for it.

        score = mean over elements of log parameter

    `fit` does not train: it scores the examples it is given and sets the
    threshold. With a `DataParameter` the scores are its learned values, which
    belong to the training examples; there are none for others.

    >>> detector = ScoreDetector(model).fit(x_train)
    >>> suspicious = detector.decision_scores_.argsort()[::-1][:20]

    Args:
        model: a fitted, compiled `LikelihoodModel`.
        parameter: its name. Defaults to the scale, or the temperature.
        contamination: share of outliers, in (0, 0.5]. Defaults to 0.1.
        batch_size: of the prediction. Defaults to 256.
    """

    def __init__(
        self,
        model,
        *,
        parameter: str | None = None,
        contamination: float = 0.1,
        batch_size: int = 256,
    ):
        super().__init__(contamination=contamination)
        self.model = model
        self.parameter = parameter
        self.batch_size = batch_size

    def _check(self, x, reset):
        # Images and other arrays: the model knows what it takes.
        if len(x) == 0:
            raise ValueError("`X` must have examples. Received: none")
        return x

    def _fit(self, x):
        name = self._name()
        data = self.model.data_parameters.get(name)
        if data is None:
            return self._score(x)
        if len(x) != data.num_examples:
            raise ValueError(
                f"The {name} belongs to the {data.num_examples} training "
                f"examples; fit to these. Received: {len(x)} examples"
            )
        return _mean_log(data.values())

    def _score(self, x):
        name = self._name()
        if name in self.model.data_parameters:
            raise ValueError(
                f"A data {name} is known for training examples alone, in "
                "`decision_scores_`; predict it with a head to score others. "
                f"Received: {len(x)} examples"
            )
        fitted = self.model.predict_distribution(
            x, batch_size=self.batch_size, verbose=0
        )
        values = keras.ops.convert_to_numpy(getattr(fitted, name))
        if values.ndim == 0 or values.shape[0] != len(x):
            raise ValueError(
                f"The model must predict its {name} for each example, as a "
                f"head does. Received: one {name} for all"
            )
        return _mean_log(values)

    def _name(self):
        if not isinstance(self.model, LikelihoodModel):
            raise ValueError(
                "`model` must be a LikelihoodModel. "
                f"Received: {type(self.model).__name__}"
            )
        loss = getattr(self.model, "loss", None)
        likelihood = getattr(loss, "likelihood", None)
        if likelihood is None:
            raise ValueError(
                "`model` must be compiled with one likelihood loss. "
                f"Received: loss={loss}"
            )
        names = [p.name for p in likelihood.parameters]
        known = [self.parameter] if self.parameter else _SCORES
        for name in known:
            if name in names:
                return name
        raise ValueError(
            f"`parameter` must be one of {names}. Received: {self.parameter!r}"
        )


def _mean_log(values):
    logs = np.log(np.asarray(values, "float64"))
    return logs.reshape(len(logs), -1).mean(axis=1)
