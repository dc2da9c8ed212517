"""The chart from the kind of a target to its likelihood."""

import matplotlib.pyplot as plt
import numpy as np
from keras import ops
from matplotlib.patches import FancyBboxPatch

chart = {
    "a number": {
        "errors of one kind, no outliers": "Normal",
        "outliers, or you are not sure": "StudentT",
        "the median matters": "Laplace",
        "tails a little heavier than normal": "Logistic",
        "normal errors and a few large ones": "Huber",
        "learn the tails from the data": "RobustRho",
        "you want certain quantiles": "Quantiles",
        "several answers may be right": "Mixture",
    },
    "a count": {
        "varies about as much as its mean": "Poisson",
        "varies more": "NegativeBinomial",
        "has many zeros": "ZeroInflated",
    },
    "a positive\nnumber": {
        "the spread grows with the mean": "Gamma",
        "a long tail: incomes": "LogNormal",
        "a lifetime, the risk changes": "Weibull",
        "a waiting time, constant risk": "Exponential",
        "its logarithm or root is well-behaved": "Transformed",
    },
    "a share": {"strictly between 0 and 1": "Beta"},
    "an angle": {"in radians": "VonMises"},
    "a class": {
        "yes or no": "Bernoulli",
        "one of several": "Softmax",
        "one of several in an order: grades": "Ordinal",
    },
    "a vector": {
        "its errors are correlated": "MultivariateNormal",
        "and some vectors are wrong": "MultivariateStudentT",
    },
}
around = {
    "not fully\nobserved": {
        "known by bounds: survival times": "Censored",
        "values outside are missing": "Truncated",
        "rounded to a grid": "Rounded",
    }
}

BLUE, GREEN, GREY = "#2b6cb0", "#2f855a", "#718096"
STEP, GAP = 1.0, 0.45
KIND, CASE, NAME = (0.0, 1.75), (2.5, 3.9), (6.9, 3.1)
"""Left edge and width of the three columns."""


def box(axes, column, y, text, colour, filled, height=0.72):
    left, width = column
    axes.add_patch(
        FancyBboxPatch(
            (left, y - height / 2),
            width,
            height,
            boxstyle="round,pad=0,rounding_size=0.2",
            facecolor=colour if filled else "white",
            edgecolor=colour,
        )
    )
    axes.text(
        left + width / 2,
        y,
        text,
        ha="center",
        va="center",
        color="white" if filled else "black",
        fontsize=11,
        family="monospace" if column is NAME else None,
    )


def branch(axes, start, end, colour):
    """A line with two corners from one place to another."""
    (x0, y0), (x1, y1) = start, end
    middle = (x0 + x1) / 2
    axes.plot(
        [x0, middle, middle, x1],
        [y0, y0, y1, y1],
        color=colour,
        linewidth=1.2,
        zorder=0,
    )


def draw(axes, parts, y, colour):
    """Draws kinds of targets downwards from `y`; returns where it ends."""
    for kind, cases in parts.items():
        middle = y - STEP * (len(cases) - 1) / 2
        height = 0.9 if "\n" not in kind else 1.3
        box(axes, KIND, middle, kind, colour, True, height)
        for case, name in cases.items():
            branch(axes, (sum(KIND), middle), (CASE[0], y), colour)
            branch(axes, (sum(CASE), y), (NAME[0], y), colour)
            box(axes, CASE, y, case, colour, False)
            box(axes, NAME, y, name, colour, True)
            y -= STEP
        y -= GAP
    return y


def which_likelihood():
    """Draws the chart."""
    figure, axes = plt.subplots(figsize=(9, 11.5), layout="constrained")
    titles = {
        KIND: "What is your target?",
        CASE: "What about it?",
        NAME: "Your likelihood",
    }
    for (left, width), title in titles.items():
        middle = left + width / 2
        axes.text(middle, 1.0, title, ha="center", color=GREY, size=13)
    end = draw(axes, chart, 0.0, BLUE)
    axes.text(
        0,
        end + 0.1,
        "If you do not see it as it is, wrap a likelihood of numbers:",
        color=GREY,
        size=12,
    )
    end = draw(axes, around, end - 0.9, GREEN)
    axes.set(xlim=(-0.1, 10.1), ylim=(end + 0.6, 1.6))
    axes.axis("off")


def shapes_of_rho():
    """Draws `RobustRho` from the Cauchy to the normal."""
    import keras_likelihood as kl

    residual = np.linspace(-6, 6, 401, dtype="float32")[:, None]
    shapes = {0.0: "Cauchy", 0.5: "", 1.0: "smooth L1", 1.5: "", 2.0: "normal"}

    figure, (left, right) = plt.subplots(
        1, 2, figsize=(9, 3.4), layout="constrained"
    )
    for i, (shape, name) in enumerate(shapes.items()):
        likelihood = kl.likelihoods.RobustRho(0 * residual, shape=shape)
        nll = ops.convert_to_numpy(likelihood.nll(residual))
        colour = plt.get_cmap("viridis")(i / len(shapes))
        label = f"shape {shape} {name}"
        left.plot(residual, nll, color=colour, label=label)
        right.plot(residual[1:], np.diff(nll[:, 0]) / 0.03, color=colour)
    left.set(xlabel="residual / scale", ylabel="negative log-likelihood")
    left.legend(frameon=False)
    right.set(xlabel="residual / scale", ylabel="pull on the prediction")
