"""Charts of the pages."""

import matplotlib.pyplot as plt

BLUE, GREY = "#2b6cb0", "#a0aec0"


def one_idea():
    """A likelihood in the middle, and what is made of it around it."""
    figure, axes = plt.subplots(figsize=(7, 2.8))
    axes.set(xlim=(0, 10), ylim=(0, 4))
    axes.axis("off")
    around = {
        (1.6, 3.3): "head\npredicts its parameters",
        (5.0, 3.3): "loss\nits negative logarithm",
        (8.4, 3.3): "data parameter\none value per example",
        (1.6, 0.6): "recalibrator\nfitted on a frozen model",
        (5.0, 0.6): "outlier detector\nits scale is the score",
        (8.4, 0.6): "regularizer\na likelihood on weights",
    }
    style = {"ha": "center", "va": "center"}
    for (x, y), text in around.items():
        axes.plot([5, x], [2, y], color=GREY, zorder=0)
        box = {"boxstyle": "round", "fc": "white", "ec": GREY}
        axes.text(x, y, text, fontsize=9, bbox=box, **style)
    box = {"boxstyle": "round", "fc": BLUE, "ec": BLUE}
    axes.text(
        5, 2, "likelihood", color="white", weight="bold", bbox=box, **style
    )
