"""Compares count likelihoods with Poisson regression, on synthetic data.

    KERAS_BACKEND=jax python benchmarks/counts.py

Each set has 1,000 rows for training and 2,000 for testing, five inputs and a
mean that is log-linear in them. The counts are Poisson, overdispersed (negative
binomial with dispersion 0.5) or have 30 % more zeros. Ours are linear models
with an exponential mean. The script prints the NLL of the test counts in nats
minus the NLL of the true distribution, as mean and standard error over ten
sets: 0 is perfect.
"""

import keras
import numpy as np
from scipy import stats
from sklearn.linear_model import PoissonRegressor

import keras_likelihood as kl
from keras_likelihood import likelihoods

TRAIN, TEST, COLUMNS, SETS = 1000, 2000, 5, 10
DISPERSION, ZEROS = 0.5, 0.3
OURS = {
    "Poisson": "poisson",
    "NegativeBinomial": "negative_binomial",
    "ZeroInflated(Poisson)": "zero_inflated(poisson)",
}


def generate(kind, seed):
    """Inputs, counts and the NLL of the counts under the truth."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(TRAIN + TEST, COLUMNS)).astype("float32")
    mean = np.exp(1 + x @ rng.normal(0, 0.3, size=COLUMNS))
    if kind == "spread":
        law = stats.nbinom(1 / DISPERSION, 1 / (1 + DISPERSION * mean))
    else:
        law = stats.poisson(mean)
    y = law.rvs(random_state=rng)
    p = law.pmf
    if kind == "zeros":
        y = np.where(rng.random(len(y)) < ZEROS, 0, y)
        true = (1 - ZEROS) * p(y) + ZEROS * (y == 0)
    else:
        true = p(y)
    return x, y.astype("float32"), -np.log(true)


def build(likelihood):
    inputs = keras.Input((COLUMNS,))
    mean = keras.layers.Dense(1, activation="exponential")(inputs)
    model = kl.LikelihoodModel(inputs, mean)
    model.compile(
        keras.optimizers.Adam(0.02),
        loss=kl.losses.LikelihoodLoss(likelihoods.get(likelihood)),
    )
    return model


def ours(name, x, y):
    """Test NLL of a linear model with a learned dispersion or share."""
    keras.utils.set_random_seed(0)
    model = build(OURS[name])
    model.fit(x[:TRAIN], y[:TRAIN, None], batch_size=200, epochs=200, verbose=0)
    law = model.predict_distribution(x[TRAIN:], batch_size=TEST, verbose=0)
    return keras.ops.convert_to_numpy(law.nll(y[TRAIN:, None]))[:, 0]


def regression(x, y):
    model = PoissonRegressor(alpha=0.0, max_iter=1000).fit(x[:TRAIN], y[:TRAIN])
    return -stats.poisson(model.predict(x[TRAIN:])).logpmf(y[TRAIN:])


def main():
    names = ["scikit-learn Poisson", *OURS]
    print(f"{'counts':10s}" + "".join(f"{n:>26s}" for n in names))
    for kind in ("poisson", "spread", "zeros"):
        rows = []
        for seed in range(SETS):
            x, y, true = generate(kind, seed)
            found = [regression(x, y), *(ours(n, x, y) for n in OURS)]
            rows.append([np.mean(f - true[TRAIN:]) for f in found])
        mean = np.mean(rows, axis=0)
        error = np.std(rows, axis=0, ddof=1) / SETS**0.5
        cells = (f"{m:.4f} ± {e:.4f}" for m, e in zip(mean, error, strict=True))
        print(f"{kind:10s}" + "".join(f"{c:>26s}" for c in cells), flush=True)


if __name__ == "__main__":
    main()
