"""The normal and the softmax likelihood as functions of their parameter.

    python benchmarks/paper/nll_curves.py

A likelihood penalises overconfidence: its loss has one optimal scale
(temperature) for every size of the error (every margin of the logits).
"""

import keras
import numpy as np
from results import WIDTH, parser, pyplot, record

import keras_likelihood as kl

ERRORS = (0.25, 0.5, 1.0, 2.0)
MARGINS = (-1.0, 0.5, 1.0, 2.0)


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


def main():
    options = parser(__doc__).parse_args()
    scales = np.geomspace(0.1, 10, 41 if options.quick else 801)
    scales = scales.astype("float32")
    best = {e: scales[normal_nll(e, scales).argmin()] for e in ERRORS}
    softmax = {m: softmax_nll(m, scales) for m in MARGINS}
    data = {
        "largest_gap": max(abs(best[e] / e - 1) for e in ERRORS),
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
                "columns": ["best temperature searched", "NLL there"],
                "rows": {
                    f"margin {m}": [scales[n.argmin()], n.min()]
                    for m, n in softmax.items()
                },
            },
        },
    }
    record("nll_curves", data, {"curves": draw(scales)}, quick=options.quick)


if __name__ == "__main__":
    main()
