"""
A forecast with intervals for every step
========================================

A recurrent network forecasts the next twelve months of a series at once. The
noise grows with the level, and so do its intervals.
"""

import keras
import matplotlib.pyplot as plt
import numpy as np

import keras_likelihood as kl

keras.utils.set_random_seed(0)
rng = np.random.default_rng(0)
PAST, HORIZON = 36, 12

months = np.arange(420)
level = 100 * np.exp(0.003 * months) * (1 + 0.2 * np.sin(months * np.pi / 6))
series = level * np.exp(0.06 * rng.normal(size=len(months)))

# %%
# A window is divided by the mean of its past, so the network learns ratios.

windows = np.lib.stride_tricks.sliding_window_view(series, PAST + HORIZON)
size = windows[:, :PAST].mean(axis=1, keepdims=True)
ratio = (windows / size).astype("float32")
x, y = ratio[:, :PAST, None], ratio[:, PAST:]
train, held, test = np.split(np.arange(len(x)), [240, 310])

# %%
# ``ScaleHead(HORIZON)`` predicts a mean and a scale for each month ahead.
# ``ConformalIntervals`` widens or narrows each of them until the intervals
# cover what they promise on held-out windows.

inputs = keras.Input((PAST, 1))
h = keras.layers.GRU(32)(inputs)
model = kl.LikelihoodModel(inputs, kl.layers.ScaleHead(HORIZON)(h))
model.adapt(y[train])
model.compile(keras.optimizers.Adam(5e-3), loss=kl.losses.NormalLoss(beta=0.5))
model.fit(x[train], y[train], epochs=40, batch_size=30, verbose=0)
conformal = kl.conformal.ConformalIntervals().fit(model, x[held], y[held])
lower, upper = conformal.model.interval(x[test], 0.9)

# %%

inside = (lower <= y[test]) & (y[test] <= upper)
print(f"covered: {inside.mean():.0%} of all months")
for step in (0, 5, 11):
    width = (upper - lower)[:, step].mean()
    print(
        f"{step + 1:2} months ahead: {inside[:, step].mean():.0%} covered, "
        f"mean width {width:.2f}"
    )

last, scale = test[-1], size[test[-1]]
ahead = np.arange(last + PAST, last + PAST + HORIZON)
figure, ax = plt.subplots(figsize=(9, 3.4), layout="constrained")
ax.plot(months[-72:], series[-72:], color="0.5", label="series")
mean = model.predict(x[test], verbose=0)[0][-1]
ax.plot(ahead, mean * scale, color="#2b6cb0", label="forecast, 90 % intervals")
ax.fill_between(
    ahead, lower[-1] * scale, upper[-1] * scale, color="#2b6cb0", alpha=0.25
)
ax.set(xlabel="month", ylabel="value")
ax.legend(frameon=False)

# %%
# The guarantee holds if the future is like the held-out windows. Here the trend
# continues beyond them, so the coverage is near 90 %, not exactly there.
