"""Epistemic uncertainty of a trained model, from its last layer."""

from statistics import NormalDist
from typing import Any, Self

import keras
import numpy as np

from keras_likelihood.backend.types import Array
from keras_likelihood.ensembles import EnsembleDistribution
from keras_likelihood.likelihoods import Bernoulli, Softmax
from keras_likelihood.likelihoods.checks import (
    as_weight,
    check_argument,
    check_size,
)
from keras_likelihood.reading import ModelGraph
from keras_likelihood.reading.endings import PROBABILITIES, kind_of
from keras_likelihood.reading.graphs import ClassifierGraph, predicted_of
from keras_likelihood.reading.reading import task_of_loss

__all__ = ["LastLayerLaplace"]

_NOT_LINEAR = 0.01
"""Largest share of the predictions' range that a layer may leave over."""


class Posterior:
    """Uncertain directions of the outputs, the `k` columns of `directions`.

    `share` is that of each row in the information.
    """

    def __init__(
        self, features: Array, share: Array, information: Array, axes: Array
    ) -> None:
        self.directions, self.information = axes, information
        self.centre = share @ features
        centred = features - self.centre
        moments = centred.T @ (share[:, None] * centred)
        values, self.vectors = np.linalg.eigh(moments)
        self.values = np.outer(np.maximum(values, 0.0), information)

    def variances(self, features: Array, precision: float) -> Array:
        """Variances along the directions, `(n, k)`."""
        squares = np.square((features - self.centre) @ self.vectors)
        known = self.information
        intercept = np.where(known > 1e-12 * known.max(), known, np.inf)
        return squares @ (1 / (self.values + precision)) + 1 / intercept


class LastLayerLaplace:
    """Laplace approximation of the posterior of the last layer's weights.

        variance(x) = f(x)' (H + prior_precision)^-1 f(x),
        H           = sum_i information_i f(x_i) f(x_i)'

    with the features `f` in front of the last layer, and the Fisher information
    of the predictions. The model does not change, and its prediction is the
    mean. For classes, H is the Kronecker product of the information and the
    moments of the features. Intercepts have a flat prior.

    ```python
    laplace = kl.laplace.LastLayerLaplace(model).fit(x, y)
    found = laplace.predict_distribution(x_new)
    found.interval(0.9), found.aleatoric, found.epistemic
    ```

    Args:
        model: a trained classifier, or a model with a likelihood loss or a head
            whose prediction is linear in its features, such as `ScaleHead`.
        prior_precision: precision of the prior of the weights. By default the
            one with the highest marginal likelihood.
        members: number of predictions in the mixture. Defaults to 32.
        batch_size: rows per step of prediction.

    Attributes:
        prior_precision_: the precision, after `fit`.

    References:
        D. J. C. MacKay, *The evidence framework applied to classification
        networks*, Neural Computation 1992. E. Daxberger et al., *Laplace redux:
        effortless Bayesian deep learning*, NeurIPS 2021.
    """

    def __init__(
        self,
        model: Any,
        *,
        prior_precision: float | None = None,
        members: int = 32,
        batch_size: int = 256,
    ) -> None:
        fits = prior_precision is None or prior_precision > 0
        allowed = "a number > 0, or None"
        check_argument("prior_precision", prior_precision, fits, allowed)
        check_size("members", members, 2)
        self.model = model
        self.prior_precision = prior_precision
        self.members = members
        self.batch_size = batch_size
        self._posteriors: list[Posterior] = []

    def fit(self, x: Any, y: Any = None, *, sample_weight: Any = None) -> Self:
        """Measures the information of the training rows; returns self.

        Args:
            x: inputs as for `model.predict`, or an iterable of `(x, y)` or
                `(x, y, sample_weight)` batches such as a `tf.data.Dataset`.
            y: targets, whose values do not matter. Leave them out for batches.
            sample_weight: one weight for each example, or `None`.
        """
        graph = ModelGraph(self.model, x, batched=y is None)
        self._likelihood = _prepare(graph)
        predicted = predicted_of(graph.parameters)
        self._constants = {
            name: value
            for name, value in graph.parameters.items()
            if name not in predicted
        }
        self._outputs = keras.Model(graph.graph.input, graph.tensors)
        outputs, _, weight = graph.run(x, y, sample_weight, self.batch_size)
        features, found = self._split(outputs)
        weight = as_weight(weight, (len(features),))[:, None]
        information = weight * found.information()
        if issubclass(self._likelihood, Softmax):
            p = found.class_probabilities().astype("float64")
            weight = weight / np.square(found.temperature)
            hessian = np.diag((weight * p).sum(axis=0)) - p.T @ (weight * p)
            values, axes = np.linalg.eigh(hessian)
            parts = [(information.sum(1), np.maximum(values, 0.0), axes)]
        else:
            parts = [
                (column, column.sum(keepdims=True), axis[:, None])
                for column, axis in zip(
                    information.T, np.eye(information.shape[1]), strict=True
                )
            ]
        self._posteriors = [
            Posterior(features, each / max(each.sum(), 1e-30), *others)
            for each, *others in parts
        ]
        weights = _weights(features, found.prediction)
        precision = self.prior_precision
        self.prior_precision_ = (
            self._evidence(weights) if precision is None else float(precision)
        )
        return self

    def _evidence(self, weights: Array) -> float:
        """The prior precision of the highest marginal likelihood."""
        squares = max(float(np.sum(weights**2)), 1e-12)
        values = np.concatenate([v.values.ravel() for v in self._posteriors])
        precision = 1.0
        for _ in range(200):
            effective = float(np.sum(values / (values + precision)))
            precision = float(np.clip(effective / squares, 1e-9, 1e9))
        return precision

    def predict_distribution(self, x: Any) -> Any:
        """Mixture of predictions with weights from the posterior.

        It is an `EnsembleDistribution` of NumPy arrays. `x` is as for
        `predict`.
        """
        if not self._posteriors:
            raise ValueError("Call `fit` first. Received: no fit")
        size = self.batch_size
        values = self._outputs.predict(x, batch_size=size, verbose=0)
        features, found = self._split(values)
        prediction, count = found.prediction, self.members
        shape = prediction.shape
        moves: Any = 0.0
        for posterior in self._posteriors:
            variances = posterior.variances(features, self.prior_precision_)
            nodes = _standard_normal(count, variances.shape[1])
            each = nodes * np.sqrt(variances)[:, None]
            moves = moves + each @ posterior.directions.T
        member = prediction[:, None] + moves
        values = {"member": member.reshape(len(prediction), -1)}
        for p in self._likelihood.parameters:
            inner = self._likelihood.shape_of(p.name, shape, "element")
            value = np.broadcast_to(getattr(found, p.name), (shape[0], *inner))
            values[p.name] = np.tile(value, (1, count))
        ensemble: Any = EnsembleDistribution(self._likelihood, components=count)
        values = {k: v.astype("float32") for k, v in values.items()}
        return ensemble(prediction.astype("float32"), **values).as_numpy()

    def _split(self, values: dict[str, Any]) -> tuple[Array, Any]:
        """Features, and the predicted distribution."""
        parameters = {**self._constants, **values}
        features = parameters.pop("features").astype("float64")
        return features, self._likelihood(**parameters).as_numpy()


