"""Variational auto-encoders of faces with the paper's settings.

    KERAS_BACKEND=jax python benchmarks/paper/literal_vae.py
    python benchmarks/paper/literal_vae.py --runs RUNS.jsonl --only 3

The network of `vae.py` under the robust loss. As in the appendix of the paper,
the scale starts at 1, the steps of shape and scale are a tenth of the others,
their gradients are clipped at norm 1, the shape is an affine sigmoid in [0, 3]
and the scale a softplus. The paper does not give the rest; it is taken from
Barron (2019), whose study the paper repeats: Adam at 1e-3, batches of 64, a
shape that starts in the middle of its range. `isolated` stops the gradient of
shape and scale at the decoder's features. Data parameters follow RMSProp, as in
the paper, at the same tenth of the rate. An image takes one such step in an
epoch, so that they hardly leave their start.

With `--runs`, every training is a line of that file and is not done again;
`--only` names seeds, so that several processes fill it side by side. The call
without `--only` then writes the results. Meant for a GPU.
"""

import keras
import numpy as np
import vae
from results import mean_and_error
from runs import Runs

import keras_likelihood as kl

RATE, MULTIPLIER, CLIPNORM = 1e-3, 0.1, 1.0
START = {"shape": 1.5, "scale": 1.0}
POSITIVE = kl.constraints.ShiftedSoftplus(1e-8)
ROWS = {
    "global 1x1x1": ("global", "scalar"),
    "data 1x1x1": ("data", "scalar"),
    "predicted 1x1x1": ("predicted", "scalar"),
    "global HxWxC": ("global", "element"),
    "data HxWxC": ("data", "element"),
    "predicted HxWxC": ("predicted", "element"),
    "isolated HxWxC": ("isolated", "element"),
}
LEARNING = {"end-to-end": "predicted HxWxC", "isolated": "isolated HxWxC"}
"""Rows with predicted parameters, by how these are learned."""
COUNTED = 0.9
"""Share of the predicted values that a range holds."""


def build(kind, dimension, size, count):
    """A compiled VAE and its data parameters."""
    inputs = keras.Input((size, size, 3))
    data = {}
    if kind == "data":
        head = keras.layers.Conv2D(3, 1)
        data = {
            name: kl.DataParameter(
                count,
                learning_rate=RATE * MULTIPLIER,
                initial=start,
                constraint=POSITIVE if name == "scale" else None,
                dimension=dimension,
            )
            for name, start in START.items()
        }
    else:
        head = kl.layers.RobustRhoHead(
            3,
            conditioning="global" if kind == "global" else "predicted",
            dimension=dimension,
            isolated=kind == "isolated",
            constraint={"scale": POSITIVE},
            initial=START,
            learning_rate_multiplier=MULTIPLIER,
            clipnorm=CLIPNORM,
        )
    model = kl.LikelihoodModel(inputs, head(vae.features(inputs, size)))
    model.compile(
        keras.optimizers.Adam(RATE), loss=kl.losses.RobustRhoLoss(**data)
    )
    return model, list(data.values())


def train(row, x, held, options, seed):
    """Error, and the ranges of the predicted shape and scale."""
    keras.utils.clear_session()
    keras.utils.set_random_seed(seed)
    model, data = build(*ROWS[row], x.shape[1], len(x))
    vae.fit(model, data, x, options)
    decoded, *parameters = vae.reconstruct(model, held, options)
    found = {"error": vae.error_of(decoded, held)}
    outside = (1 - COUNTED) / 2
    for name, values in zip(START, parameters, strict=not data):
        found[name] = np.quantile(values, [outside, 1 - outside]).tolist()
    return found


def main():
    options = vae.parse(__doc__, epochs=60)
    images = vae.faces(options.size, options.images)
    cut = len(images) * 9 // 10
    x, held = images[:cut], images[cut:]
    runs = Runs(options.runs)
    seeds = [int(seed) for seed in options.only] or range(options.seeds)
    every = {row: [] for row in ROWS}
    for seed in seeds:
        for row, found in every.items():
            keys, args = {"variant": row, "seed": seed}, (x, held, options)
            found.append(runs.once(keys, train, row, *args, seed))
    if options.only:
        return
    errors = {n: [run["error"] for run in row] for n, row in every.items()}
    data = {
        "images": cut,
        "size": options.size,
        "epochs": options.epochs,
        "seeds": options.seeds,
        "each_seed": errors,
    }
    data["ranges"] = {
        title: [
            np.mean([run[key] for run in every[name]], axis=0).tolist()
            for key in START
        ]
        for title, name in LEARNING.items()
    }
    data["tables"] = {
        "errors": {
            "columns": ["MSE"],
            **mean_and_error({n: [[e] for e in v] for n, v in errors.items()}),
            "digits": 1,
        }
    }
    runs.record("literal_vae", data, quick=options.quick)


if __name__ == "__main__":
    main()
