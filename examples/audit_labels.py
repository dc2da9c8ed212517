"""Shows the wrong labels of a data set on a page.

    python examples/audit_labels.py

Four in ten labels of scikit-learn's digits are changed to another class. A
network with a temperature for every training image is trained on them, and the
page `audit.html` shows the most suspicious images. For comparison, the same
network is trained equally long with plain cross-entropy, and its loss ranks the
images. For each seed and both rankings, the script prints:

- the share of wrong labels among the first 100 images, and among as many
  images as there are wrong labels;
- precision and recall of the labels that confident learning suspects.
"""

import argparse

import keras
import numpy as np

import keras_likelihood as kl


def digits(noise, rng):
    """8x8 digits; a share `noise` of the labels is changed."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    x = (x.reshape(-1, 8, 8, 1) / 16).astype("float32")
    wrong = rng.random(len(x)) < noise
    given = y.copy()
    given[wrong] = (given[wrong] + rng.integers(1, 10, wrong.sum())) % 10
    return x, given, wrong


def train(x, y, temperature, epochs):
    """Trains a small convolutional network on right and wrong labels."""
    inputs = keras.Input(x.shape[1:])
    h = keras.layers.Conv2D(16, 3, padding="same", activation="relu")(inputs)
    h = keras.layers.MaxPooling2D()(h)
    h = keras.layers.Flatten()(h)
    h = keras.layers.Dense(128, activation="relu")(h)
    model = kl.LikelihoodModel(inputs, keras.layers.Dense(10)(h))
    model.compile(
        keras.optimizers.Adam(1e-3),
        loss=kl.losses.SoftmaxLoss(temperature=temperature),
    )
    data = isinstance(temperature, kl.DataParameter)
    model.fit(
        x,
        kl.indexed(y) if data else y,
        batch_size=64,
        epochs=epochs,
        verbose=0,
    )
    return model


def compare(args, seed):
    """Audits a plain and a tempered network; returns the numbers printed."""
    keras.utils.set_random_seed(seed)
    x, y, wrong = digits(args.noise, np.random.default_rng(seed))
    plain = kl.audit(train(x, y, 1.0, args.epochs), x, y, None)
    temperature = kl.DataParameter(len(x), learning_rate=0.02)
    model = train(x, y, temperature, args.epochs)
    tempered = kl.audit(
        model,
        x,
        y,
        args.output if seed == 0 else None,
        title="Digits with wrong labels",
    )
    numbers = {"share of wrong labels": wrong.mean()}
    for name, report in {"loss": plain, "temperature": tempered}.items():
        suspected = report.label_issues["is_label_issue"]
        hits = (suspected & wrong).sum()
        ranked = wrong[report.ranked()]
        numbers |= {
            f"{name}: wrong among the first 100": ranked[:100].mean(),
            f"{name}: wrong among as many": ranked[: wrong.sum()].mean(),
            f"{name}: precision of the suspected": hits / suspected.sum(),
            f"{name}: recall of the suspected": hits / wrong.sum(),
        }
    return numbers


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--noise", type=float, default=0.4)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--output", default="audit.html")
    args = parser.parse_args(argv)
    results = [compare(args, seed) for seed in range(args.seeds)]
    for name in results[0]:
        values = "  ".join(f"{r[name]:.3f}" for r in results)
        print(f"{name:40} {values}")
    print(f"wrote {args.output}")
    return results


if __name__ == "__main__":
    main()
