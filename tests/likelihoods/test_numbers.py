"""All functions of all scalar likelihoods and wrappers, by brute force."""

import keras
import numpy as np
import pytest
from scipy import special

from keras_likelihood import likelihoods
from tests import oracles
from tests.contracts import LIKELIHOODS, as_numpy

ANY = [0.0, -3.0, 250.0, 1.5]
BASES = {
    "normal": (ANY, {"scale": [1.0, 0.02, 40.0, 1e-3]}),
    "laplace": (ANY, {"scale": [1.0, 0.02, 40.0, 1e-3]}),
    "logistic": (ANY, {"scale": [1.0, 0.02, 40.0, 1e-3]}),
    "student_t": (
        ANY,
        {"df": [4.0, 2.5, 60.0, 3.0], "scale": [1.0, 0.02, 40.0, 1.0]},
    ),
    "huber": (
        ANY,
        {"threshold": [1.345, 0.1, 6.0, 2.0], "scale": [1.0, 0.02, 40.0, 1.0]},
    ),
    "robust_rho": (
        ANY,
        {"shape": [1.0, 0.5, 2.6, 2.0], "scale": [1.0, 0.02, 40.0, 1.0]},
    ),
    "exponential": ([1.0, 1e-3, 500.0, 7.0], {}),
    "gamma": ([1.0, 1e-3, 500.0, 7.0], {"shape": [0.3, 2.0, 300.0, 1.0]}),
    "weibull": ([1.0, 1e-3, 500.0, 7.0], {"shape": [0.7, 2.0, 30.0, 1.0]}),
    "log_normal": ([1.0, 1e-3, 500.0, 7.0], {"scale": [1.0, 0.05, 0.3, 2.0]}),
    "beta": ([0.5, 0.1, 0.97, 0.6], {"concentration": [2.0, 30.0, 500.0, 5.0]}),
    "von_mises": ([0.0, 3.0, -1.0, 0.5], {"concentration": [1, 0.05, 300, 8]}),
    "poisson": ([3.0, 0.01, 60.0, 900.0], {}),
    "negative_binomial": (
        [3.0, 0.1, 60.0, 20.0],
        {"dispersion": [0.5, 3.0, 0.01, 5.0]},
    ),
}
"""Predictions and parameters of each likelihood, ordinary and extreme."""
LEVELS = np.array([1e-3, 0.1, 0.5, 0.8, 0.999], "float32")


def cases(prediction, parameters):
    for i, at in enumerate(prediction):
        yield at, {name: values[i] for name, values in parameters.items()}


def plain(name):
    prediction, parameters = BASES[name]
    found = [oracles.brute(name, at, **p) for at, p in cases(*BASES[name])]
    return name, prediction, parameters, found


def truncated(name, prediction, parameters, low=-np.inf, high=np.inf):
    ends = {"low": low, "high": high}
    text = ",".join(f"{k}={v}" for k, v in ends.items() if np.isfinite(v))
    found = [
        oracles.brute(name, at, **p).truncated(low, high)
        for at, p in cases(prediction, parameters)
    ]
    return f"truncated({name},{text})", prediction, parameters, found


def rounded(name, prediction, parameters, step):
    found = [
        oracles.brute(name, at, **p).rounded(step)
        for at, p in cases(prediction, parameters)
    ]
    return f"rounded({name},step={step})", prediction, parameters, found


def logged(name, prediction, parameters):
    found = [
        oracles.brute(name, np.log(at), **p).transformed(
            np.log, lambda u: np.exp(u[np.abs(u) < 150]), lambda y: -np.log(y)
        )
        for at, p in cases(prediction, parameters)
    ]
    return f"transformed({name},log)", prediction, parameters, found


def mixture(name, prediction, logit, offset, **parameters):
    found = []
    for i, at in enumerate(prediction):
        weights = special.softmax(logit[i])
        parts = []
        for j, weight in enumerate(weights):
            shift = offset[i][j] - np.dot(weights, offset[i])
            values = {k: v[i][j] for k, v in parameters.items()}
            part = oracles.brute(name, at + shift, **values)
            parts.append((np.log(weight), lambda m, s=shift: m + s, part))
        found.append(part.mixed(parts))
    parameters |= {"logit": logit, "offset": offset}
    return f"mixture({name},components=2)", prediction, parameters, found


