"""A classifier that is robust to mislabeled examples.

    python benchmarks/paper/robust_classification.py

Figures 4 and 9, left: two overlapping clusters in the plane and, far from the
boundary, a cluster of mislabeled points, which changes the boundary of logistic
regression. With a temperature predicted from the input, the temperature
increases there instead.
"""

import keras
import numpy as np
from results import WIDTH, mean_and_error, parser, pyplot, record

import keras_likelihood as kl

SPREAD = 0.9
OUTLIERS, CENTER, SEEDS = 20, (-6, 0), 5
"""Number and center of the mislabeled points."""


def make_study(seed, outliers=0, examples=200):
    """Inputs, labels and whether a row is an outlier; outliers come last."""
    rng = np.random.default_rng(seed)
    label = np.arange(examples) % 2
    centers = np.array([[-1.0, 1.0], [1.0, -1.0]])
    x = centers[label] + SPREAD * rng.standard_normal((examples, 2))
    far = np.array(CENTER) + 0.4 * rng.standard_normal((outliers, 2))
    x = np.concatenate([x, far]).astype("float32")
    y = np.concatenate([label, np.ones(outliers, int)])
    return x, y, np.arange(len(x)) >= examples


def fit(x, y, *, temperature, steps, seed):
    """Logistic regression, with or without a predicted temperature."""
    keras.utils.set_random_seed(seed)
    inputs = keras.Input((2,))
    logits = keras.layers.Dense(2)(inputs)
    outputs = logits
    if temperature:
        hidden = keras.layers.Dense(16, activation="relu")(inputs)
        outputs = (
            logits,
            kl.layers.PredictedParameter("softmax", "temperature", 2)(hidden),
        )
    model = kl.LikelihoodModel(inputs, outputs)
    loss = kl.losses.SoftmaxLoss(None if temperature else 1.0)
    decay = keras.optimizers.schedules.CosineDecay(0.05, steps)
    model.compile(keras.optimizers.Adam(decay), loss=loss)
    model.fit(x, y, batch_size=len(x), epochs=steps, verbose=0)
    return model


def predict(model, x):
    """Class numbers and temperatures, `(n,)`."""
    outputs = model.predict_on_batch(x)
    logits, heat = (
        outputs if isinstance(outputs, tuple | list) else (outputs,) * 2
    )
    return np.argmax(logits, axis=-1), np.ravel(heat[:, 0])


def draw(x, y, outlier, models):
    plt = pyplot()
    figure, axes = plt.subplots(1, 3, figsize=(WIDTH, 3.4), sharey=True)
    across = np.linspace(*(x[:, 0].min() - 0.5, x[:, 0].max() + 0.5), 160)
    up = np.linspace(x[:, 1].min() - 0.5, x[:, 1].max() + 0.5, 160)
    grid = np.stack(np.meshgrid(across, up), -1).astype("float32")
    for axis, (name, model) in zip(axes, models.items(), strict=False):
        side, _ = predict(model, grid.reshape(-1, 2))
        side = side.reshape(160, 160)
        axis.contourf(
            across, up, side, levels=1, alpha=0.15, colors=["C0", "C1"]
        )
        axis.set(title=name)
    _, heat = predict(models["predicted temperature"], grid.reshape(-1, 2))
    shown = axes[2].contourf(
        across, up, np.log10(heat.reshape(160, 160)), cmap="magma", levels=12
    )
    figure.colorbar(shown, ax=axes[2], label="log10 of the temperature")
    axes[2].set(title="the temperature")
    for axis in axes:
        for label in (0, 1):
            rows = (y == label) & ~outlier
            axis.plot(*x[rows].T, ".", color=f"C{label}", ms=4)
        axis.plot(*x[outlier].T, "x", color="C1", ms=5, label="mislabeled")
    axes[0].legend(loc="lower right", frameon=True)
    return figure


def compare(steps, seeds):
    """Accuracies by method, and the first figure."""
    names = {"logistic regression": False, "predicted temperature": True}
    accuracy = {name: [] for name in [*names, "best possible"]}
    figure = None
    for seed in range(seeds):
        x, y, outlier = make_study(seed, OUTLIERS)
        x_test, y_test, _ = make_study(1000 + seed, examples=20_000)
        models = {
            name: fit(x, y, temperature=t, steps=steps, seed=seed)
            for name, t in names.items()
        }
        for name, model in models.items():
            accuracy[name].append(np.mean(predict(model, x_test)[0] == y_test))
        # Halfway between the two centers.
        best = (x_test[:, 0] > x_test[:, 1]) == y_test
        accuracy["best possible"].append(np.mean(best))
        figure = figure or draw(x, y, outlier, models)
    return accuracy, figure


def main():
    options = parser(__doc__).parse_args()
    steps, seeds = (5, 1) if options.quick else (300, SEEDS)
    accuracy, figure = compare(steps, seeds)
    table = mean_and_error({n: np.c_[a] for n, a in accuracy.items()})
    for name, values in accuracy.items():
        table["rows"][name].append(np.min(values))
        if "errors" in table:
            table["errors"][name].append(None)
    table["columns"] = ["mean accuracy", "worst seed"]
    data = {"seeds": seeds, "each_seed": accuracy, "tables": {"study1": table}}
    figures = {"study1": figure}
    record("robust_classification", data, figures, quick=options.quick)


if __name__ == "__main__":
    main()
