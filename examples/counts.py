"""
Counts that vary more than a Poisson allows
===========================================

The number of events a day depends on the weather, and varies more than a
Poisson distribution allows. A negative binomial learns by how much.
"""

import keras
import matplotlib.pyplot as plt
import numpy as np

import keras_likelihood as kl

keras.utils.set_random_seed(0)
rng = np.random.default_rng(0)
x = rng.normal(size=(3000, 3)).astype("float32")
rate = np.exp(1.5 + 0.5 * x[:, 0] - 0.3 * x[:, 1] ** 2)
y = rng.poisson(rate * rng.gamma(2.0, 1 / 2.0, size=len(x)))
train, test = np.arange(2000), np.arange(2000, len(x))


def fit(likelihood):
    inputs = keras.Input((3,))
    h = keras.layers.Dense(32, activation="tanh")(inputs)
    head = kl.layers.LikelihoodHead(likelihood, 1)
    model = kl.LikelihoodModel(inputs, head(h))
    loss = kl.losses.LikelihoodLoss(likelihood)
    model.compile(keras.optimizers.Adam(0.01), loss=loss)
    model.fit(x[train], y[train], epochs=20, batch_size=100, verbose=0)
    return model.predict_distribution(x[test], verbose=0)


# %%
# A likelihood is chosen by its name, for the head and for the loss.

figure, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
target = y[test][:, None]
colours = {"poisson": "#c05621", "negative_binomial": "#2b6cb0"}
for name, colour in colours.items():
    predicted = fit(name)
    nll = keras.ops.convert_to_numpy(predicted.nll(target)).mean()
    lower, upper = predicted.interval(0.9)
    inside = ((lower <= target) & (target <= upper)).mean()
    print(f"{name:18} NLL {nll:.3f}, 90 % intervals cover {inside:.0%}")
    draws = keras.ops.convert_to_numpy(predicted.sample(seed=0))
    shares = np.bincount(draws.astype(int).ravel(), minlength=31)[:31]
    ax.plot(shares / len(test), color=colour, label=f"drawn from {name}")
ax.bar(
    np.arange(31),
    np.bincount(y[test], minlength=31)[:31] / len(test),
    color="0.8",
    label="counted",
)
ax.set(xlabel="events a day", ylabel="share of days")
ax.legend(frameon=False)

# %%
# On TensorFlow, the prediction is also a distribution of TensorFlow
# Probability, for programs that expect one.

if keras.backend.backend() == "tensorflow":
    try:
        print(predicted.to_tfp())
    except ModuleNotFoundError as missing:
        print(missing)

# %%
# The intervals of the Poisson are too narrow, because its variance is its mean.
# Those of the negative binomial cover what they promise, and counts drawn from
# it look like those that were counted.