TWO = [[0, 0], [3, 0], [-2, 1], [0, 4]]
APART = [[-1, 1], [0, 0], [5, -5], [0, 0.3]]
SCALES = [[0.1, 0.1], [1, 0.02], [0.5, 3], [2, 1e-3]]
UNIT = {"scale": [1.0, 1.0, 0.15, 0.05]}
WRAPPED = {
    "far": lambda: truncated("normal", [-12, -60, 4.65, -5], UNIT, low=0.0),
    "both": lambda: truncated("normal", [0, 5, 4.65, 1], UNIT, -1.0, 2.0),
    "laplace": lambda: truncated("laplace", [-5, 2, 0.3, -5], UNIT, low=0.0),
    "logistic": lambda: truncated("logistic", [9, 2, 0, 4], UNIT, high=1.0),
    "heavy": lambda: truncated(
        "student_t", [-9, 0], {"scale": [1, 0.05], "df": [3, 2.5]}, low=0.0
    ),
    "rho": lambda: truncated(
        "robust_rho", [-9, 0], {"scale": [1, 0.05], "shape": [1, 3]}, low=0.0
    ),
    "gamma": lambda: truncated(
        "gamma", [1, 0.1, 9, 2], {"shape": [2, 1, 0.5, 40]}, low=2.0
    ),
    "beta": lambda: truncated(
        "beta", [0.5, 0.01, 0.9, 0.4], {"concentration": [2, 50, 9, 30]}, 0.625
    ),
    "counts": lambda: truncated("poisson", [3, 0.01, 40, 700], {}, low=1.0),
    "both counts": lambda: truncated("poisson", [3, 90, 9, 2], {}, 2.0, 11.0),
    "many": lambda: truncated(
        "negative_binomial", [3, 9, 90, 1], {"dispersion": [2, 9, 1, 4]}, 1.0
    ),
    "rounded": lambda: rounded("normal", [0.2, 7.3, -2, 30], UNIT, 1.0),
    "rounded laplace": lambda: rounded("laplace", [0.2, 7.3, -2, 3], UNIT, 0.5),
    "rounded positive": lambda: rounded(
        "gamma", [1, 0.4, 9, 20], {"shape": [2, 1, 3, 40]}, 1.0
    ),
    "log": lambda: logged("normal", [1, 0.2, 30, 2], UNIT),
    "log laplace": lambda: logged(
        "laplace", [1, 0.2, 30, 2], {"scale": [0.3, 0.1, 0.4, 0.05]}
    ),
    "log logistic": lambda: logged(
        "logistic", [1, 0.2, 30, 2], {"scale": [0.3, 0.1, 0.4, 0.05]}
    ),
    "log huber": lambda: logged(
        "huber",
        [1, 0.2, 30],
        {"threshold": [2, 1, 3], "scale": [0.3, 0.1, 0.4]},
    ),
    "log rho": lambda: logged(
        "robust_rho", [1, 0.2, 30], {"shape": [1.5, 2, 3], "scale": [0.3, 1, 1]}
    ),
    "mixture": lambda: mixture("normal", ANY, TWO, APART, scale=SCALES),
    "mixed laplace": lambda: mixture("laplace", ANY, TWO, APART, scale=SCALES),
    "mixed t": lambda: mixture(
        "student_t", ANY, TWO, APART, scale=SCALES, df=[[3, 9]] * 4
    ),
}


def nested(outer, low, high=np.inf):
    """A truncated wrapper."""
    name, prediction, parameters, found = WRAPPED[outer]()
    ends = f"low={low}" + (f",high={high}" if np.isfinite(high) else "")
    found = [one.truncated(low, high) for one in found]
    return f"truncated({name},{ends})", prediction, parameters, found


def rounded_truncated():
    name, prediction, parameters, found = WRAPPED["both"]()
    for one, at in zip(found, prediction, strict=True):
        one.centre = at
    found = [one.rounded(0.5) for one in found]
    return f"rounded({name},step=0.5)", prediction, parameters, found


NESTED = {
    "truncated mixture": lambda: nested("mixture", -0.5, 400.0),
    "truncated twice": lambda: nested("far", 0.01, 3.0),
    "truncated rounded": lambda: nested("rounded", -3.0, 31.0),
    "truncated log": lambda: nested("log", 0.5, 40.0),
    "rounded truncated": rounded_truncated,
}
ALL = {
    **{name: lambda name=name: plain(name) for name in BASES},
    **WRAPPED,
    **NESTED,
}
FAR = ("far", "laplace", "both", "logistic", *NESTED)
# Compilation is the slow part, and the arithmetic is the same.
TESTED = sorted(ALL) if keras.backend.backend() == "torch" else sorted(ALL)[::4]


