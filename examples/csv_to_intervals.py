"""
From a CSV file to intervals
============================

``kl.tabular.Regressor`` reads a CSV file and predicts an interval for each row.
Texts, dates and empty cells would be read as they are. Here the file contains
442 patients and how far their diabetes progressed within a year.
"""

import pathlib
import tempfile

import matplotlib.pyplot as plt
import numpy as np

import keras_likelihood as kl

here = pathlib.Path(globals().get("__file__", ".")).parent
lines = (here / "diabetes.csv").read_text().splitlines()
head, rows = lines[0], np.random.default_rng(0).permutation(lines[1:])

# %%
# One file for the training, another one for the new patients.

folder = pathlib.Path(tempfile.mkdtemp())
known, new = folder / "known.csv", folder / "new.csv"
known.write_text("\n".join([head, *rows[:342]]))
new.write_text("\n".join([head, *rows[342:]]))
model = kl.tabular.Regressor(random_state=0)
model.fit(known, target="progression")
print(model.summary())

# %%
# Each new patient gets a prediction and an interval, calibrated on rows that
# the networks did not see.

measured = np.array([float(row.split(",")[-1]) for row in rows[342:]])
prediction = model.predict(new)
lower, upper = model.interval(new, 0.9)
inside = (lower <= measured) & (measured <= upper)
error = np.sqrt(np.mean((prediction - measured) ** 2))
print(f"rmse {error:.1f}, {inside.mean():.0%} in the 90 % interval")

order = prediction.argsort()
place = np.arange(len(order))
figure, ax = plt.subplots(figsize=(9, 3.4), layout="constrained")
ax.fill_between(place, lower[order], upper[order], color="#2b6cb0", alpha=0.25)
ax.plot(prediction[order], color="#2b6cb0", label="prediction, 90 % interval")
ax.plot(measured[order], ".", color="#c05621", label="measured")
ax.set(xlabel="new patients, by prediction", ylabel="progression")
ax.legend(frameon=False)

# %%
# About nine in ten of the new patients are inside their interval. From the
# shell, ``keras-likelihood fit known.csv --target progression`` does the same
# and writes a page about the model.
