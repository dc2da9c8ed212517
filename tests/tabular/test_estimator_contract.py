"""The scikit-learn contract, by scikit-learn's own checks."""

import keras
import numpy as np
import pytest
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

import keras_likelihood as kl

if keras.backend.backend() != "torch":
    pytest.skip(
        "compiles for every shape; one backend is enough",
        allow_module_level=True,
    )

WEIGHTS = (
    "networks see batches of rows, so a weight of 2 is the row twice only on "
    "average"
)
FAILS = {
    "check_sample_weight_equivalence_on_dense_data": WEIGHTS,
    "check_sample_weights_invariance": WEIGHTS,
}


# These checks train on the same rows three times: as given, from read-only
# memory, and from read-only memory with 32 bits. The last one covers all that
# may go wrong in the others.
THREE_TIMES = {"check_classifiers_train", "check_regressors_train"}
LAST = {"readonly_memmap": True, "X_dtype": "float32"}


def cases():
    settings = {"members": 2, "epochs": 4, "random_state": 0}
    for kind in (kl.tabular.Regressor, kl.tabular.Classifier):
        for case in estimator_checks_generator(
            kind(**settings), expected_failed_checks=FAILS, mark="xfail"
        ):
            estimator, check = getattr(case, "values", case)
            name, options = check.func.__name__, check.keywords
            if name in THREE_TIMES and not LAST.items() <= options.items():
                continue
            yield pytest.param(
                estimator,
                check,
                marks=getattr(case, "marks", ()),
                id=f"{kind.__name__}-{name}{options or ''}",
            )


@pytest.mark.parametrize("estimator, check", [*cases()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_pipeline_and_cross_validation():
    x = np.random.default_rng(0).normal(size=(60, 2))
    model = make_pipeline(
        StandardScaler(),
        kl.tabular.Regressor(members=2, epochs=10, random_state=0),
    )
    assert np.mean(cross_val_score(model, x, 3 * x[:, 0], cv=2)) > 0.3
