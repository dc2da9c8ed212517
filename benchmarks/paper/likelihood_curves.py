"""Likelihoods as functions of their parameter (Figure 1, equation 8).

    python benchmarks/paper/likelihood_curves.py

A likelihood penalises overconfidence: its loss has one optimal scale for every
size of the error, and one optimal temperature for every accuracy, where the
confidence equals the accuracy. The gradient with respect to the variance has
the opposite sign of the one in the appendix of the paper.
"""

import keras
import numpy as np
from results import WIDTH, parser, pyplot, record

import keras_likelihood as kl

ERRORS = (0.25, 0.5, 1.0, 2.0)
MARGINS = (-1.0, 0.5, 1.0, 2.0)
ACCURACIES = (0.6, 0.75, 0.9, 0.95)


def normal_nll(error, scales):
    """NLL of a target `error` away from the prediction, over the scales."""
    scales = scales[:, None]
    normal = kl.likelihoods.Normal(np.zeros_like(scales), scale=scales)
    nll = normal.nll(np.full_like(scales, error))
    return keras.ops.convert_to_numpy(nll)[:, 0]


def softmax_nll(margin, temperatures):
    """NLL of the first of two classes, `margin` ahead in the logits."""
    logits = np.zeros((len(temperatures), 2), "float32")
    logits[:, 0] = margin
    softmax = kl.likelihoods.Softmax(logits, temperature=temperatures[:, None])
    nll = softmax.nll(np.zeros(len(temperatures), "int32"))
    return keras.ops.convert_to_numpy(nll).reshape(-1)


def draw(scales):
    plt = pyplot()
    figure, axes = plt.subplots(2, 2, figsize=(WIDTH, 6))
    axes = axes.T.ravel()
    grid = np.linspace(-3, 3, 201, dtype="float32")
    for scale in np.array([[0.5], [1.0], [2.0]], "float32"):
        density = [np.exp(-normal_nll(error, scale))[0] for error in grid]
        axes[0].plot(grid, density, label=f"sigma = {scale[0]}")
        # Two classes: the probability of the first as its logit moves.
        chance = [np.exp(-softmax_nll(margin, scale))[0] for margin in grid]
        axes[2].plot(grid, chance, label=f"temperature = {scale[0]}")
    for error in ERRORS:
        nll = normal_nll(error, scales)
        axes[1].plot(scales, nll, label=f"error {error}")
    for margin in MARGINS:
        nll = softmax_nll(margin, scales)
        axes[3].plot(scales, nll, label=f"margin {margin}")
    axes[0].set(title="normal density", xlabel="error")
    axes[1].set(title="normal NLL", xlabel="sigma", xscale="log", ylim=(-1, 6))
    axes[2].set(title="softmax probability", xlabel="margin of the logits")
    axes[3].set(title="softmax NLL", xlabel="temperature", xscale="log")
    axes[3].set(ylim=(0, 4))
    for axis in axes:
        axis.legend()
    return figure


def gradients(error, variance=0.75, step=1e-3):
    """Of the normal NLL with respect to the variance, measured and printed."""
    scales = np.sqrt([variance + step, variance - step]).astype("float32")
    above, below = normal_nll(error, scales)
    printed = (-1 + error**2 / variance) / (2 * variance)
    return [float(above - below) / (2 * step), printed]


def main():
    options = parser(__doc__).parse_args()
    scales = np.geomspace(0.1, 10, 41 if options.quick else 801)
    scales, one = scales.astype("float32"), np.ones(1, "float32")
    normal, softmax = {}, {}
    for error in ERRORS:
        nll = normal_nll(error, scales)
        at_one = normal_nll(error, one)[0]
        normal[f"error {error}"] = [scales[nll.argmin()], nll.min(), at_one]
    for accuracy in ACCURACIES:
        right, wrong = (softmax_nll(margin, scales) for margin in (1.0, -1.0))
        mean = accuracy * right + (1 - accuracy) * wrong
        truth = 1 / np.log(accuracy / (1 - accuracy))
        softmax[f"accuracy {accuracy}"] = [scales[mean.argmin()], truth]
    slopes = {f"error {error}": gradients(error) for error in ERRORS}
    tables = {
        "normal": (["best sigma", "NLL there", "NLL at sigma = 1"], normal),
        "softmax": (["best temperature", "1 / logit(accuracy)"], softmax),
        "variance gradient": (["measured", "equation 8"], slopes),
    }
    data = {
        "tables": {
            name: {"columns": columns, "rows": rows}
            for name, (columns, rows) in tables.items()
        }
    }
    figures = {"curves": draw(scales)}
    record("likelihood_curves", data, figures, quick=options.quick)


if __name__ == "__main__":
    main()