def _weights(features: Array, prediction: Array) -> Array:
    """The weights of the last layer, and a check that there is one."""
    # Directions without data have no weights.
    centred = features - features.mean(axis=0)
    weights, *_ = np.linalg.lstsq(centred, prediction, rcond=1e-6)
    away = np.abs(prediction - prediction.mean(axis=0) - centred @ weights)
    size = np.ptp(prediction) + np.abs(prediction).max()
    share = float(away.max() / max(size, 1e-30))
    if share > _NOT_LINEAR:
        raise ValueError(
            "The prediction must be linear in the features in front of the "
            "last layer, without an activation such as relu. "
            f"Received: predictions that differ by {share:.0%} of their range"
        )
    return weights


def _prepare(graph: ModelGraph) -> Any:
    """Adds the features to the tensors of a graph; returns its likelihood."""
    kind = graph.likelihood
    task = task_of_loss(graph.loss)
    is_class = kind_of(graph.prediction) in PROBABILITIES
    if kind is None and (is_class or task == "classification"):
        classifier = ClassifierGraph(graph)
        logits = classifier.tensors["logits"]
        is_binary = classifier.multi_label or logits.shape[-1] == 1
        kind = Bernoulli if is_binary else Softmax
        graph.tensors["prediction"] = logits
    graph.tensors |= graph.features("optional")
    features = graph.tensors.get("features")
    if (
        kind is None
        or features is None
        or len(features.shape) != 2
        or kind.prediction_constraint is not None
        or (kind.event_rank and not issubclass(kind, Softmax))
    ):
        received = kind.name() if kind else "no likelihood"
        raise ValueError(
            "`model` must be a classifier, or have a likelihood loss or a head "
            "whose prediction is linear in features of shape (batch, columns). "
            f"Received: {received} and "
            f"{'no' if features is None else tuple(features.shape)} features"
        )
    return kind


def _standard_normal(count: int, columns: int) -> Array:
    """Nodes `(count, columns)` of mean 0 and, if they suffice, variance 1."""
    if columns == 1:
        levels = (np.arange(count) + 0.5) / count
        nodes = np.array([[NormalDist().inv_cdf(p)] for p in levels])
        return nodes / nodes.std()
    half = np.random.default_rng(0).standard_normal((count // 2, columns))
    if len(half) >= columns:
        half = np.linalg.qr(half)[0] * np.sqrt(len(half))
    middle = np.zeros((count % 2, columns))
    return np.concatenate([half, middle, -half])
