"""Strengths of L1 and L2 that are learned: three panels.

    KERAS_BACKEND=jax python benchmarks/paper/adaptive_regularization.py

Draws the panels of `regularization_panels.py` and records what they show. The
figure has the first draw.
"""

import keras
import numpy as np
import regularization_panels as panels
from results import WIDTH, mean_and_error, parser, pyplot, record

FIRST_SEED = 100
"""Lower seeds are those of the development."""


def heights(axis):
    """What an axis shows, by label: curves, points and levels."""
    return {
        line.get_label(): np.ravel(line.get_ydata()).astype(float)
        for line in axis.lines
    }


def study(seed, size, steps, shares):
    """A figure of one draw, and its errors by panel and method."""
    plt = pyplot()
    keras.utils.set_random_seed(seed)
    figure, axes = plt.subplots(1, 3, figsize=(WIDTH, 3.6))
    panels.draw_ridge(axes[0], size, steps, seed)
    panels.draw_lasso(axes[1], size, steps, seed)
    panels.draw_sparsities(axes[2], size, steps, shares, seed)
    for axis in axes[:2]:
        axis.set(xscale="log")
    for axis in axes:
        axis.set(yscale="log")
        axis.legend(fontsize=9)
    axes[0].set(ylabel="mean squared error of the weights")
    ridge, lasso, sparse = map(heights, axes)
    rows = {}
    for title, found in (("L2", ridge), ("L1", lasso)):
        best = found.pop("any fixed strength").min()
        rows[f"{title}: best fixed strength, known in hindsight"] = [best, 1.0]
        for name, value in found.items():
            rows[f"{title}: {name}"] = [value[0], value[0] / best]
    return figure, {"panels": rows, "shares": sparse}


def main():
    options = parser(__doc__)
    options.add_argument("--size", type=int, default=200)
    options.add_argument("--seeds", type=int, default=5)
    options = options.parse_args()
    size, steps, shares = options.size, 3000, (0.05, 0.1, 0.2, 0.5, 0.8)
    if options.quick:
        size, steps, shares, options.seeds = 20, 10, (0.2, 0.5), 1
    studies = [
        study(FIRST_SEED + i, size, steps, shares) for i in range(options.seeds)
    ]
    columns = {
        "panels": ["error of the weights", "over the best fixed strength"],
        "shares": [f"{share:.0%} not zero" for share in shares],
    }
    data = {"size": size, "seeds": options.seeds, "tables": {}, "each_seed": {}}
    for key, names in columns.items():
        every = {
            row: [list(found[key][row]) for _, found in studies]
            for row in studies[0][1][key]
        }
        data["tables"][key] = {
            "columns": names,
            **mean_and_error(every),
            "digits": 4,
        }
        data["each_seed"][key] = every
    record(
        "adaptive_regularization",
        data,
        {"panels": studies[0][0]},
        quick=options.quick,
    )


if __name__ == "__main__":
    main()
