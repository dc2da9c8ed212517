"""Learning rate of a scale per example, for short and long training.

    KERAS_BACKEND=jax python benchmarks/data_scales.py --json found.json
    python benchmarks/data_scales.py --page found.json

A table has 1,000 rows with two inputs. The target is a smooth function of
these, plus noise with standard deviation 0.2. In 15 % of the rows the noise is
20 times as large. A network with two hidden layers is trained with squared
error, and with `NormalLoss(scale=DataParameter(1000, learning_rate=...))`. The
error is the root mean square distance from the noise-free function on 2,000 new
rows.
"""

import argparse
import json
import pathlib

import keras
import numpy as np
import page_tables

import keras_likelihood as kl

RATES = {"squared error": None, "0.02": 0.02, "default": 0.0, "0.1": 0.1}
"""By name: the learning rate; None for squared error, 0 for the default."""
EPOCHS = (10, 30, 100, 200)
RESULTS = page_tables.RESULTS / "data_scales.json"


def _function(x):
    return np.sin(2 * x[:, 0]) + 0.5 * x[:, 1]


def generate(seed, rows=1000):
    """Inputs and targets, then new inputs and their noise-free targets."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-3, 3, (rows, 2)).astype("float32")
    noise = np.where(rng.random(rows) < 0.15, 4.0, 0.2)
    y = _function(x) + noise * rng.standard_normal(rows)
    new = rng.uniform(-3, 3, (2000, 2)).astype("float32")
    return x, y.astype("float32")[:, None], new, _function(new)


def error(rate, epochs, seed):
    """Distance from the noise-free function after a training."""
    x, y, new, truth = generate(seed)
    keras.utils.set_random_seed(seed)
    inputs = h = keras.Input(x.shape[1:])
    for _ in range(2):
        h = keras.layers.Dense(64, "relu")(h)
    model = kl.LikelihoodModel(inputs, keras.layers.Dense(1)(h))
    scale = rate is not None and kl.DataParameter(
        len(x), learning_rate=rate or None
    )
    loss = kl.losses.NormalLoss(scale=scale) if scale else "mse"
    model.compile(keras.optimizers.Adam(3e-3), loss=loss)
    y = kl.indexed(y) if scale else y
    model.fit(x, y, epochs=epochs, batch_size=32, verbose=0)
    found = model.predict(new, verbose=0).ravel()
    return float(np.sqrt(np.mean(np.square(found - truth))))


def table(results) -> str:
    """Markdown: mean error and standard error by length of training."""
    lines = [
        "| | " + " | ".join(f"{n} epochs" for n in EPOCHS) + " |",
        "|---|" + "---:|" * len(EPOCHS),
    ]
    for name in RATES:
        cells = []
        for epochs in EPOCHS:
            found = [
                r["error"]
                for r in results
                if (r["rate"], r["epochs"]) == (name, epochs)
            ]
            spread = np.std(found, ddof=1) / np.sqrt(len(found))
            cells.append(f"{np.mean(found):.3f} ± {spread:.3f}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=range(5))
    parser.add_argument("--json", help="file for the results")
    parser.add_argument("--page", help="results to show on the page")
    args = parser.parse_args(argv)
    if args.page:
        results = json.loads(pathlib.Path(args.page).read_text())
        RESULTS.write_text(json.dumps(results, indent=1))
        page_tables.fill("studies/data_parameters", {"errors": table(results)})
        return
    results = []
    for seed in args.seeds:
        for epochs in EPOCHS:
            for name, rate in RATES.items():
                found = error(rate, epochs, seed)
                results.append(
                    {
                        "seed": seed,
                        "epochs": epochs,
                        "rate": name,
                        "error": round(found, 4),
                    }
                )
                print(results[-1], flush=True)
                if args.json:
                    pathlib.Path(args.json).write_text(json.dumps(results))


if __name__ == "__main__":
    main()
