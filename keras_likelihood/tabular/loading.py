"""Reads the estimators that were saved."""

from typing import Any

import keras
import numpy as np

from keras_likelihood import likelihoods
from keras_likelihood.layers.table_features import features_of
from keras_likelihood.reading import load_model
from keras_likelihood.tabular.classifier import Classifier
from keras_likelihood.tabular.regressor import Regressor


def load(path):
    """Reads a `Regressor` or `Classifier` that `save` wrote.

    Args:
        path: the path of the `.keras` file.
    """
    return estimator_of(load_model(path))


def estimator_of(model: keras.Model):
    """The estimator whose `model` it is."""
    features = features_of(model)
    about = features.about
    kinds = {"Regressor": Regressor, "Classifier": Classifier}
    found: Any = kinds[about["estimator"]](**about["settings"])
    found.model_, found.columns_ = model, features.columns
    found.scores_ = about["scores"]
    found.likelihood_ = likelihoods.get(about["likelihood"])
    found.n_features_in_ = len(found.columns_)
    if about["has_names"]:
        names = [column.name for column in found.columns_]
        found.feature_names_in_ = np.array(names, dtype=object)
    if about["classes"]:
        found.classes_ = np.array(about["classes"])
    return found
