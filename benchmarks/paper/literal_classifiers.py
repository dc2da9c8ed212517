"""Classifiers recalibrated by GS and LS as the paper describes them.

    KERAS_BACKEND=jax python benchmarks/paper/literal_classifiers.py
    python benchmarks/paper/literal_classifiers.py --runs RUNS.jsonl

GS learns one temperature and LS a linear map of the logits, on the validation
rows and without regularization. The temperature is the paper's softplus with an
offset of 0.2, which starts at 1. The paper does not say how it trains them;
here it is by Adam on all rows, as for its regressors, but with 1,000 steps at a
rate of 1e-2: at theirs, 1e-3, a single temperature does not converge in 3,000.
The map reads standardised logits, as the appendix advises. Seeds differ in the
start of the weights.
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
METHODS = ("GS", "LS")


def temperatures(method, data, seeds, steps):
    """Learned temperatures of the test rows, `(seeds, rows, 1)`."""
    keras.utils.clear_session()
    keras.utils.set_random_seed(0)
    val, test = standardised(data["logits_val"], data["logits_test"])
    arrays = [repeated(data["logits_val"], seeds), repeated(val, seeds)]
    inputs = [
        keras.Input(batch_shape=(seeds, None, array.shape[-1]))
        for array in arrays
    ]
    heat = POSITIVE(Dense(1, constant=method == "GS")(inputs[1]))
    labels = repeated(data["y_val"].astype("int32"), seeds)
    train(
        inputs,
        (inputs[0], heat),
        tuple(arrays),
        labels,
        kind=kl.losses.SoftmaxLoss,
        rate=RATE,
        steps=steps,
    )
    found = keras.Model(inputs[1], heat)(repeated(test, seeds))
    return keras.ops.convert_to_numpy(found)


def standardised(val, test):
    mean, deviation = val.mean(axis=0), val.std(axis=0) + 1e-6
    return (val - mean) / deviation, (test - mean) / deviation


def repeated(array, seeds):
    return np.repeat(array[None], seeds, axis=0)


def study(name, seeds, steps):
    """ECE and NLL by method and seed."""
    data = logits(name)
    for part in ("val", "test"):
        data[f"logits_{part}"] = data[f"logits_{part}"].astype("float32")
    labels = data["y_test"].astype(int)
    scores = {
        method: [
            judge(labels, softmax(data["logits_test"] / heat, axis=1))
            for heat in temperatures(method, data, seeds, steps)
        ]
        for method in METHODS
    }
    return {"scores": scores}


def main():
    options, steps, seeds, sets = study_options(
        __doc__, STEPS, list(CLASSIFIERS), "ResNet-20 CIFAR-10"
    )
    runs = Runs(options.runs)
    every = {}
    for key in sets:
        name, keys = CLASSIFIERS[key], {"set": key, "seeds": seeds}
        every[key] = runs.once(keys, study, name, seeds, steps)["scores"]
    data = {"sets": len(sets), "seeds": seeds, "each_seed": every}
    data["tables"] = {
        measure: {
            "columns": list(METHODS),
            "rows": {
                key: [
                    np.mean([seed[place] for seed in found[method]])
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
