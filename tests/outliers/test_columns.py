"""Columns of any magnitude, and the progress of the training."""

import numpy as np
import pytest

from keras_likelihood.outliers import AutoencoderScale, PCAScale
from keras_likelihood.outliers.scale_detector import measure, standardise


def table(rows=60):
    random = np.random.default_rng(0)
    x = random.normal(size=(rows, 4)) * [1, 1e-9, 1e9, 5]
    x[3] *= 20
    return x


def quick(detector=PCAScale):
    return detector(steps=5, batch_size=16, random_state=0)


@pytest.mark.few(0)
@pytest.mark.usefixtures("step_by_step")
@pytest.mark.parametrize(
    "detector, cell",
    # Both detectors use the same code to standardise columns.
    [(PCAScale, -1e200), (PCAScale, 1.7e308), (AutoencoderScale, 1e200)],
)
def test_a_huge_cell_is_the_first_outlier(detector, cell):
    x = table()
    x[17, 2] = cell
    fitted = quick(detector).fit(x)
    assert fitted.decision_scores_.argmax() == 17
    assert np.isfinite(fitted.decision_scores_).all()
    np.testing.assert_allclose(
        fitted.decision_function(x), fitted.decision_scores_, rtol=1e-4
    )
    p = fitted.predict_proba(x)
    assert np.isfinite(p).all()
    assert p[17, 1] == 1.0


@pytest.mark.few(0)
@pytest.mark.usefixtures("step_by_step")
def test_new_rows_may_hold_huge_cells_too(tmp_path):
    x = table()
    fitted = quick().fit(x)
    new = np.concatenate([x[:5], x[:2]])
    new[5, 1], new[6, 1] = 1e100, -1e200
    fitted.save(tmp_path / "detector.zip")
    for detector in (fitted, PCAScale.load(tmp_path / "detector.zip")):
        scores = detector.decision_function(new)
        assert np.argsort(-scores)[:2].tolist() == [6, 5]


@pytest.mark.few(0)
@pytest.mark.usefixtures("step_by_step")
@pytest.mark.parametrize("constant", [0.0, 7.0, 1e9 / 3])
def test_a_constant_column_that_changes_is_an_outlier(constant, tmp_path):
    x = np.column_stack([table(), np.full(60, constant)])
    fitted = quick().fit(x)
    fitted.save(tmp_path / "detector.zip")
    new = x[:4].copy()
    new[2, -1] += 1.0 + 0.1 * abs(constant)
    for detector in (fitted, PCAScale.load(tmp_path / "detector.zip")):
        scores = detector.decision_function(new)
        assert scores.argmax() == 2 and detector.predict(new)[2] == 1
        known = fitted.decision_scores_[[0, 1, 3]]
        np.testing.assert_allclose(scores[[0, 1, 3]], known, rtol=1e-4)


def test_ordinary_columns_get_mean_zero_and_deviation_one():
    x = table()
    z, excess = standardise(x, measure(x))
    expected = (x - x.mean(axis=0)) / x.std(axis=0)
    np.testing.assert_allclose(z, expected, rtol=1e-6, atol=1e-7)
    assert not excess.any()


@pytest.mark.parametrize(
    "column",
    [
        [0.0, 0.0, 0.0, 0.0, 1e200],
        [1e308, -1e308, 1e308, -1e308, 0.0],
        [1e-300, 2e-300, 3e-300, 4e-300, 1e300],
    ],
)
def test_any_finite_column_stays_finite(column):
    x = np.array(column)[:, None]
    found = measure(x)
    assert found["kept"].all()
    z, excess = standardise(x, found)
    assert np.isfinite(z).all() and z.std() > 0.1
    assert np.isfinite(excess).all()


@pytest.mark.usefixtures("step_by_step")
def test_wide_tables_have_a_bounded_code():
    x = np.random.default_rng(0).normal(size=(8, 1200))
    fitted = PCAScale(steps=1, batch_size=4, random_state=0).fit(x)
    assert fitted.model_.count_params() < 2 * 1200 * 256 + 70 * 1200 + 10_000
