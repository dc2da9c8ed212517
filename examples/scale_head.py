"""
A scale for every prediction
============================

A functional Keras model gets a ``ScaleHead`` in place of its last layer. It
then predicts the progress of diabetes together with the uncertainty of each
prediction.
"""

import keras
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes

import keras_likelihood as kl

keras.utils.set_random_seed(0)
x, y = load_diabetes(return_X_y=True)
x = (x / x.std(axis=0)).astype("float32")
train, test = np.split(np.random.default_rng(0).permutation(len(x)), [300])

# %%
# ``beta=0.5`` keeps the prediction as good as that of squared error (beta-NLL,
# Seitzer and others, 2022), and ``adapt`` tells the head the units of the
# targets.

inputs = keras.Input((10,))
h = keras.layers.Dense(16, activation="tanh")(inputs)
outputs = kl.layers.ScaleHead(1)(h)  # was keras.layers.Dense(1)
model = kl.LikelihoodModel(inputs, outputs)  # was keras.Model
model.adapt(y[train])
model.compile(
    keras.optimizers.Adam(3e-3, weight_decay=0.1),
    loss=kl.losses.NormalLoss(beta=0.5),  # was "mse"
    metrics=["mae"],
)
model.fit(x[train], y[train], epochs=20, batch_size=30, verbose=0)

# %%
# ``predict_distribution`` gives the whole distribution of each patient.

predicted = model.predict_distribution(x[test], verbose=0)
lower, upper = (end[:, 0] for end in predicted.interval(0.9))
inside = (lower <= y[test]) & (y[test] <= upper)
print(f"{inside.mean():.0%} of the new patients are in the 90 % interval")

order = np.argsort(upper - lower)
figure, ax = plt.subplots(figsize=(9, 3.4), layout="constrained")
place = np.arange(len(test))
ax.vlines(place, lower[order], upper[order], color="#2b6cb0", alpha=0.4)
ax.plot(place, y[test][order], ".", color="#c05621", label="measured")
ax.set(xlabel="patients, by the width of the interval", ylabel="progress")
ax.legend(frameon=False)

# %%
# The intervals of some patients are twice as wide as those of others. About
# nine in ten contain what was measured, so the scales are honest on average.
