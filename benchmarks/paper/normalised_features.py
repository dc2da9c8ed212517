"""Features of a temperature: as they are, or normalised in three ways.

    KERAS_BACKEND=jax python benchmarks/paper/normalised_features.py

The paper says that it is important to normalise the features from which a
temperature is predicted. Here a linear temperature with the paper's constraint
(softplus, offset 0.2) learns from the features of a ResNet-50 on the validation
set of CIFAR-100: from the features as the network gives them, and from the same
features with each column in other units (factors from 0.01 to 100).
"""

import keras
import numpy as np
from datasets import logits
from results import parser, record

import keras_likelihood as kl

RATES = (1e-4, 1e-3, 1e-2)
NORMALISED = ("none", "batch", "layer", "standardised")
UNITS = ("as they are", "in other units")


def branch(features, scores, normalize):
    """The scores and a temperature predicted from features."""
    temperature = kl.layers.PredictedParameter(
        "softmax",
        "temperature",
        scores.shape[-1],
        constraint=kl.constraints.ShiftedSoftplus(0.2),
        normalize=normalize if normalize in ("batch", "layer") else None,
    )
    return scores, temperature(features)


def train(data, *, rate, epochs, seed):
    """Test NLL by kind of normalisation, all trained side by side."""
    keras.utils.clear_session()
    keras.utils.set_random_seed(seed)
    raw, scaled = (keras.Input((data["x_val"].shape[1],)) for _ in range(2))
    scores = keras.Input((data["logits_val"].shape[1],))
    outputs = {
        kind: branch(scaled if kind == "standardised" else raw, scores, kind)
        for kind in NORMALISED
    }
    model = kl.LikelihoodModel([raw, scaled, scores], outputs)
    model.compile(
        keras.optimizers.Adam(rate),
        loss={kind: kl.losses.SoftmaxLoss() for kind in NORMALISED},
    )
    model.fit(
        [data[f"{name}_val"] for name in ("x", "z", "logits")],
        dict.fromkeys(NORMALISED, data["y_val"]),
        batch_size=500,
        epochs=epochs,
        verbose=0,
    )
    found = model([data[f"{name}_test"] for name in ("x", "z", "logits")])
    nll = {}
    for kind, (logit, temperature) in found.items():
        law = kl.likelihoods.Softmax(logit, temperature=temperature)
        values = keras.ops.convert_to_numpy(law.nll(data["y_test"]))
        nll[kind] = float(values.mean())
    return nll


def prepare(units, seed, rows=None):
    """Features, standardised features, logits and labels of both parts."""
    data = {k: v[:rows] for k, v in logits("cifar100_resnet50").items()}
    x = {p: data[f"features_{p}"].astype("float32") for p in ("val", "test")}
    if units == "in other units":
        random = np.random.default_rng(seed)
        factors = 10 ** random.uniform(-2, 2, x["val"].shape[1])
        x = {part: (v * factors).astype("float32") for part, v in x.items()}
    mean, spread = x["val"].mean(axis=0), x["val"].std(axis=0)
    spread[spread == 0] = 1
    made = {}
    for part, values in x.items():
        made[f"x_{part}"] = values
        made[f"z_{part}"] = (values - mean) / spread
        made[f"logits_{part}"] = data[f"logits_{part}"]
        made[f"y_{part}"] = data[f"y_{part}"].astype("int32")
    return made


def main():
    options = parser(__doc__)
    options.add_argument("--seeds", type=int, default=5)
    options = options.parse_args()
    seeds, epochs, rows = options.seeds, 25, None
    if options.quick:
        seeds, epochs, rows = 1, 1, 500
    every = {}
    for units in UNITS:
        for seed in range(seeds):
            data = prepare(units, seed, rows)
            for rate in RATES:
                found = train(data, rate=rate, epochs=epochs, seed=seed)
                for kind, value in found.items():
                    row = every.setdefault(f"{units}: {kind}", {})
                    row.setdefault(f"{rate:g}", []).append(value)
                print(units, seed, rate, found, flush=True)
    columns = [f"step {rate:g}" for rate in RATES]
    table = {
        "columns": columns,
        "rows": {n: [np.mean(v) for v in r.values()] for n, r in every.items()},
        "digits": 2,
    }
    if seeds > 1:
        table["errors"] = {
            name: [np.std(v, ddof=1) / seeds**0.5 for v in row.values()]
            for name, row in every.items()
        }
    data = {"seeds": seeds, "epochs": epochs, "each_seed": every}
    data["tables"] = {"nll": table}
    record("normalised_features", data, quick=options.quick)


if __name__ == "__main__":
    main()
