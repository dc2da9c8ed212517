"""Learned regularization against searched, over designs and likelihoods.

Linear models of 100 inputs. A cell is a design (independent inputs,
neighbours with correlation .5 or .9, five common factors), a number of
examples (50, 100, 400) and a target:

- normal: weights from a normal distribution, as much noise as signal; the
  learned method sees standardised targets, as the noise starts at 1; the mean
  squared error of the weights is measured;
- logistic, softmax (10 classes): such weights too; the log-loss on 2000 new
  examples;
- poisson: such weights too, for the logarithm of the mean count; the negative
  log-likelihood of 2000 new counts;
- sparse: 10 of 100 weights are not zero, noise 1; the error of the weights.

The printed ratio divides the mean error over seeds by that of the reference:
for D-Ridge the better of cross-validation and BayesianRidge (for counts
cross-validation of `PoissonRegressor`), for D-LASSO LassoCV, for Multi-LASSO
least squares on the true support.

    python benchmarks/regularization_cells.py
    python benchmarks/regularization_cells.py --first-seed 100
    python benchmarks/regularization_cells.py --targets sparse --seeds 1
"""

import argparse
import time
import warnings

import keras
import numpy as np
from paper.literal import Repeated
from scipy import stats
from sklearn import linear_model, model_selection
from sklearn.exceptions import ConvergenceWarning

import keras_likelihood as kl
from keras_likelihood import regularizers

INPUTS, CLASSES, NEW = 100, 10, 2000
DESIGNS = ("iid", "ar.5", "ar.9", "factor")
EXAMPLES = (50, 100, 400)
TARGETS = ("normal", "logistic", "softmax", "poisson", "sparse")


def make_inputs(rng, rows, design):
    z = rng.standard_normal((rows, INPUTS))
    if design == "factor":
        loadings = rng.standard_normal((5, INPUTS)) / np.sqrt(5)
        return (rng.standard_normal((rows, 5)) @ loadings + z) / np.sqrt(2)
    if design.startswith("ar"):
        correlation = float(design[2:])
        for j in range(1, INPUTS):
            z[:, j] *= np.sqrt(1 - correlation**2)
            z[:, j] += correlation * z[:, j - 1]
    return z


def make_cell(seed, design, examples, target):
    """`(x, y, new x, new y, true weights)`."""
    rng = np.random.default_rng(seed)
    x = make_inputs(rng, examples + NEW, design)
    weights = rng.standard_normal(
        (INPUTS, CLASSES if target == "softmax" else 1)
    )
    if target == "sparse":
        on = rng.permutation(INPUTS) < 10
        weights = rng.uniform(1, 2, (INPUTS, 1)) * on[:, None]
    signal = x @ weights
    spreads = {"logistic": 2, "softmax": 2, "poisson": 1}
    if target in spreads:
        weights = weights * spreads[target] / signal.std()
        signal = x @ weights
    if target == "logistic":
        y = rng.random(len(x)) < 1 / (1 + np.exp(-signal[:, 0]))
        y = y.astype(int)
    elif target == "softmax":
        y = np.argmax(signal + rng.gumbel(size=signal.shape), axis=1)
        # Every class has its share of the examples to learn from.
        order = np.argsort(_place_in_class(y), kind="stable")
        order[examples:] = np.sort(order[examples:])
        x, y = x[order], y[order]
    elif target == "poisson":
        y = rng.poisson(np.exp(signal[:, 0]))
    else:
        noise = 1.0 if target == "sparse" else signal.std()
        y = signal[:, 0] + noise * rng.standard_normal(len(x))
    return x[:examples], y[:examples], x[examples:], y[examples:], weights


def _place_in_class(y):
    """0 for the first example of each class, 1 for the second, and so on."""
    place = np.zeros(len(y), int)
    for c in range(CLASSES):
        place[y == c] = np.arange(np.sum(y == c))
    return place


def fit_keras(regularizer, x, y, target, steps):
    keras.utils.set_random_seed(0)
    inputs = keras.Input((INPUTS,))
    outputs = keras.layers.Dense(
        CLASSES if target == "softmax" else 1,
        "exponential" if target == "poisson" else None,
        use_bias=False,
        kernel_regularizer=regularizer(num_examples=len(x)),
    )(inputs)
    model = kl.LikelihoodModel(inputs, outputs)
    losses = {
        "poisson": kl.losses.PoissonLoss,
        "logistic": lambda: kl.losses.BernoulliLoss(temperature=1.0),
        "softmax": lambda: kl.losses.SoftmaxLoss(temperature=1.0),
    }
    decay = keras.optimizers.schedules.CosineDecay(0.05, steps)
    model.compile(
        keras.optimizers.Adam(decay, beta_2=0.99),
        loss=losses.get(target, kl.losses.NormalLoss)(),
    )
    unit = y.std() if target == "normal" else 1.0
    y = y if target == "softmax" else (y / unit).astype("float32")[:, None]
    model.fit(Repeated(x.astype("float32"), y, steps), verbose=0)
    return keras.ops.convert_to_numpy(model.layers[-1].kernel) * unit


