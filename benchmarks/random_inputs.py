"""Counts wrong numbers for random and extreme inputs of every likelihood.

    KERAS_BACKEND=torch python benchmarks/random_inputs.py [--count 100000]

Every function runs in float32. NLL and cdf are compared with SciPy where it
has the distribution, everything else with float64. A quantile is right if the
cdf passes its probability next to it. Quantiles and moments without a closed
form are computed for a part of the inputs. A number is wrong if it is finite
and not the true one, or not finite where the true one is.

An NLL or a cdf is right too if it lies between the true ones of inputs that
round to the same float32, half a unit of the last digit below and above. Near a
jump, such as that of a rounded target, the input does not say which is meant.
"""

import argparse

import numpy as np
from scipy import stats

from keras_likelihood import likelihoods

SCIPY = {
    "normal": lambda m, scale: stats.norm(m, scale),
    "laplace": lambda m, scale: stats.laplace(m, scale),
    "logistic": lambda m, scale: stats.logistic(m, scale),
    "student_t": lambda m, df, scale: stats.t(df, m, scale),
    "exponential": lambda m: stats.expon(scale=m),
    "gamma": lambda m, shape: stats.gamma(shape, scale=m / shape),
    "poisson": lambda m: stats.poisson(m),
    "negative_binomial": lambda m, dispersion: stats.nbinom(
        1 / dispersion, 1 / (1 + dispersion * m)
    ),
}
CLOSED = ("normal", "laplace", "logistic", "exponential")
OTHERS = """log_normal huber robust_rho weibull beta von_mises bernoulli
ordinal(4) truncated(normal,low=0) truncated(laplace,low=-1,high=2)
truncated(poisson,low=1) rounded(normal,step=0.5) censored(student_t)
transformed(normal,log) transformed(laplace,box_cox(0.5))
transformed(student_t,logit) mixture(normal,components=2)
mixture(gamma,components=2) zero_inflated(poisson)
rounded(truncated(normal,low=0))""".split()
EXPONENTS = {
    "scale": (-6, 6),
    "df": (-0.5, 6),
    "shape": (-1.5, 2),
    "concentration": (-1, 4),
    "dispersion": (-5, 2),
    "zero_probability": (-3, -0.01),
}
"""Powers of ten between which a parameter is drawn, else from -2 to 1."""
NARROW = ("log_normal", "transformed", "rounded", "truncated", "mixture")
"""Their scale has no units of its own, or those of a grid or a range."""


def inputs(name, count, random):
    """Predictions, parameters, targets and levels as float32 arrays."""
    likelihood = likelihoods.get(name)
    power = random.uniform(-6, 6, (count, 1))
    constraint = likelihood.prediction_constraint
    m = 10**power if constraint else 10**power * np.sign(power)
    if constraint is not None and constraint.high == 1:
        m = 1 / (1 + np.exp(-2 * power))
    elif constraint is None and name.startswith((*NARROW, "ordinal", "von")):
        m = random.uniform(-20, 20, (count, 1))
    parameters = {}
    for p in likelihood.parameters:
        size = p.size if isinstance(p.size, int) else 1
        ends = EXPONENTS.get(p.name, (-2, 1))
        if p.name == "scale" and name.startswith(NARROW):
            ends = (-2, 0.5)
        value = 10 ** random.uniform(*ends, (count, size))
        if p.name in ("logit", "offset"):
            value = 3 * random.standard_normal((count, size))
        parameters[p.name] = value.astype("float32")
    m = m.astype("float32")
    levels = 10 ** random.uniform(-6, np.log10(0.5), (count, 1))
    levels = np.where(random.random(m.shape) < 0.5, levels, 1 - levels)
    y = 10 ** random.uniform(-3, 3, (count, 1))
    if constraint is None:
        scale = parameters.get("scale", np.ones((1, 1)))
        y = m + np.sign(power) * scale[:, :1] * y
    else:
        y = m * y
    y = np.round(y) if likelihood.is_discrete and "round" not in name else y
    y = np.round(2 * y) / 2 if "step" in name else y
    y = np.clip(y, 0, 1) if name in ("beta", "bernoulli") else y
    y = np.clip(y, 1e-6, 1 - 1e-6) if name == "beta" or "logit" in name else y
    return m, parameters, y.astype("float32"), levels.astype("float32")


def is_wrong(found, true, slack=0.0):
    """Whether numbers differ by more than rounding explains."""
    found, true = np.broadcast_arrays(found.astype("float64"), true)
    # Larger numbers are bounded on purpose, or overflow.
    known = ~(np.abs(true) > 1e17)
    with np.errstate(invalid="ignore"):
        near = np.abs(found - true) <= 1e-3 * np.abs(true) + slack + 1e-37
    same = near | (np.isnan(found) & np.isnan(true)) | (found == true)
    return known & ~same


