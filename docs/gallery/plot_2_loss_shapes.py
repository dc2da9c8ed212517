"""
One loss from Cauchy to normal
==============================

The shape of the robust likelihood slides between the losses that are usually
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
# On the left, all curves are complete likelihoods, so they may be compared:
# the normal one is the lowest for small residuals and the dearest for large
# ones. That is why the shape can be *learned*: without its normaliser the
# flattest loss would always win.
#
# On the right is the slope, the pull of an example on the prediction. Under
# the normal it grows without end. Under the Cauchy it falls again: the
# further off a target is, the less it is believed.
