"""Recalibrates a saved classifier and serves it as an ordinary Keras model.

    python examples/recalibrate_classifier.py --output report

A small network is trained for too long on noisy labels, so it becomes
overconfident. The calibrated model predicts the same classes with calibrated
probabilities. The figure shows both.
"""

import argparse
import pathlib

import keras
import numpy as np

from keras_likelihood.metrics import functions
from keras_likelihood.plots import compare_reliability
from keras_likelihood.recalibration import LinearFeatureScaling


def make_data(rows, seed):
    """Three overlapping clusters in ten dimensions."""
    random = np.random.default_rng(seed)
    y = random.integers(0, 3, rows)
    centres = np.random.default_rng(0).standard_normal((3, 10))
    x = centres[y] + 1.5 * random.standard_normal((rows, 10))
    return x.astype("float32"), y


def train(folder, epochs):
    """Trains and saves a network that memorises its few examples."""
    x, y = make_data(600, seed=1)
    model = keras.Sequential(
        [
            keras.Input((10,)),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(3, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy")
    model.fit(x, y, epochs=epochs, verbose=0)
    path = folder / "model.keras"
    model.save(path)
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", default="report")
    parser.add_argument("--epochs", type=int, default=60)
    arguments = parser.parse_args()
    folder = pathlib.Path(arguments.output)
    folder.mkdir(parents=True, exist_ok=True)
    keras.utils.set_random_seed(0)

    path = train(folder, arguments.epochs)
    x_val, y_val = make_data(2000, seed=2)
    x_test, y_test = make_data(2000, seed=3)
    np.savez(folder / "val.npz", x=x_val, y=y_val)
    np.savez(folder / "test.npz", x=x_test, y=y_test)

    scaling = LinearFeatureScaling().fit(path, x_val, y_val)
    scaling.model.save(folder / "calibrated.keras")
    before = keras.models.load_model(path).predict(x_test, verbose=0)
    calibrated = keras.models.load_model(folder / "calibrated.keras")
    after = calibrated.predict(x_test, verbose=0)

    for name, p in {"before": before, "after": after}.items():
        nll = functions.negative_log_likelihood(y_test, p)
        ece = functions.expected_calibration_error(y_test, p)
        accuracy = np.mean(p.argmax(axis=1) == y_test)
        print(f"{name:7} NLL {nll:.3f}  ECE {ece:.3f}  accuracy {accuracy:.3f}")
    figure = compare_reliability(y_test, {"before": before, "after": after})
    figure.savefig(folder / "reliability.png", dpi=150)
    print("wrote", folder / "reliability.png")


if __name__ == "__main__":
    main()
