"""Learning rate of a scale per example, for short and long training.

    KERAS_BACKEND=jax python benchmarks/data_scales.py

A table has 1,000 rows with two inputs. The target is a smooth function of
these, plus noise with standard deviation 0.2. In 15 % of the rows the noise is
20 times as large. A network with two hidden layers is trained with squared
error, and with `NormalLoss(scale=DataParameter(1000, learning_rate=...))`. The
error is the root mean square distance from the noise-free function on 2,000 new
rows.
"""

import json
import pathlib

import keras
import numpy as np

import keras_likelihood as kl

RATES = {"squared error": None, "0.02": 0.02, "default": 0.0, "0.1": 0.1}
"""By name: the learning rate; None for squared error, 0 for the default."""
EPOCHS = (10, 30, 100, 200)
DOCS = pathlib.Path(__file__).parents[1] / "docs"
RESULTS = DOCS / "results" / "data_scales.json"


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
    gap = model.predict(new, verbose=0).ravel() - truth
    return float(np.sqrt(np.mean(np.square(gap))))


def main():
    results = []
    for seed in range(5):
        for epochs in EPOCHS:
            for name, rate in RATES.items():
                value = round(error(rate, epochs, seed), 4)
                run = {"seed": seed, "epochs": epochs, "rate": name}
                results.append({**run, "error": value})
                print(results[-1], flush=True)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
