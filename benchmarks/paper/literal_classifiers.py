"""Classifiers recalibrated as the paper describes it.

    KERAS_BACKEND=jax python benchmarks/paper/literal_classifiers.py
    python benchmarks/paper/literal_classifiers.py --runs RUNS.jsonl

GS learns one temperature, VS a weight of each logit, LS and LFS a linear map of
the logits and of the features before them, on the validation rows and without
regularization. The temperature is the paper's softplus with an offset of 0.2,
which starts at 1. The paper does not say how it trains them; here it is by Adam
on all rows, as for its regressors, but with 1,000 steps at a rate of 1e-2: at
theirs, 1e-3, a single temperature does not converge in 3,000. The maps read
standardised inputs, as the appendix advises. Seeds differ in the start of the
weights. Two of the networks come without features. With a GPU, LFS takes
minutes instead of an hour.
"""

import keras
import numpy as np
from datasets import logits
from literal import Dense, train
from recalibration_tables import CLASSIFIERS, judge
from runs import Runs, study_options
from scipy.special import softmax

import keras_likelihood as kl

POSITIVE = kl.constraints.ShiftedSoftplus(0.2)
RATE, STEPS = 1e-2, 1000
METHODS = ("GS", "VS", "LS", "LFS")


class Reweighted(keras.layers.Layer):
    """Each logit times a weight, which starts at 1."""

    def build(self, shape):
        size = (shape[0], 1, shape[2])
        self.weight = self.add_weight(shape=size, initializer="ones")

    def call(self, logits):
        return logits * self.weight


def recalibrated(method, data, seeds, steps):
    """Logits of the test rows over their temperature, `(seeds, rows, k)`."""
    keras.utils.clear_session()
    keras.utils.set_random_seed(0)
    source = "features" if method == "LFS" else "logits"
    val, test = standardised(data[f"{source}_val"], data[f"{source}_test"])
    arrays = [repeated(data["logits_val"], seeds), repeated(val, seeds)]
    inputs = [
        keras.Input(batch_shape=(seeds, None, array.shape[-1]))
        for array in arrays
    ]
    scores, heat = inputs[0], keras.ops.ones_like(inputs[1][:, :, :1])
    if method == "VS":
        scores = Reweighted()(scores)
    else:
        heat = POSITIVE(Dense(1, constant=method == "GS")(inputs[1]))
    train(
        inputs,
        (scores, heat),
        tuple(arrays),
        repeated(data["y_val"].astype("int32"), seeds),
        kind=kl.losses.SoftmaxLoss,
        rate=RATE,
        steps=steps,
    )
    arrays = [repeated(data["logits_test"], seeds), repeated(test, seeds)]
    found = keras.Model(inputs, scores / heat)(arrays)
    return keras.ops.convert_to_numpy(found)


def standardised(val, test):
    mean, deviation = val.mean(axis=0), val.std(axis=0) + 1e-6
    return (val - mean) / deviation, (test - mean) / deviation


def repeated(array, seeds):
    return np.repeat(array[None], seeds, axis=0)


def study(name, seeds, steps):
    """ECE and NLL by method and seed."""
    data = logits(name)
    for key in data:
        if key.startswith(("logits", "features")):
            data[key] = data[key].astype("float32")
    labels = data["y_test"].astype(int)
    scores = {
        method: [
            judge(labels, softmax(found, axis=1))
            for found in recalibrated(method, data, seeds, steps)
        ]
        for method in METHODS
        if method != "LFS" or "features_val" in data
    }
    return {"scores": scores}


def main():
    options, steps, seeds, sets = study_options(
        __doc__, STEPS, CLASSIFIERS, "ResNet-20 CIFAR-10"
    )
    runs = Runs(options.runs)
    kept = runs.of_sets(sets, study, seeds, steps, seeds=seeds)
    every = {key: run["scores"] for key, run in kept.items()}
    data = {"sets": len(sets), "seeds": seeds, "each_seed": every}
    data["tables"] = {
        measure: {
            "columns": list(METHODS),
            "rows": {
                key: [
                    np.mean([seed[place] for seed in found[method]])
                    if method in found
                    else None
                    for method in METHODS
                ]
                for key, found in every.items()
            },
        }
        for place, measure in enumerate(("ece", "nll"))
    }
    runs.record("literal_classifiers", data, quick=options.quick)


if __name__ == "__main__":
    main()