def true_values(name, m, y, **parameters):
    """NLL and cdf of float64 inputs."""
    likelihood = likelihoods.get(name)
    if name not in SCIPY:
        exact = likelihood(m, **parameters).as_numpy()
        return {"nll": exact.nll(y), "cdf": exact.cdf(y)}
    oracle = SCIPY[name](m, **parameters)
    density = oracle.logpmf if likelihood.is_discrete else oracle.logpdf
    return {"nll": -density(y), "cdf": oracle.cdf(y)}


def true_range(name, key, m, y, parameters):
    """Least and largest true value, with each input rounded in turn."""
    given = {"m": m, "y": y, **parameters}
    wide = {k: v.astype("float64") for k, v in given.items()}
    values = [true_values(name, **wide)[key]]
    for k, v in given.items():
        for half in (-0.5, 0.5):
            moved = {**wide, k: wide[k] + half * np.spacing(np.abs(v))}
            values.append(true_values(name, **moved)[key])
    # A whole number is no other one, and half a unit may leave the range.
    values = [np.where(np.isfinite(v), v, values[0]) for v in values]
    return np.min(values, axis=0), np.max(values, axis=0)


def count_wrong(name, count, part, seed):
    """How many results of each function are wrong."""
    likelihood = likelihoods.get(name)
    random = np.random.default_rng(seed)
    m, parameters, y, levels = inputs(name, count, random)
    case = (m, y, levels, *parameters.values())
    wide = {k: v.astype("float64") for k, v in parameters.items()}
    found = likelihood(m, **parameters).as_numpy()
    exact = likelihood(m.astype("float64"), **wide).as_numpy()
    p = levels.astype("float64")
    true = true_values(name, m.astype("float64"), y.astype("float64"), **wide)
    results = {"nll": found.nll(y), "cdf": found.cdf(y)}
    slack = {"nll": 1e-3, "cdf": 1e-4}
    wrong = {k: is_wrong(v, true[k], slack[k]) for k, v in results.items()}
    for k, where in wrong.items():
        i = np.flatnonzero(where)
        if i.size:
            rows = {n: v[i] for n, v in parameters.items()}
            low, high = true_range(name, k, m[i], y[i], rows)
            # No number is not between two numbers.
            nearest = np.minimum(np.fmax(results[k][i], low), high)
            wrong[k][i] = is_wrong(results[k][i], nearest, slack[k])
    few = slice(None) if name in CLOSED else slice(part)
    found, exact, m, p = found[few], exact[few], m[few], p[few]
    q = found.quantile(levels[few]).astype("float64")
    step = getattr(likelihood, "step", 1.0) * likelihood.is_discrete
    apart = 1e-3 * np.abs(q - m) + 1e-6 * np.abs(q) + 1e-30
    ends = q - apart - step, q + apart
    if name == "von_mises":
        # Beyond half a turn the cdf begins again.
        turn, m = np.pi - 1e-7, m.astype("float64")
        ends = (np.clip(end, m - turn, m + turn) for end in ends)
    below, above = map(exact.cdf, ends)
    slack = 1e-3 * np.minimum(p, 1 - p) + 1e-7
    wrong["quantile"] = ~((below <= p + slack) & (above >= p - slack))
    mean, variance = exact.mean(), exact.variance()
    slack = np.nan_to_num(1e-3 * np.sqrt(variance), posinf=0.0)
    wrong["mean"] = is_wrong(found.mean(), mean, slack)
    # Outcomes have seven digits, however narrow their distribution is.
    rounding = np.nan_to_num(1e-6 * np.abs(mean) * np.sqrt(variance), posinf=0)
    wrong["variance"] = is_wrong(found.variance(), variance, rounding)
    return wrong, case


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--part", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="name of one likelihood")
    parser.add_argument("--show", action="store_true", help="print cases")
    given = parser.parse_args()
    for name in (*SCIPY, *OTHERS) if not given.only else [given.only]:
        wrong, case = count_wrong(name, given.count, given.part, given.seed)
        counts = ", ".join(f"{k} {int(v.sum())}" for k, v in wrong.items())
        print(f"{name:36s} {counts}", flush=True)
        for key, where in wrong.items() if given.show else ():
            for i in np.flatnonzero(where)[:4]:
                print("   ", key, [v[i].tolist() for v in case])


if __name__ == "__main__":
    main()
