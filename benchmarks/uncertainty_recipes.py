"""Compares recipes for training a predicted scale, by NLL and RMSE.

    KERAS_BACKEND=jax KERAS_LIKELIHOOD_DATA=... \
        python benchmarks/uncertainty_recipes.py \
        --json docs/results/recipes.json

The networks, splits and scores are the same as in `benchmarks/uncertainty.py`,
with one network per split, or five that are averaged. Recipes for the same
network are:

- `squared error`: a constant scale;
- `t`: Student's t with a predicted scale;
- `beta .5`, `beta 1`: each term weighted by scale^(2 beta) (Seitzer et al.,
  2022), the second with a scale that does not train the features, so that the
  mean trains as in Stirn et al. (2023);
- `own features`: the scale has a hidden layer of its own on the inputs;
- `hidden layer`: the scale has a hidden layer of its own on the features of
  the mean, and does not train them;
- `start`: squared error for half as many epochs first;
- `half`: squared error for half of the epochs, the recipe for the others;
- `squared mean`: the mean trains by squared error, and the other parameters
  by the likelihood;
- `offset`: a smaller least scale.
"""

import argparse
import json
import os
import pathlib

import keras
import many_networks
import numpy as np
import uncertainty
from keras import ops

import keras_likelihood as kl
from keras_likelihood import likelihoods
from keras_likelihood.constraints import ShiftedSoftplus

RECIPES_CHOSEN_ON = ("autompg", "cpu_act", "kin8nm", "soil")
RECIPES = {
    "squared error": {"likelihood": "normal", "constant": ("scale",)},
    "t": {},
    "t, beta .5": {"beta": 0.5},
    "t, beta 1": {"beta": 1.0, "features": "isolated"},
    "t, beta .5, own features": {"beta": 0.5, "features": "own"},
    "t, own features": {"features": "own"},
    "t, start": {"start": True},
    "t, beta .5, start": {"start": True, "beta": 0.5},
    "t, half": {"start": True, "share": 0.5},
}
RECIPES |= {
    f"{name}, offset .001": {**RECIPES[name], "offset": 1e-3}
    for name in (
        *("t", "t, beta .5", "t, beta 1", "t, beta .5, own features"),
        *("t, start", "t, half"),
    )
}
HIDDEN = {"beta": 1.0, "features": "hidden", "offset": 1e-3}
SQUARED_MEAN = {"squared_mean": True, "features": "own", "offset": 1e-3}
OWN = {"beta": 1.0, "features": "own", "offset": 1e-3}
RECIPES["t, beta 1, own features, offset .001"] = OWN
RECIPES["t, squared mean, own features, offset .001"] = SQUARED_MEAN
RECIPES["t, beta .5, hidden layer, offset .001"] = {**HIDDEN, "beta": 0.5}
RECIPES["t, beta 1, hidden layer, offset .001"] = HIDDEN
FIVE = {
    "squared error": {**RECIPES["squared error"], "offset": 1e-3},
    "t": {"offset": 1e-3},
    "t, beta .5": {"beta": 0.5, "offset": 1e-3},
    "t, beta .5, own features": {**OWN, "beta": 0.5},
    "t, beta .75, own features": {**OWN, "beta": 0.75},
    "t, beta 1, own features": OWN,
    "t, squared mean, own features": SQUARED_MEAN,
    "t, squared mean, hidden layer": {**SQUARED_MEAN, "features": "hidden"},
    "t, beta .5, hidden layer": {**HIDDEN, "beta": 0.5},
    "t, beta 1, hidden layer": HIDDEN,
}
"""Of five members, all with the offset .001."""
RECIPES |= {f"five: {n}": {**r, "members": 5} for n, r in FIVE.items()}
RECIPES["t, half, offset .003"] = {**RECIPES["t, half"], "offset": 3e-3}
RECIPES["t, offset .003"] = {**RECIPES["t"], "offset": 3e-3}


