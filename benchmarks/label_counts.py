"""How many wrong labels does an audit of a table suspect?

The network of `keras-likelihood audit --data` is trained on tables from
scikit-learn and on synthetic tables, with a share of the labels changed to a
random other class. The script prints the number of wrong labels, of suspected
labels, and of suspected labels that are wrong, and the two expected numbers on
the audit page: one for inputs that determine their class, and one for
overlapping classes.

    python benchmarks/label_counts.py --json docs/results/label_counts.json
"""

import argparse
import json

import numpy as np
from sklearn.datasets import (
    load_breast_cancer,
    load_iris,
    load_wine,
    make_classification,
)

import keras_likelihood as kl
from keras_likelihood.auditing import train_for_audit
from keras_likelihood.auditing.label_issues import (
    SHARPNESS,
    expected_wrong,
    true_class_probabilities,
)

SHARES = (0.0, 0.1, 0.3)


def tables():
    """`{name: (x, y)}`, from classes apart to classes that overlap."""
    apart = {"n_informative": 12, "n_classes": 8, "class_sep": 2.5}
    near = {"n_informative": 8, "n_classes": 5, "class_sep": 1.5}
    return {
        "wine": load_wine(return_X_y=True),
        "iris": load_iris(return_X_y=True),
        "breast cancer": load_breast_cancer(return_X_y=True),
        "eight generated classes, far apart": make_classification(
            3000, 30, flip_y=0, random_state=1, **apart
        ),
        "five generated classes that overlap": make_classification(
            2000, 20, flip_y=0, random_state=0, **near
        ),
    }


def audited(x, y, share, seed):
    """Numbers of one audit, as integers."""
    rng = np.random.default_rng(seed)
    classes = y.max() + 1
    wrong = rng.random(len(y)) < share
    moved = (y + rng.integers(1, classes, len(y))) % classes
    given = np.where(wrong, moved, y)
    x = np.asarray(x, "float32")
    own = train_for_audit(x, given, seed=seed)
    report = kl.audit(own.model, x, given, None)
    suspects = report.suspects()
    memory = own.data_parameter.values()
    sure, overlapping = (
        expected_wrong(given, true_class_probabilities(given, memory, power))
        for power in (SHARPNESS, 1.0)
    )
    return {
        "rows": len(y),
        "wrong": int(wrong.sum()),
        "suspected": len(suspects),
        "rightly": int(wrong[suspects].sum()),
        "sure": round(sure),
        "overlapping": round(min(overlapping, sure)),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", help="file to write the numbers to")
    arguments = parser.parse_args()
    found: dict = {}
    for name, (x, y) in tables().items():
        for share in SHARES:
            runs = [audited(x, y, share, s) for s in range(arguments.seeds)]
            found.setdefault(name, {})[str(share)] = runs
            means = {k: np.mean([run[k] for run in runs]) for k in runs[0]}
            text = ", ".join(f"{k} {v:,.0f}" for k, v in means.items())
            print(f"{name}: {text}", flush=True)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
