"""Measures the best temperature for `kl.tabular.Classifier`.

    KERAS_LIKELIHOOD_DATA=data python benchmarks/tabular_temperatures.py

Each row is held out from two of eight members. The best temperatures for one of
them and for both together are extrapolated to all members, as for the
intervals. The script prints the logarithms of the temperatures, and the test
NLL with and without the extrapolated temperature. The results are on
`docs/studies/tables.md`.
"""

import argparse

import keras
import numpy as np
from scipy.optimize import minimize_scalar
from tabular import class_tables, split

import keras_likelihood as kl


def nll_at(p, y, log_temperature=0.0):
    """Mean NLL of probabilities raised to the power 1 / temperature."""
    logits = np.log(np.maximum(p, 1e-12)) / np.exp(log_temperature)
    logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return -logits[np.arange(len(y)), y].mean()


def best_temperature(distribution, y):
    p = keras.ops.convert_to_numpy(distribution.class_probabilities())
    found = minimize_scalar(
        lambda log: nll_at(p, y, log), bounds=(-1.5, 1.5), method="bounded"
    )
    return found.x


class Classifier(kl.tabular.Classifier):
    """Keeps the temperatures of one member and of several."""

    def _calibrated(self, model, held, by_member, y):
        alone = [best_temperature(member, y) for member in by_member]
        one, several = np.mean(alone), best_temperature(held, y)
        self.temperatures = one, several
        if len(alone) > 1:
            count, members = len(alone), model.loss.members
            slope = (one - several) / (1 - 1 / count)
            several -= slope * (1 / count - 1 / members)
        self.temperatures += (several,)
        return super()._calibrated(model, held, (), y)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="*", help="default: all")
    parser.add_argument("--splits", type=int, default=3)
    arguments = parser.parse_args()
    found = []
    for seed in range(arguments.splits):
        for name, x, y in class_tables(arguments.tables):
            train, (x, y) = split(x, y, seed)
            model = Classifier(random_state=seed).fit(*train)
            p, y = model.predict_proba(x), np.searchsorted(model.classes_, y)
            log_temperature = model.temperatures[-1]
            scores = nll_at(p, y), nll_at(p, y, log_temperature)
            found.append([*model.temperatures, *scores])
            print(name, seed, *np.round(found[-1], 3), flush=True)
    columns = "one member", "several", "all", "NLL", "NLL with temperature"
    for name, values in zip(columns, np.transpose(found), strict=True):
        error = values.std(ddof=1) / len(values) ** 0.5
        print(f"{name}: {values.mean():.3f} +- {error:.3f}")


if __name__ == "__main__":
    main()
