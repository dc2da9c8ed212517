"""
Several tasks whose weights are learned
=======================================

A network predicts a class, a mean in thousandths and a sum in thousands at
once. Their losses differ by orders of magnitude. As likelihoods, they weigh
themselves (Kendall, Gal and Cipolla, 2018).
"""

import keras
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import keras_likelihood as kl

keras.utils.set_random_seed(0)
images, digit = load_digits(return_X_y=True)
x = (images / 16).astype("float32")
ink = 1000 * images.sum(axis=1)
balance = 1e-3 * (images[:, :32].mean(axis=1) - images[:, 32:].mean(axis=1))
targets = {"digit": digit, "ink": ink, "balance": balance}
train, test = np.arange(1200), np.arange(1200, len(x))

# %%
# Each loss learns a parameter: the temperature of the classes, and the scales
# of the two numbers. A task with much noise gets a large one, which divides its
# part of the gradient.

inputs = keras.Input((64,))
h = keras.layers.Dense(64, activation="relu")(inputs)
outputs = {
    "digit": keras.layers.Dense(10, name="digit")(h),
    "ink": kl.layers.LikelihoodHead("normal", 1, name="ink")(h),
    "balance": kl.layers.LikelihoodHead("normal", 1, name="balance")(h),
}
model = kl.LikelihoodModel(inputs, outputs)
model.adapt({name: targets[name][train] for name in ("ink", "balance")})
model.compile(
    keras.optimizers.Adam(2e-3),
    loss={
        "digit": kl.losses.SoftmaxLoss(temperature="global"),
        "ink": kl.losses.NormalLoss(),
        "balance": kl.losses.NormalLoss(),
    },
)
history = model.fit(
    x[train],
    {name: y[train] for name, y in targets.items()},
    epochs=40,
    verbose=0,
).history

# %%

predicted = model.predict(x[test], verbose=0)
right = (predicted["digit"].argmax(axis=1) == digit[test]).mean()
print(f"digit    accuracy {right:.3f}")
for name in ("ink", "balance"):
    mean = predicted[name][0][:, 0]
    rest = np.var(mean - targets[name][test]) / np.var(targets[name][test])
    print(f"{name:8} explained variance {1 - rest:.3f}")

figure, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
for name in targets:
    ax.plot(history[f"{name}_loss"], label=name)
ax.set(xlabel="epoch", ylabel="negative log-likelihood")
ax.legend(frameon=False)

# %%
# All three tasks are learned, although nobody chose a loss weight. With squared
# errors, the sum in thousands would drown the mean in thousandths.
