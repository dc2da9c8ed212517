"""Recalibrated classifiers and regressors.

    python benchmarks/paper/recalibration_tables.py

Classifiers are fitted on validation logits and judged on test logits;
regressors are networks of ten hidden units, fitted to 60 % of a set,
recalibrated on 20 % and judged on the rest.
"""

import importlib.util
import warnings

import numpy as np
from datasets import REGRESSION, folder, logits
from results import HERE, parser, record
from scipy.special import softmax
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from keras_likelihood import metrics, recalibration

CLASSIFIERS = {
    "RN50 CIFAR-10": "cifar10_resnet50",
    "RN50 CIFAR-100": "cifar100_resnet50",
    "ResNet-20 CIFAR-10": "cifar10_resnet20",
    "ResNet-56 CIFAR-10": "cifar10_resnet56",
    "VGG-16 CIFAR-10": "cifar10_vgg16",
    "DenseNet-BC-190 CIFAR-10": "cifar10_densenetbc190",
}


class OneVsRest:
    """A curve of every class's log-odds, by scikit-learn, then normalised."""

    def __init__(self, kind):
        self.kind = kind

    def _odds(self, logits):
        p = np.clip(softmax(logits.astype("float64"), axis=1), 1e-13, 1 - 1e-13)
        return np.log(p) - np.log1p(-p)

    def fit_arrays(self, logits, y, features=None):
        pairs = enumerate(self._odds(logits).T)
        self.curves = [self._curve(odds, y == c) for c, odds in pairs]
        return self

    def _curve(self, odds, occurred):
        if self.kind == "isotonic":
            curve = IsotonicRegression(out_of_bounds="clip")
            return curve.fit(odds, occurred).predict
        platt = LogisticRegression(C=1e6).fit(odds[:, None], occurred)
        return lambda odds: platt.predict_proba(odds[:, None])[:, 1]

    def calibrate(self, logits, features=None):
        pairs = zip(self.curves, self._odds(logits).T, strict=True)
        q = np.stack([curve(odds) for curve, odds in pairs], axis=1) + 1e-9
        return q / q.sum(axis=1, keepdims=True)


METHODS = {
    "Platt": lambda: OneVsRest("sigmoid"),
    "Isotonic": lambda: OneVsRest("isotonic"),
    "GS": recalibration.GlobalScaling,
    "VS": recalibration.VectorScaling,
    "LS": recalibration.LinearScaling,
    "LFS": recalibration.LinearFeatureScaling,
}
REGRESSORS = ("Uncalibrated", "Isotonic", "GS", "LS", "DS")


def judge(labels, p):
    """ECE and NLL."""
    functions = metrics.functions
    return (
        functions.expected_calibration_error(labels, p),
        functions.negative_log_likelihood(labels, p),
    )


def expected_noise(p, draws=10):
    """Mean ECE of `p` on labels that `p` itself draws."""
    rng = np.random.default_rng(0)
    steps = np.cumsum(p, axis=1)[:, :-1]
    found = []
    for _ in range(draws):
        labels = (rng.random((len(p), 1)) > steps).sum(axis=1)
        found.append(judge(labels, p)[0])
    return float(np.mean(found))


def gain(labels, ours, theirs, draws=1000):
    """Mean difference in NLL and its 95 % interval, by paired bootstrap."""
    rows = np.arange(len(labels))
    differences = np.log(theirs[rows, labels]) - np.log(ours[rows, labels])
    rng = np.random.default_rng(0)
    means = [
        differences[rng.integers(0, len(rows), len(rows))].mean()
        for _ in range(draws)
    ]
    return [differences.mean(), *np.quantile(means, [0.025, 0.975])]


