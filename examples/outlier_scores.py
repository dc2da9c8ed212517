"""
Outliers by predicted scale
===========================

An auto-encoder predicts its reconstruction and the scale of its error. A large
predicted scale indicates an outlier.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import keras_likelihood as kl

digits, label = load_digits(return_X_y=True)
rng = np.random.default_rng(0)
zeros = digits[label == 0]
strange = digits[rng.permutation(np.flatnonzero(label != 0))[:10]]
x = np.concatenate([zeros, strange])
is_strange = np.arange(len(x)) >= len(zeros)

# %%
# The data are 178 zeros and ten other digits. The detector uses only the
# pixels, and ``contamination`` only sets the threshold.

detector = kl.outliers.PCAScale(
    contamination=10 / 188, steps=600, random_state=0
).fit(x)

# %%

score = detector.decision_scores_
figure = plt.figure(figsize=(9, 3.6), layout="constrained")
left, right = figure.subfigures(1, 2, width_ratios=[1, 1.1])
ax = left.subplots()
bins = np.linspace(score.min(), score.max(), 40)
ax.hist(score[~is_strange], bins, color="#2b6cb0", alpha=0.7, label="zeros")
ax.hist(score[is_strange], bins, color="#c05621", alpha=0.7, label="others")
ax.axvline(detector.threshold_, color="k", lw=1, ls="--", label="threshold")
ax.set(xlabel="log predicted scale", ylabel="images")
ax.legend(frameon=False)
worst = score.argsort()[::-1][:12]
for ax, i in zip(right.subplots(2, 6).flat, worst, strict=True):
    ax.imshow(x[i].reshape(8, 8), cmap="gray_r")
    ax.set_title("other" if is_strange[i] else "zero", fontsize=9)
    ax.axis("off")
print(f"others among the ten highest: {is_strange[worst[:10]].sum()}")

# %%
# The zeros have small scales, because the linear auto-encoder reconstructs them
# well. Nearly all other digits lie to the right of the threshold. The twelve
# images with the highest scores are on the right, the highest first. A zero
# among them is written in an unusual way.
