"""
One loss from Cauchy to normal
==============================

The shape of the robust likelihood interpolates between losses that are usually
chosen by hand.
"""

import matplotlib.pyplot as plt
import numpy as np
from keras import ops

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

# %%
# On the left, all curves are complete likelihoods, so they can be compared: the
# normal NLL is the lowest for small residuals and the highest for large ones.
# This is why the shape can be *learned*: without its normaliser, the flattest
# loss would always be the lowest.
#
# On the right is the slope, which is the influence of an example on the
# prediction. For the normal distribution it grows without bound. For the Cauchy
# distribution it decreases again: the further away a target is, the less
# influence it has.
