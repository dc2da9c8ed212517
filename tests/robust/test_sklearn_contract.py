"""The scikit-learn contract, by scikit-learn's own checks."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from keras_likelihood.robust import (
    DataScaleRegressor,
    PredictedScaleRegressor,
    RobustPCA,
)

pytestmark = pytest.mark.one_backend


@parametrize_with_checks(
    [
        PredictedScaleRegressor(),
        PredictedScaleRegressor("x"),
        DataScaleRegressor(),
        RobustPCA(),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
