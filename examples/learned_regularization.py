"""
L1 that finds its own strength
==============================

Only five of fifty inputs matter. One prior scale per weight is learned together
with the weights, in one run and without a validation set.
"""

import keras
import matplotlib.pyplot as plt
import numpy as np

import keras_likelihood as kl

keras.utils.set_random_seed(0)
rng = np.random.default_rng(0)
true = np.zeros((50, 1))
true[::10, 0] = [1.5, -1.0, 2.0, 1.0, -1.5]
x = rng.normal(size=(200, 50)).astype("float32")
y = (x @ true + rng.normal(size=(200, 1))).astype("float32")


def fit(regularizer):
    inputs = keras.Input((50,))
    dense = keras.layers.Dense(1, kernel_regularizer=regularizer, name="linear")
    model = kl.LikelihoodModel(inputs, dense(inputs))
    decay = keras.optimizers.schedules.CosineDecay(0.05, 1000)
    model.compile(
        keras.optimizers.Adam(decay, beta_2=0.99),
        loss=kl.losses.NormalLoss(),
    )
    # A hundred full batches an epoch, to save Keras the bookkeeping.
    copies = np.tile(x, (100, 1)), np.tile(y, (100, 1))
    model.fit(*copies, batch_size=len(x), epochs=10, shuffle=False, verbose=0)
    return model, dense.get_weights()[0][:, 0]


_, plain = fit(None)
model, sparse = fit(kl.regularizers.MultiLasso(num_examples=len(x)))

# %%

figure, (left, right) = plt.subplots(
    1, 2, figsize=(9, 3.6), layout="constrained"
)
left.stem(true[:, 0], linefmt="0.7", markerfmt="none", basefmt="0.7")
left.plot(plain, ".", color="#c05621", label="no regularization")
left.plot(sparse, "o", mfc="none", color="#2b6cb0", label="MultiLasso")
left.set(xlabel="weight", ylabel="value")
left.legend(frameon=False)
kl.plots.plot_prior_scales(model, ax=right)
for name, weights in {"none": plain, "MultiLasso": sparse}.items():
    error = np.mean((weights - true[:, 0]) ** 2)
    print(f"{name:10} mean square error {error:.5f}")

# %%
# On the left, the grey bars are the true weights. Without regularization, the
# forty-five irrelevant weights (dots) scatter around zero. With ``MultiLasso``
# (circles) they are switched off, and the five relevant weights are not shrunk
# as they would be with a common L1 penalty. The right panel shows why: each
# weight has its own prior, which is wide for relevant weights and narrow for
# the others.
