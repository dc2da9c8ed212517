"""Which examples train the prediction when scales differ."""

import functools

import numpy as np
import pytest
from keras import ops
from scipy import stats

import keras_likelihood as kl
from tests import oracles
from tests.autodiff import gradients
from tests.contracts import as_numpy

LIKELIHOODS = {
    "normal": ({}, stats.norm),
    "laplace": ({}, stats.laplace),
    "cauchy": ({"likelihood": "student_t", "df": 1.0}, stats.cauchy),
    "student_t": ({"df": 4.0}, stats.t(4)),
    "robust_rho": ({"shape": 1.0}, None),
}
SCALES = np.array([0.1, 1.0, 10.0])


def loss_of(name, **options):
    given = {"likelihood": name, **LIKELIHOODS[name][0], **options}
    return kl.losses.LocationScaleLoss(reduction=None, dtype="float64", **given)


@functools.cache
def residuals_of(name, count=1000):
    """Equally likely residuals of the likelihood at scale 1."""
    oracle = LIKELIHOODS[name][1]
    share = (np.arange(count) + 0.5) / count
    if oracle is not None:
        return oracle.ppf(share)
    distribution = kl.likelihoods.RobustRho(
        ops.zeros((count, 1), dtype="float64"), **LIKELIHOODS[name][0]
    )
    return as_numpy(distribution.quantile(share[:, None]))[:, 0]


def pulls(loss, residuals, scale):
    """Gradient of the terms w.r.t. the prediction; the targets are 0."""
    y = np.zeros((len(residuals), 1))
    scales = np.full_like(y, scale)
    (found,) = gradients(lambda p: loss(y, (p, scales)), residuals[:, None])
    return found[:, 0]


@pytest.mark.parametrize(
    "name, pull", [("normal", lambda r: r), ("laplace", np.sign)]
)
def test_each_pull_is_free_of_the_scale(name, pull, double_precision):
    """As under squared and under absolute error, for every residual."""
    residuals = np.array([-3.0, -0.01, 0.0, 0.5, 40.0])
    for scale in SCALES:
        found = pulls(loss_of(name, beta=1.0), residuals, scale)
        np.testing.assert_allclose(found, pull(residuals), atol=1e-12)


def expected_square(name, scale, beta=1.0):
    loss = loss_of(name, beta=beta)
    return np.mean(pulls(loss, residuals_of(name), scale) ** 2)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_the_expected_pull_is_free_of_the_scale(name, double_precision):
    """To first order, where the scale is that of the residuals."""
    wide, narrow = np.exp([0.05, -0.05])

    def slope(beta):
        ratio = expected_square(name, wide, beta) / expected_square(
            name, narrow, beta
        )
        return 0.5 * np.log(ratio) / np.log(wide / narrow)

    assert abs(slope(1.0)) < 5e-3
    assert slope(0.0) < -0.9


@pytest.mark.parametrize("df", [0.5, 4.0, 100.0])
def test_student_t_weight_in_closed_form(df, double_precision):
    second, third = oracles.score_moments(
        lambda z: oracles.STANDARD_NLL["student_t"](z, df)
    )
    expected = 0.5 + 0.5 * third / second
    assert 2 * (df + 2) / (df + 5) == pytest.approx(expected, rel=1e-6)
    loss = loss_of("student_t", df=df, beta=0.5)
    prediction = ops.zeros((3, 1), dtype="float64")
    scale = ops.convert_to_tensor(SCALES[:, None])
    weight = loss.prediction_weight(loss.distribution((prediction, scale)))
    np.testing.assert_allclose(
        as_numpy(weight), SCALES[:, None] ** (0.5 * expected), rtol=1e-6
    )


def test_weights_are_constants(double_precision):
    """Neither the scale nor the shape is trained through the weight."""
    y = np.array([[0.5], [-2.0]])
    shape, scale = np.array([[0.5], [1.5]]), np.array([[0.3], [4.0]])

    def by(beta):
        loss = kl.losses.RobustRhoLoss(
            beta=beta, reduction=None, dtype="float64"
        )
        weight = loss.prediction_weight(
            kl.likelihoods.RobustRho(
                ops.convert_to_tensor(y), shape=shape, scale=scale
            )
        )
        found = gradients(lambda *o: loss(y, o), np.zeros_like(y), shape, scale)
        return [g / as_numpy(weight) for g in found]

    for weighted, plain in zip(by(1.0), by(0.0), strict=True):
        np.testing.assert_allclose(weighted, plain)
