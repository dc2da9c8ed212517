"""
Which labels are wrong?
=======================

Three labels in ten are changed to another class. A temperature is learned for
every training example. The temperatures of wrong labels become high.
"""

import keras
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import keras_likelihood as kl

keras.utils.set_random_seed(0)
rng = np.random.default_rng(0)
digits, truth = load_digits(return_X_y=True)
x = (digits / 16).astype("float32")
moved = rng.random(len(truth)) < 0.3
y = np.where(moved, (truth + rng.integers(1, 10, len(truth))) % 10, truth)

# %%
# The data parameter is passed to the loss as its temperature. ``kl.indexed``
# numbers the examples.

temperature = kl.DataParameter(len(x))
model = kl.LikelihoodModel.from_model(
    keras.Sequential(
        [
            keras.Input((64,)),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10),
        ]
    )
)
model.compile("adam", loss=kl.losses.SoftmaxLoss(temperature=temperature))
model.fit(x, kl.indexed(y), epochs=40, verbose=0)

# %%

values = temperature.values()
worst = values.argsort()[::-1]
figure = plt.figure(figsize=(9, 3.6), layout="constrained")
left, right = figure.subfigures(1, 2, width_ratios=[1, 1.1])
ax = left.subplots()
bins = np.geomspace(values.min(), values.max(), 40)
ax.hist(values[~moved], bins, color="#2b6cb0", alpha=0.7, label="right label")
ax.hist(values[moved], bins, color="#c05621", alpha=0.7, label="wrong label")
ax.set(xscale="log", xlabel="learned temperature", ylabel="examples")
ax.set_xticks([0.3, 1, 3, 10], labels=["0.3", "1", "3", "10"])
ax.minorticks_off()
ax.legend(frameon=False)
for ax, i in zip(right.subplots(2, 5).flat, worst[:10], strict=True):
    ax.imshow(digits[i].reshape(8, 8), cmap="gray_r")
    ax.set_title(f"called {y[i]}", fontsize=9)
    ax.axis("off")
print(f"wrong among the 100 highest: {moved[worst[:100]].sum()}")

# %%
# A wrong label contradicts what the model learns from the other examples. A
# higher temperature reduces its loss, and then the label has little influence.
# Most wrong labels get a higher temperature than nearly all right ones. The ten
# examples with the highest temperature are shown with the labels that they were
# given. :doc:`/audit` describes a page for reviewing such examples.