def fit_sklearn(estimator, x, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", FutureWarning)
        found = estimator.fit(x, y)
        found = getattr(found, "best_estimator_", found)
        return np.atleast_2d(found.coef_).T


def logistic_cv():
    return linear_model.LogisticRegressionCV(
        Cs=np.geomspace(1e-4, 1e2, 13),
        cv=3,
        fit_intercept=False,
        scoring="neg_log_loss",
    )


def poisson_cv():
    return model_selection.GridSearchCV(
        linear_model.PoissonRegressor(fit_intercept=False, max_iter=1000),
        {"alpha": np.geomspace(1e-3, 1e2, 16)},
        cv=3,
        scoring="neg_mean_poisson_deviance",
    )


def references(target):
    """The methods to compare with, by name."""
    if target == "sparse":
        return {
            "LassoCV": linear_model.LassoCV(fit_intercept=False, cv=5),
            "ARD": linear_model.ARDRegression(fit_intercept=False),
        }
    if target == "normal":
        return {
            "CV": linear_model.RidgeCV(
                np.geomspace(1e-1, 1e5, 60), fit_intercept=False
            ),
            "BayesianRidge": linear_model.BayesianRidge(fit_intercept=False),
        }
    return {"CV": poisson_cv() if target == "poisson" else logistic_cv()}


def error(found, weights, x, y, target):
    if target in ("normal", "sparse"):
        return np.mean((found - weights) ** 2)
    z = x @ found
    if target == "logistic":
        return np.mean(np.logaddexp(0, z[:, 0]) - y * z[:, 0])
    if target == "poisson":
        return -np.mean(stats.poisson.logpmf(y, np.exp(z[:, 0])))
    z = z - z.max(axis=1, keepdims=True)
    return np.mean(np.log(np.sum(np.exp(z), axis=1)) - z[np.arange(len(y)), y])


def on_support(x, y, weights):
    found, on = np.zeros_like(weights), weights[:, 0] != 0
    found[on, 0] = np.linalg.lstsq(x[:, on], y, rcond=None)[0]
    return found


def measure(design, examples, target, seeds, steps):
    """Errors by method, a list over seeds."""
    learned = ["DLasso", "MultiLasso"] if target == "sparse" else ["DRidge"]
    errors, seconds = {}, []
    for seed in seeds:
        x, y, new_x, new_y, weights = make_cell(seed, design, examples, target)
        found = {
            name: fit_sklearn(estimator, x, y)
            for name, estimator in references(target).items()
        }
        for name in learned:
            start = time.perf_counter()
            cls = getattr(regularizers, name)
            found[name] = fit_keras(cls, x, y, target, steps)
            seconds.append(time.perf_counter() - start)
            keras.backend.clear_session()
        if target == "sparse":
            found["support"] = on_support(x, y, weights)
        for name, value in found.items():
            errors.setdefault(name, []).append(
                error(value, weights, new_x, new_y, target)
            )
    return errors, float(np.median(seconds))


def ratios(errors, target):
    """`{method: (ratio, standard error)}`, paired over seeds."""
    mean = {name: np.mean(values) for name, values in errors.items()}
    if target == "sparse":
        pairs = [
            ("DLasso", "LassoCV"),
            ("MultiLasso", "support"),
            ("MultiLasso", "ARD"),
        ]
    else:
        rivals = [name for name in errors if name != "DRidge"]
        pairs = [("DRidge", min(rivals, key=mean.get))]
    found = {}
    for name, rival in pairs:
        ratio = mean[name] / mean[rival]
        apart = np.array(errors[name]) - ratio * np.array(errors[rival])
        count = max(len(apart) - 1, 1)
        spread = np.std(apart) / np.sqrt(count) / mean[rival]
        label = "reference" if name == "DRidge" else rival
        found[f"{name}/{label}"] = ratio, spread
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--targets", nargs="+", default=TARGETS)
    parser.add_argument("--designs", nargs="+", default=DESIGNS)
    parser.add_argument("--examples", nargs="+", type=int, default=EXAMPLES)
    arguments = parser.parse_args()
    first = arguments.first_seed
    seeds = range(first, first + arguments.seeds)
    print(f"backend {keras.backend.backend()}, seeds {seeds}")
    for target in arguments.targets:
        total = {}
        for design in arguments.designs:
            for examples in arguments.examples:
                errors, seconds = measure(
                    design, examples, target, seeds, arguments.steps
                )
                found = ratios(errors, target)
                for name, (ratio, _) in found.items():
                    total.setdefault(name, []).append(ratio)
                numbers = "  ".join(
                    f"{name} {ratio:.3f} +- {spread:.3f}"
                    for name, (ratio, spread) in found.items()
                )
                means = " ".join(
                    f"{n}={np.mean(v):.4g}" for n, v in errors.items()
                )
                print(
                    f"{target:9}{design:7}{examples:4}  {numbers}  "
                    f"({means}; {seconds:.1f} s)",
                    flush=True,
                )
        for name, values in total.items():
            print(
                f"{target}: {name} mean {np.mean(values):.3f}, "
                f"worst {np.max(values):.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
