"""Classifiers recalibrated as the paper describes it (Table 4).

    KERAS_BACKEND=jax python benchmarks/paper/recalibrated_classifiers.py

GS learns one temperature, VS a weight of each logit, LS and LFS a linear map of
the logits and of the features before them, on the validation rows and without
regularization. The temperature is the paper's softplus with an offset of 0.2,
which starts at 1; the maps read standardised inputs. The paper does not say how
it trains them, so there are three readings: its recipe for classifiers, its
recipe for regressors with more steps, and a larger rate, with which GS
converges. Seeds differ in the start of the weights and the order of the rows.
Platt and isotonic scaling fit a curve for each class against the rest.
`perfect` is the ECE of a perfectly calibrated model with as many test rows. Two
networks come without features. LFS takes an hour on a CPU, minutes on a GPU.
"""

import itertools
import time

import keras
import numpy as np
from get_data import CLASSIFIERS, folder, logits
from recipe import Batches, Dense, Repeated, train
from results import parallel, parser, record
from scipy.special import softmax
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

import keras_likelihood as kl

POSITIVE = kl.constraints.ShiftedSoftplus(0.2)
READINGS = {
    "classifier recipe": {"rate": 1e-4, "epochs": 300, "beta_2": 0.99},
    "regressor recipe": {"rate": 1e-3, "steps": 3000},
    "rate 1e-2": {"rate": 1e-2, "steps": 1000},
    "quick": {"rate": 1e-2, "steps": 3},
}
ROWS = 512
METHODS = ("GS", "VS", "LS", "LFS")
PEERS = ("Platt", "Isotonic")


class Reweighted(keras.layers.Layer):
    """Each logit times a weight, which starts at 1."""

    def build(self, shape):
        size = (shape[0], 1, shape[2])
        self.weight = self.add_weight(shape=size, initializer="ones")

    def call(self, logits):
        return logits * self.weight


