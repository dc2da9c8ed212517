"""Draws the four pictures of the README: docs/_static/four_pictures.png.

    python tools/make_strip.py

Each comes from an example of the gallery, which runs first (a minute).
"""

import io
import pathlib
import runpy

import matplotlib
import numpy as np
from PIL import Image

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from keras import ops  # noqa: E402

DOCS = pathlib.Path(__file__).parents[1] / "docs"
BLUE, ORANGE, GREY = "#2b6cb0", "#c05621", "#a0aec0"


def example(name: str) -> dict:
    """What is left after an example of the gallery has run."""
    (path,) = (DOCS / "gallery").glob(f"plot_?_{name}.py")
    found = runpy.run_path(str(path))
    plt.close("all")
    return found


def robust_curve(axes):
    found = example("three_losses")
    grid = np.linspace(-2, 2, 200, dtype="float32")[:, None]
    axes.plot(found["x"], found["y"], ".", color=GREY, markersize=2)
    law = found["models"]["+ learned shape"].predict_distribution(
        grid, verbose=0
    )
    low, high = (ops.convert_to_numpy(p)[:, 0] for p in law.interval(0.9))
    axes.fill_between(grid[:, 0], low, high, color=BLUE, alpha=0.3)
    mse = found["models"]["squared error"].predict(grid, verbose=0)
    axes.plot(grid, mse, color=ORANGE, label="squared error")
    middle = ops.convert_to_numpy(law.quantile(0.5))
    axes.plot(grid, middle, color=BLUE, label="learned shape, 90 %")
    axes.set_title("Wrong targets do not bend it")
    axes.set(xlabel="x", ylabel="y", ylim=(-3, 7))
    axes.legend(frameon=False, fontsize=8, loc="upper left")


def calibrated(axes):
    found = example("recalibration")
    x, y = found["x_test"], found["y_test"]
    axes.plot([0.3, 1], [0.3, 1], color="0.5", linewidth=1)
    models = {"as trained": found["network"]}
    models["recalibrated"] = found["scaling"].model
    for (name, model), color in zip(
        models.items(), (ORANGE, BLUE), strict=True
    ):
        p = model.predict(x, verbose=0)
        sure, right = p.max(axis=1), p.argmax(axis=1) == y
        bins = np.digitize(sure, np.linspace(0.35, 1, 9))
        used = [b for b in np.unique(bins) if (bins == b).sum() > 20]
        points = [[v[bins == b].mean() for b in used] for v in (sure, right)]
        axes.plot(*points, "o-", color=color, label=name, markersize=4)
    axes.set_title("Its confidence can be believed")
    axes.set(xlabel="confidence", ylabel="share that is right")
    axes.legend(frameon=False, fontsize=8, loc="upper left")


def wrong_labels(axes):
    found = example("wrong_labels")
    values, moved = found["values"], found["moved"]
    bins = np.geomspace(values.min(), values.max(), 40)
    style = {"bins": bins, "alpha": 0.75}
    axes.hist(values[~moved], color=BLUE, label="right label", **style)
    axes.hist(values[moved], color=ORANGE, label="wrong label", **style)
    axes.set_title("It finds the wrong labels")
    axes.set(xscale="log", xlabel="learned temperature", ylabel="examples")
    axes.set_xticks([0.5, 1, 2], labels=["0.5", "1", "2"])
    axes.minorticks_off()
    axes.legend(frameon=False, fontsize=8)


def sparse_weights(axes):
    found = example("sparse_weights")
    axes.stem(found["true"][:, 0], linefmt=GREY, markerfmt="none", basefmt=GREY)
    axes.plot(found["plain"], ".", color=ORANGE, label="no prior")
    axes.plot(found["sparse"], "o", mfc="none", color=BLUE, label="learned")
    axes.set_title("It switches off idle weights")
    axes.set(xlabel="weight", ylabel="value")
    axes.legend(frameon=False, fontsize=8)


def main():
    figure, panels = plt.subplots(1, 4, figsize=(14, 3.1), layout="constrained")
    draws = (robust_curve, calibrated, wrong_labels, sparse_weights)
    for draw, axes in zip(draws, panels, strict=True):
        draw(axes)
        axes.spines[["top", "right"]].set_visible(False)
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=120)
    target = DOCS / "_static" / "four_pictures.png"
    # A few colours will do, and make the file several times smaller.
    picture = Image.open(drawn).convert("RGB").quantize(48)
    picture.save(target, optimize=True)
    print(target, target.stat().st_size)


if __name__ == "__main__":
    main()
