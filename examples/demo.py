"""
Three stories in a minute
=========================

A curve with gross errors, a table whose predictions are intervals, and digits
with wrong labels. ``make demo`` runs this program.
"""

import logging
import pathlib

import keras
import matplotlib.pyplot as plt
import numpy as np
from keras.layers import Dense
from sklearn.datasets import load_diabetes, load_digits

import keras_likelihood as kl

logging.getLogger("tensorflow").setLevel(logging.ERROR)
rng = np.random.default_rng(0)
figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")

# %%
# One target in ten of this curve is far too large. With a learned shape, the
# likelihood has heavy tails, and the prediction follows the true curve.

x = rng.uniform(-2, 2, size=(600, 1)).astype("float32")
y = np.sin(2 * x) + 0.5 * x + 0.15 * rng.normal(size=x.shape)
y += (rng.random(x.shape) < 0.1) * rng.uniform(2, 5, size=x.shape)
robust = kl.layers.RobustRhoHead(1, conditioning={"shape": "global"})
losses = {
    "squared error": (Dense(1), kl.losses.NormalLoss()),
    "predicted scale": (kl.layers.ScaleHead(1), kl.losses.NormalLoss()),
    "learned shape": (robust, kl.losses.RobustRhoLoss()),
}
grid, errors = np.linspace(-2, 2, 100, dtype="float32")[:, None], []
truth = np.sin(2 * grid) + 0.5 * grid
axes[0].plot(x, y, ".", color="0.8", markersize=3)
axes[0].plot(grid, truth, "k--", label="truth")
for name, (head, loss) in losses.items():
    keras.utils.set_random_seed(0)
    inputs = hidden = keras.Input((1,))
    for _ in range(2):
        hidden = Dense(32, activation="relu")(hidden)
    model = kl.LikelihoodModel(inputs, head(hidden))
    model.compile(keras.optimizers.Adam(0.005), loss=loss)
    model.fit(x, y, batch_size=60, epochs=60, verbose=0)
    fit = np.asarray(model.predict_distribution(grid, verbose=0).prediction)
    errors.append(f"{name} {np.mean((fit - truth) ** 2) ** 0.5:.2f}")
    axes[0].plot(grid, fit, label=name)
axes[0].set(title="one target in ten is far too large", xlabel="x", ylabel="y")
axes[0].legend(frameon=False, fontsize=8)
print(f"Gross errors: the distance to the true curve is {', '.join(errors)}.")

# %%
# A table of 442 patients in, a calibrated distribution for each new one out.

x, y = load_diabetes(return_X_y=True)
train, test = np.split(rng.permutation(len(x)), [242])
model = kl.tabular.Regressor(random_state=0).fit(x[train], y[train])
low, high = model.interval(x[test], 0.9)
inside = ((low <= y[test]) & (y[test] <= high)).mean()
order = model.predict(x[test]).argsort()
axes[1].fill_between(np.arange(200), low[order], high[order], alpha=0.3)
axes[1].plot(y[test][order], "k.", markersize=3)
axes[1].set(title="90 % intervals of new patients", ylabel="progression")
print(f"A table: the 90 % intervals contain {inside:.0%} of new patients.")

# %%
# Of 1,797 digits, 15 % have a wrong label. The audit ranks all labels.

x, truth = load_digits(return_X_y=True)
x, moved = x.reshape(-1, 8, 8), rng.random(len(truth)) < 0.15
y = np.where(moved, (truth + rng.integers(1, 10, len(truth))) % 10, truth)
report = kl.audit(kl.auditing.train_for_audit(x, y), x, y, output=None)
suspects = report.suspects()
share, framed = moved[suspects].mean(), np.pad(x, [(0, 0), (4, 1), (2, 2)])
print(f"Digits: {share:.0%} of {len(suspects)} suspected labels are wrong.")
worst = suspects[:15].reshape(3, 5)
tiles = np.block([[framed[i] for i in row] for row in worst])
axes[2].imshow(tiles, cmap="gray_r")
for (down, across), i in np.ndenumerate(worst):
    axes[2].text(12 * across, 13 * down + 2, y[i], color="#c05621")
axes[2].set(title="the most suspicious labels", xticks=[], yticks=[])

pathlib.Path("report").mkdir(exist_ok=True)
figure.savefig("report/demo.png")
print("The figure is in report/demo.png")