def outcomes(one, prediction):
    """Outcomes near the levels, float32, of one `Brute`."""
    y, p = one.shares(prediction)
    index = np.searchsorted(np.cumsum(p), np.clip(LEVELS, 0, 1 - 1e-9))
    return y[np.minimum(index, len(y) - 1)].astype("float32")


@pytest.mark.few(0)
@pytest.mark.parametrize("case", TESTED)
def test_every_number_is_that_of_brute_force(case):
    name, prediction, parameters, found = ALL[case]()
    rows = [np.float32(p) for p in prediction]
    column = np.array(rows)[:, None]
    values = {
        k: np.asarray(v, "float32").reshape(len(rows), -1)
        for k, v in parameters.items()
    }
    made = likelihoods.get(name)(column, **values)
    y = np.stack([outcomes(*pair) for pair in zip(found, rows, strict=True)], 1)
    y = y[..., None]
    nll, below, above = (
        as_numpy(method(y))
        for method in (made.nll, made.log_cdf, made.log_survival)
    )
    quantiles = as_numpy(made.quantile(LEVELS))
    mean, variance = as_numpy(made.mean()), as_numpy(made.variance())
    information = as_numpy(made.information())
    assert quantiles.shape == (len(LEVELS), len(rows), 1)
    for i, (one, at) in enumerate(zip(found, np.float64(rows), strict=True)):
        # Far from the prediction a float32 logarithm has few digits.
        few = 3e-3 if case in FAR else 1e-4
        scale = 0.3 * few * (1 + abs(one.nll(float(y[2, i, 0]), at)))
        for j, outcome in enumerate(y[:, i, 0].astype("float64")):
            where = f"{name} at {at}, outcome {outcome}"
            # A float32 outcome far out has only a few digits.
            slack = _slack(one, outcome, at)
            close(nll[j, i, 0], one.nll(outcome, at), scale + slack, where)
            tails = one.log_tails(outcome, at)
            for ours, true in zip((below, above), tails, strict=True):
                if true > -80:
                    error = 3e-5 * (1 + abs(true)) + slack + scale
                    close(ours[j, i, 0], true, error, where)
        expected = one.moments(at)
        digits = 1e-3 * few * np.sqrt(expected[1])
        for p, q in zip(LEVELS, quantiles[:, i, 0], strict=True):
            found_level = _is_quantile(one, float(q), float(p), at, digits)
            assert found_level, (name, at, p, q)
        if case != "von_mises":
            error = few * np.sqrt(expected[1]) + 1e-6 * abs(expected[0])
            close(mean[i, 0], expected[0], error, f"mean of {name} at {at}")
        error = 2e-3 * expected[1] + 1e-12
        close(variance[i, 0], expected[1], error, f"variance of {name} at {at}")
        error = 1e-4 / (expected[1] + 1e-12)
        expected = one.information(at)
        close(
            *(information[i, 0], expected, error + 3e-3 * expected),
            f"information of {name} at {at}",
        )


def close(found, expected, error, where):
    assert abs(found - expected) <= error, (where, found, expected)


def _slack(one, outcome, prediction):
    """Change of the NLL within the precision of float32."""
    if one.step:
        return 0.0
    ulp = 4 * np.spacing(np.float32(max(abs(outcome), abs(prediction))))
    with np.errstate(all="ignore"):
        moved = [one.nll(outcome + s, prediction) for s in (-ulp, ulp)]
    moved = [m for m in moved if np.isfinite(m)]
    return max(
        (abs(m - one.nll(outcome, prediction)) for m in moved), default=0
    )


def _is_quantile(one, q, p, prediction, digits):
    """Whether the levels just below and above a quantile enclose `p`."""
    size = np.float32(abs(q) + abs(prediction))
    ulp = one.step or digits + 8 * float(np.spacing(size))
    low = np.exp(one.log_tails(q - ulp, prediction)[0])
    high = np.exp(one.log_tails(q + (0 if one.step else ulp), prediction)[0])
    # The cdf by quadrature has an error of up to a few 1e-6.
    return low * 0.9999 - 4e-6 <= p <= high * 1.0001 + 4e-6


def test_every_scalar_likelihood_is_here():
    scalar = {
        found.name()
        for found in LIKELIHOODS
        if not found.event_rank
        and not hasattr(found, "class_probabilities")
        and not hasattr(found, "family")
    }
    assert scalar <= set(BASES)