def classifier(name, rows=None):
    """`(ECE, NLL)` by method, the ECE of perfect calibration, LS beside GS."""
    data = {key: value[:rows] for key, value in logits(name).items()}
    labels = data["y_test"].astype(int)
    raw = softmax(data["logits_test"].astype("float64"), axis=1)
    found = {"Uncalibrated": judge(labels, raw)}
    features = data.get("features_val"), data.get("features_test")
    fitted_p = {}
    for short, method in METHODS.items():
        if short == "LFS" and features[0] is None:
            continue
        val, test = (None, None) if short != "LFS" else features
        fitted = method().fit_arrays(
            data["logits_val"], data["y_val"].astype(int), val
        )
        p = np.asarray(fitted.calibrate(data["logits_test"], test))
        found[short] = judge(labels, p)
        fitted_p[short] = p
    noise = expected_noise(fitted_p["GS"])
    return found, noise, gain(labels, fitted_p["LS"], fitted_p["GS"])


def benchmark():
    """The benchmark of regressors, whose study is the paper's."""
    path = HERE.parents[1] / "benchmarks" / "regression_recalibration.py"
    spec = importlib.util.spec_from_file_location("regressors_bench", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def classifier_tables(found):
    columns = ["Uncalibrated", *METHODS]
    rows = {"ECE": {}, "NLL": {}}
    for name, (scores, noise, _) in found.items():
        for place, measure in enumerate(rows):
            rows[measure][name] = [
                scores[c][place] if c in scores else None for c in columns
            ]
        rows["ECE"][name].append(noise)
    return {
        "ece": {
            "columns": [*columns, "perfect model"],
            "rows": rows["ECE"],
            "paper": "tab:class-calibration",
        },
        "class_nll": {"columns": columns, "rows": rows["NLL"]},
        "ls_gs": {
            "columns": ["LS - GS", "from", "to"],
            "rows": {name: gained for name, (_, _, gained) in found.items()},
            "digits": 4,
        },
    }


def regressor_tables(sets, seeds):
    module = benchmark()
    cal, nll = {}, {}
    for name in sets:
        runs = [
            module.evaluate(folder(), REGRESSION[name], seed)
            for seed in range(seeds)
        ]
        median = {
            method: np.median([run[method] for run in runs], axis=0)
            for method in REGRESSORS
        }
        cal[name] = [median[method][0] for method in REGRESSORS]
        nll[name] = [
            None if method == "Isotonic" else median[method][1]
            for method in REGRESSORS
        ]
        print(name, cal[name], flush=True)
    return {
        "cal": {
            "columns": list(REGRESSORS),
            "rows": cal,
            "paper": "tab:reg-calibration",
            "only_ours": True,
            "digits": 4,
        },
        "regressor_nll": {"columns": list(REGRESSORS), "rows": nll},
    }


def main():
    options = parser(__doc__)
    options.add_argument("--seeds", type=int, default=10)
    options = options.parse_args()
    names, sets, seeds, rows = (
        CLASSIFIERS,
        list(REGRESSION),
        options.seeds,
        None,
    )
    if options.quick:
        names = {"ResNet-20 CIFAR-10": "cifar10_resnet20"}
        sets, seeds, rows = ["cpu"], 1, 500
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {key: classifier(name, rows) for key, name in names.items()}
        tables = classifier_tables(found)
        tables |= regressor_tables(sets, seeds)
    best = [
        min(
            (s for s in scores if s != "Uncalibrated"),
            key=lambda s: scores[s][1],
        )
        for scores, _, _ in found.values()
    ]
    wins = {
        method: sum(row[i] < row[1] for row in tables["cal"]["rows"].values())
        for i, method in enumerate(REGRESSORS)
    }
    data = {
        "seeds": seeds,
        "sets": len(sets),
        "classifiers": len(found),
        "nll_by_ours": sum(name in ("LS", "LFS") for name in best),
        "ls_below_gs": sum(gained[2] < 0 for _, _, gained in found.values()),
        **{f"wins_{method}": wins[method] for method in ("GS", "LS", "DS")},
        "tables": tables,
    }
    record("recalibration_tables", data, quick=options.quick)


if __name__ == "__main__":
    main()