class SquaredMean(kl.losses.StudentTLoss):
    """Squared error for the mean, the likelihood for the rest."""

    def elementwise(self, distribution, y):
        values = distribution.values()
        mean = values.pop("prediction")
        fixed = type(distribution)(ops.stop_gradient(mean), **values)
        squared = 0.5 * (mean - y) ** 2
        return (
            super().elementwise(fixed, y) + squared - ops.stop_gradient(squared)
        )


def build(networks, columns, likelihood, constant, features, offset):
    inputs = keras.Input((networks, columns))
    hidden = ops.relu(many_networks.PerNetwork(many_networks.HIDDEN)(inputs))
    of_scale = {
        "shared": lambda: hidden,
        "isolated": lambda: ops.stop_gradient(hidden),
        "own": lambda: ops.relu(
            many_networks.PerNetwork(many_networks.HIDDEN)(inputs)
        ),
        "hidden": lambda: ops.relu(
            many_networks.PerNetwork(many_networks.HIDDEN)(
                ops.stop_gradient(hidden)
            )
        ),
    }[features]()
    outputs = [many_networks.PerNetwork(1)(hidden)]
    for p in likelihood.parameters:
        constraint = p.constraint
        if p.name == "scale":
            constraint = ShiftedSoftplus(offset)
        layer = many_networks.PerNetwork(
            1,
            start=np.resize(constraint.inverse(p.initial), 1),
            constant=p.name in constant,
            constraint=constraint,
        )
        outputs.append(layer(of_scale))
    return kl.LikelihoodModel(inputs, outputs)


def run(
    parts,
    spreads,
    likelihood="student_t",
    constant=("df",),
    beta=0.0,
    features="shared",
    start=False,
    share=1.0,
    offset=0.01,
    squared_mean=False,
    members=1,
):
    """NLL and RMSE of each split."""
    law = likelihoods.get(likelihood)
    splits, columns = len(spreads), parts[0][0].shape[2]
    parts = [tuple(np.repeat(a, members, axis=1) for a in p) for p in parts]
    keras.utils.set_random_seed(0)
    model = build(splits * members, columns, law, constant, features, offset)
    three = [(x, y[..., None]) for x, y in parts]
    epochs, batch_size = uncertainty.budget(len(parts[0][0]))
    if start:
        inputs = model.input
        mean = kl.LikelihoodModel(inputs, model.output[0])
        mean.compile(keras.optimizers.Adam(0.01), loss="mse")
        mean.fit(
            *three[0], batch_size=batch_size, epochs=epochs // 2, verbose=0
        )
    kind = {"normal": kl.losses.NormalLoss, "student_t": kl.losses.StudentTLoss}
    kind = SquaredMean if squared_mean else kind[likelihood]
    loss = kind(**({"beta": beta} if beta else {}))
    epochs = int(share * epochs)
    many_networks.train(model, loss, *three[:2], epochs, batch_size, 0.01)
    test = model.predict(three[2][0], batch_size=len(three[2][0]), verbose=0)
    found = uncertainty.laws(law, test, splits, members)
    return [
        uncertainty.judge(one, parts[2][1][:, s * members], spreads[s])
        for s, one in enumerate(found)
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=RECIPES_CHOSEN_ON)
    parser.add_argument("--recipes", nargs="+", default=[*RECIPES])
    parser.add_argument("--json", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    folder = pathlib.Path(os.environ["KERAS_LIKELIHOOD_DATA"]) / "regression"
    results = {}
    if arguments.json.exists():
        results = json.loads(arguments.json.read_text())
    for name in arguments.sets:
        with np.load(folder / f"{name}.npz") as file:
            rows = len(file["y"])
        parts, spreads = uncertainty.load(
            folder / f"{name}.npz", 20 if rows < 5000 else 10
        )
        entry = results.setdefault(name, {})
        for recipe in arguments.recipes:
            if recipe in entry:
                continue
            scores = run(parts, spreads, **RECIPES[recipe])
            entry[recipe] = {
                key: [float(f"{s[key]:.5g}") for s in scores]
                for key in ("nll", "rmse")
            }
            nll, rmse = (np.mean(entry[recipe][k]) for k in ("nll", "rmse"))
            print(f"{name:16s} {recipe:32s} {nll:8.3f} {rmse:8.4f}", flush=True)
            arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
