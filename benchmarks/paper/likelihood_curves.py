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


def as_numpy(tensor):
    return keras.ops.convert_to_numpy(tensor)[:, 0]


def normal_nll(error, scales):
    """NLL of a target `error` away from the prediction, over the scales."""
    scales = scales[:, None]
    law = kl.likelihoods.Normal(np.zeros_like(scales), scale=scales)
    return as_numpy(law.nll(np.full_like(scales, error)))


def softmax_nll(margin, temperatures):
    """NLL of the first of two classes, `margin` ahead in the logits."""
    logits = np.zeros((len(temperatures), 2), "float32")
    logits[:, 0] = margin
    law = kl.likelihoods.Softmax(logits, temperature=temperatures[:, None])
    nll = law.nll(np.zeros(len(temperatures), "int32"))
    return keras.ops.convert_to_numpy(nll).reshape(-1)


def draw(scales):
    plt = pyplot()
    figure, axes = plt.subplots(2, 2, figsize=(WIDTH, 6))
    axes = axes.T.ravel()
    grid = np.linspace(-3, 3, 201, dtype="float32")
    for scale in (0.5, 1.0, 2.0):
        density = np.exp(-normal_nll_of_grid(grid, scale))
        axes[0].plot(grid, density, label=f"sigma = {scale}")
        # Two classes: the probability of the first as its logit moves.
        chance = [
            np.exp(-softmax_nll(z, np.array([scale], "float32")))[0]
            for z in grid
        ]
        axes[2].plot(grid, chance, label=f"temperature = {scale}")
    for error in ERRORS:
        (line,) = axes[1].plot(scales, normal_nll(error, scales))
        line.set_label(f"error {error}")
    for margin in MARGINS:
        axes[3].plot(
            scales, softmax_nll(margin, scales), label=f"margin {margin}"
        )
    axes[0].set(title="normal density", xlabel="error")
    axes[1].set(title="normal NLL", xlabel="sigma", xscale="log", ylim=(-1, 6))
    axes[2].set(title="softmax probability", xlabel="margin of the logits")
    axes[3].set(title="softmax NLL", xlabel="temperature", xscale="log")
    axes[3].set(ylim=(0, 4))
    for axis in axes:
        axis.legend()
    return figure


def normal_nll_of_grid(grid, scale):
    law = kl.likelihoods.Normal(np.zeros_like(grid)[:, None], scale=scale)
    return as_numpy(law.nll(grid[:, None]))


def gradients(error, variance=0.75, step=1e-3):
    """Of the normal NLL with respect to the variance, measured and printed."""
    scales = np.sqrt([variance + step, variance - step]).astype("float32")
    above, below = normal_nll(error, scales)
    printed = (-1 + error**2 / variance) / (2 * variance)
    return [float(above - below) / (2 * step), printed]


def main():
    options = parser(__doc__).parse_args()
    scales = np.geomspace(0.1, 10, 41 if options.quick else 801)
    scales = scales.astype("float32")
    best = {e: scales[normal_nll(e, scales).argmin()] for e in ERRORS}
    heats = {}
    for accuracy in ACCURACIES:
        right, wrong = (softmax_nll(margin, scales) for margin in (1.0, -1.0))
        mean = accuracy * right + (1 - accuracy) * wrong
        heats[accuracy] = scales[mean.argmin()]
    truth = {a: 1 / np.log(a / (1 - a)) for a in ACCURACIES}
    data = {
        "largest_gap": max(abs(best[e] / e - 1) for e in ERRORS),
        "largest_gap_softmax": max(
            abs(heats[a] / truth[a] - 1) for a in ACCURACIES
        ),
        "step": scales[1] / scales[0] - 1,
        "tables": {
            "normal": {
                "columns": ["best sigma", "NLL there", "NLL at sigma = 1"],
                "rows": {
                    f"error {e}": [
                        best[e],
                        normal_nll(e, scales).min(),
                        normal_nll(e, np.ones(1, "float32"))[0],
                    ]
                    for e in ERRORS
                },
            },
            "softmax": {
                "columns": ["best temperature", "1 / logit(accuracy)"],
                "rows": {
                    f"accuracy {a}": [heats[a], truth[a]] for a in ACCURACIES
                },
            },
            "variance gradient": {
                "columns": ["measured", "equation 8"],
                "rows": {f"error {e}": gradients(e) for e in ERRORS},
            },
        },
    }
    record(
        "likelihood_curves", data, {"curves": draw(scales)}, quick=options.quick
    )


if __name__ == "__main__":
    main()
