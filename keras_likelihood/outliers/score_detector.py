"""Uses a fitted likelihood model as an outlier detector."""

import dataclasses
from typing import Any

import numpy as np
from scipy.special import logsumexp

from keras_likelihood.backend.types import Array
from keras_likelihood.likelihoods.checks import check_argument
from keras_likelihood.outliers.detector import OutlierDetector
from keras_likelihood.reading import read_output
from keras_likelihood.reading.endings import PROBABILITIES
from keras_likelihood.reading.graphs import ClassifierGraph
from keras_likelihood.reading.reading import per_example, task_of_loss


@dataclasses.dataclass(eq=False, repr=False)
class ScoreDetector(OutlierDetector):
    """Scores an example by its likelihood parameter in a model.

        score = mean over elements of log parameter

    The score is the logarithm of the score of `kl.audit`. A stock classifier,
    such as a softmax network, has no such parameter. It is scored by its
    logits z, of which inputs unlike the training data have smaller ones:

        energy:    -log sum_c exp(z_c)    (Liu et al. 2020)
        max_logit: -max_c z_c             (Hendrycks et al. 2022)

    `fit` does not train. It scores the given examples and sets the threshold.
    With a `DataParameter` the scores are its learned values, which exist only
    for the training examples.

    ```python
    detector = ScoreDetector(model).fit(x_train)
    suspicious = detector.decision_scores_.argsort()[::-1][:20]
    ```

    Args:
        model: a fitted, compiled `LikelihoodModel`, a model that ends in a
            head, or the path of a `.keras` file of one.
        parameter: name of the parameter. Defaults to the scale, or the
            temperature. `"energy"` and `"max_logit"` score a classifier by its
            logits. Defaults to `"energy"` for a stock classifier.
        contamination: share of outliers, in (0, 0.5]. Defaults to 0.1.
        batch_size: the batch size for prediction. Defaults to 256.
    """

    model: Any
    _: dataclasses.KW_ONLY
    parameter: str | None = None
    batch_size: int = 256

    def _check(self, x: Array, reset: bool) -> Array:
        # Images and other arrays are allowed. The model checks its inputs.
        fits, allowed = len(x) > 0, "an array with at least one example"
        check_argument("X", "0 examples", fits, allowed)
        return x

    def _fit(self, x: Array) -> Any:
        return self._score(x, training=True)

    def _score(self, x: Array, training: bool = False) -> Any:
        if self.parameter in _OF_LOGITS:
            return self._score_logits(x, self.parameter)
        reading = read_output(self.model, x, batch_size=self.batch_size)
        if reading.likelihood is None:
            if reading.kind in PROBABILITIES or (
                task_of_loss(reading.loss) == "classification"
            ):
                return self._score_logits(x, self.parameter or "energy")
            raise ValueError(
                "`model` must be a classifier, a LikelihoodModel that is "
                "compiled with one likelihood loss, or end in a head. "
                f"Received: loss={reading.loss}"
            )
        found = {p.name: p.values for p in reading.parameters}
        name = self.parameter or reading.uncertainty_parameter
        allowed = f"one of {list(found)}"
        check_argument("parameter", self.parameter, name in found, allowed)
        data = reading.data_parameters.get(name)
        if data is not None and not (training and len(x) == data.num_examples):
            raise ValueError(
                f"A data {name} exists only for the {data.num_examples} "
                "training examples. Pass these to `fit`. To score others, "
                f"predict the {name} with a head. Received: {len(x)} examples"
            )
        values = found[name]
        if np.ndim(values) == 0 or len(values) != len(reading.prediction):
            raise ValueError(
                f"The model must predict its {name} for each example, as a "
                f"head does. Received: one {name} for all"
            )
        return np.log(per_example(values))

    def _score_logits(self, x: Array, name: str) -> Array:
        fits, allowed = name in _OF_LOGITS, f"one of {_OF_LOGITS}"
        check_argument("parameter", name, fits, allowed)
        graph = ClassifierGraph(self.model, x)
        logits, *_ = graph.outputs(x, x, None, self.batch_size)
        z = logits.astype("float64").reshape(len(x), -1)
        if z.shape[1] == 1:
            z = np.concatenate([0 * z, z], axis=1)
        if name == "max_logit":
            return -z.max(axis=1)
        energy = -logsumexp(z, axis=1)
        fits = abs(energy).max() >= 1e-4
        allowed = "'max_logit' for a model that has only probabilities"
        check_argument("parameter", self.parameter, fits, allowed)
        return energy


_OF_LOGITS = ("energy", "max_logit")
