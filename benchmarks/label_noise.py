"""Compares ways to train on wrong labels and to find them.

Every method trains the same network with the same schedule and is evaluated at
its last epoch, without using the share of wrong labels. The methods are
cross-entropy, also with early stopping on held-out labels and on labels that an
early network agrees with, label smoothing, GCE, data temperatures and
`NoisyLabelsLoss`, which is ELR. cleanlab ranks labels with five out-of-fold
networks.

    python benchmarks/label_noise.py
    KERAS_BACKEND=jax KERAS_LIKELIHOOD_DATA=... \\
        python benchmarks/label_noise.py --data cifar10 --json found.json \\
        --labels clean aggre random1 worse

The first command uses the digits of scikit-learn with randomly changed labels,
and runs on any backend. The second uses CIFAR-10N, whose wrong labels are human
mistakes, from `images/cifar10_jpeg90.npz` and `labels/cifar10n.npz` in that
folder, and needs a GPU. `--data cifar100 --labels 0.4` changes labels of the
hundred classes. Runs that are already in the JSON file are not repeated.

The script prints the accuracy on clean test labels, the average precision of
the ranking of the training labels, and how many labels each method suspects.
"""

import argparse
import json
import os

import keras
import label_noise_methods as methods
import numpy as np
from label_noise_data import load

STOPPED, FOLDS = "stopped by held-out labels", "cleanlab, five folds"
SELECTED = "early selection"
NAMES = [*methods.LOSSES, STOPPED, SELECTED, FOLDS]


def run(name, data, args, seed):
    given = data, args.epochs, args.batch, seed
    if name == STOPPED:
        return methods.stopped(*given)
    if name == SELECTED:
        return methods.selected(*given)
    if name == FOLDS:
        probabilities, seconds = methods.out_of_fold(*given)
        if args.folds:
            os.makedirs(args.folds, exist_ok=True)
            path = os.path.join(args.folds, f"{args.label}-{seed}.npz")
            np.savez(path, p=probabilities.astype("float32"))
        try:
            found = methods.cleanlab_finds(probabilities, data)
        except ModuleNotFoundError:
            found = {}
        return {**found, "seconds": seconds}
    return methods.by_loss(name, *given)


def parse(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--data", choices=["digits", "cifar10", "cifar100"], default="digits"
    )
    parser.add_argument("--labels", nargs="+", default=["0", "0.4", "pairs0.3"])
    parser.add_argument("--methods", nargs="+", default=NAMES, choices=NAMES)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--json", help="file that the results are added to")
    parser.add_argument("--folds", help="folder for out-of-fold probabilities")
    args = parser.parse_args(argv)
    args.batch = args.batch or (32 if args.data == "digits" else 256)
    return args


def main(argv=None):
    args = parse(argv)
    if args.data != "digits":
        keras.config.set_dtype_policy("mixed_bfloat16")
    results = []
    if args.json and os.path.exists(args.json):
        with open(args.json) as file:
            results = json.load(file)
    done = {_key(r) for r in results}
    for label in args.labels:
        args.label = label
        for seed in args.seeds:
            data = load(args.data, label, seed)
            for name in args.methods:
                head = {
                    "data": args.data,
                    "labels": label,
                    "method": name,
                    "epochs": args.epochs,
                    "seed": seed,
                }
                if _key(head) in done:
                    continue
                results.append({**head, **run(name, data, args, seed)})
                print(json.dumps(results[-1]), flush=True)
                if args.json:
                    with open(args.json, "w") as file:
                        json.dump(results, file, indent=1)
    return results


def _key(result):
    return tuple(
        result[k] for k in ("data", "labels", "method", "epochs", "seed")
    )


if __name__ == "__main__":
    main()