def recalibrated(method, data, seeds, reading):
    """Logits of the test rows over their temperature, and seconds of a fit."""
    keras.utils.clear_session()
    keras.utils.set_random_seed(0)
    source = "features" if method == "LFS" else "logits"
    val, test = standardised(data[f"{source}_val"], data[f"{source}_test"])
    arrays = [data["logits_val"], val]
    inputs = [
        keras.Input(batch_shape=(seeds, None, array.shape[-1]))
        for array in arrays
    ]
    scores, heat = inputs[0], keras.ops.ones_like(inputs[1][:, :, :1])
    if method == "VS":
        scores = Reweighted()(scores)
    else:
        heat = POSITIVE(Dense(1, constant=method == "GS")(inputs[1]))
    labels, options = data["y_val"], dict(reading)
    begin = time.perf_counter()
    if epochs := options.pop("epochs", None):
        steps = epochs * -(-len(labels) // ROWS)
        rows = Batches(tuple(arrays), labels, steps, seeds, ROWS)
    else:
        steps = options.pop("steps")
        repeated = [np.repeat(a[None], seeds, 0) for a in (*arrays, labels)]
        rows = Repeated(tuple(repeated[:2]), repeated[2], steps)
    train(inputs, (scores, heat), rows, kind=kl.losses.SoftmaxLoss, **options)
    seconds = time.perf_counter() - begin
    arrays = [
        np.repeat(part[None], seeds, 0) for part in (data["logits_test"], test)
    ]
    logits = keras.Model(inputs, scores / heat)(arrays)
    return keras.ops.convert_to_numpy(logits), seconds


def standardised(val, test):
    mean, deviation = val.mean(axis=0), val.std(axis=0) + 1e-6
    return (val - mean) / deviation, (test - mean) / deviation


def measures(labels, p):
    """ECE and NLL."""
    functions = kl.metrics.functions
    return [
        functions.expected_calibration_error(labels, p),
        functions.negative_log_likelihood(labels, p),
    ]


def expected_noise(p, draws=10):
    """Mean ECE of `p` on labels that `p` itself draws."""
    rng = np.random.default_rng(0)
    steps = np.cumsum(p, axis=1)[:, :-1]
    drawn = [
        (rng.random((len(p), 1)) > steps).sum(axis=1) for _ in range(draws)
    ]
    return float(np.mean([measures(labels, p)[0] for labels in drawn]))


def prepare(name):
    data = logits(name)
    for key, array in data.items():
        kind = "int32" if key.startswith("y_") else "float32"
        data[key] = array.astype(kind)
    return data


def study(name, reading, seeds):
    """ECE and NLL by method and seed, and the seconds of a fit."""
    data, options = prepare(name), dict(READINGS[reading])
    scores, seconds = {}, {}
    for method in METHODS:
        if method == "LFS" and "features_val" not in data:
            continue
        test, seconds[method] = recalibrated(method, data, seeds, options)
        scores[method] = [
            measures(data["y_test"], softmax(one, axis=1)) for one in test
        ]
    return {"scores": scores, "seconds": seconds}


def one_against_the_rest(peer, data):
    """Probabilities of the test rows: a curve for each class, normalised."""
    before = softmax(data["logits_val"], axis=1)
    test = softmax(data["logits_test"], axis=1)
    columns = []
    for c in range(before.shape[1]):
        own = data["y_val"] == c
        if peer == "Isotonic":
            curve = IsotonicRegression(out_of_bounds="clip", y_min=1e-6)
            columns.append(curve.fit(before[:, c], own).predict(test[:, c]))
        else:
            curve = LogisticRegression(C=1e6)
            curve.fit(np.log(before[:, [c]] + 1e-30), own)
            logs = np.log(test[:, [c]] + 1e-30)
            columns.append(curve.predict_proba(logs)[:, 1])
    p = np.stack(columns, axis=1)
    return p / p.sum(axis=1, keepdims=True)


def without_training(name):
    """ECE and NLL of the network and of the peers, and the noise of ECE."""
    data = prepare(name)
    labels = data["y_test"]
    raw = softmax(data["logits_test"].astype("float64"), axis=1)
    scores = {"Uncalibrated": measures(labels, raw)}
    for peer in PEERS:
        scores[peer] = measures(labels, one_against_the_rest(peer, data))
    fitted = kl.recalibration.GlobalScaling().fit_arrays(
        data["logits_val"], data["y_val"]
    )
    p = np.asarray(fitted.calibrate(data["logits_test"]))
    return {**scores, "perfect": [expected_noise(p), None]}


def main():
    options = parser(__doc__).parse_args()
    there = [path.stem for path in (folder() / "logits").glob("*.npz")]
    sets = {key: name for key, name in CLASSIFIERS.items() if name in there}
    seeds, readings = 5, list(READINGS)[:-1]
    if options.quick:
        sets = {"ResNet-20 CIFAR-10": CLASSIFIERS["ResNet-20 CIFAR-10"]}
        seeds, readings = 1, ["quick"]
    fixed = {key: without_training(name) for key, name in sets.items()}
    keys = list(itertools.product(sets, readings))
    tasks = [(sets[key], reading, seeds) for key, reading in keys]
    every = dict(zip(keys, parallel(study, tasks), strict=True))
    data = {"seeds": seeds, "fixed": fixed, "tables": {}}
    data["each_seed"] = {
        reading: {key: every[key, reading] for key in sets}
        for reading in readings
    }
    columns = ["Uncalibrated", *PEERS, *METHODS, "perfect"]
    for reading, by_network in data["each_seed"].items():
        for place, measure in enumerate(("ECE", "NLL")):
            rows = {}
            for key, one in by_network.items():
                row = {name: v[place] for name, v in fixed[key].items()}
                for name, values in one["scores"].items():
                    row[name] = float(np.mean([v[place] for v in values]))
                rows[key] = [row.get(column) for column in columns]
            table = {"columns": columns, "rows": rows}
            data["tables"][f"{measure}, {reading}"] = table
        data["tables"][f"seconds, {reading}"] = {
            "columns": list(METHODS),
            "rows": {
                key: [one["seconds"].get(m) for m in METHODS]
                for key, one in by_network.items()
            },
        }
    record("recalibrated_classifiers", data, quick=options.quick)


if __name__ == "__main__":
    main()
