"""Recalibration curves for different offsets of the softplus (Figure 13).

    KERAS_BACKEND=jax python benchmarks/paper/softplus_offset.py

A temperature is predicted from the features of a ResNet-50 on CIFAR-100,
trained on the validation set and evaluated on the test set, with the
temperature constrained by shifted softplus functions of different offsets and
by the exponential, at several step sizes, with and without normalisation of
the features.
"""

import keras
import numpy as np
from get_data import logits
from results import BELOW, WIDTH, parallel, parser, pyplot, record

import keras_likelihood as kl

CONSTRAINTS = {
    "exp": kl.constraints.Exp(),
    "offset 0": kl.constraints.ShiftedSoftplus(0.0),
    "offset 0.01": kl.constraints.ShiftedSoftplus(0.01),
    "offset 0.2": kl.constraints.ShiftedSoftplus(0.2),
    "offset 1": kl.constraints.ShiftedSoftplus(1.0),
}
STUDIES = {
    f"rate {rate}, {normalize or 'no'} normalisation": (rate, normalize)
    for normalize in (None, "batch", "layer")
    for rate in (1e-4, 1e-3, 1e-2)
}


def train(data, *, learning_rate, epochs, normalize, rng):
    """Curves of all constraints, trained side by side in one model."""
    features = keras.Input((data["features_val"].shape[1],))
    scores = keras.Input((data["logits_val"].shape[1],))
    outputs = {
        f"branch{i}": (
            scores,
            kl.layers.PredictedParameter(
                "softmax",
                "temperature",
                scores.shape[-1],
                constraint=constraint,
                normalize=normalize,
            )(features),
        )
        for i, constraint in enumerate(CONSTRAINTS.values())
    }
    model = kl.LikelihoodModel([features, scores], outputs)
    model.compile(
        keras.optimizers.Adam(learning_rate),
        loss={key: kl.losses.SoftmaxLoss() for key in outputs},
    )
    test = [data["features_test"], data["logits_test"]]
    truth = data["y_test"].astype("int32")

    def evaluate():
        nll = []
        for output in model(test).values():
            softmax = kl.likelihoods.Softmax(output[0], temperature=output[1])
            found = keras.ops.convert_to_numpy(softmax.nll(truth))
            nll.append(float(found.mean()))
        return nll

    values = [evaluate()]
    labels = data["y_val"].astype("int32")
    # `fit` would stop at the first NaN, and the branches share nothing.
    parts = [data["features_val"], data["logits_val"]]
    for _ in range(epochs):
        order = rng.permutation(len(labels))
        for rows in np.array_split(order, max(1, len(order) // 500)):
            target = dict.fromkeys(outputs, labels[rows])
            model.train_on_batch([part[rows] for part in parts], target)
        values.append(evaluate())
    return np.array(values)


def study(name, seed, rows, epochs):
    """The curves of one study, `(epochs + 1, constraints)`."""
    keras.utils.clear_session()
    keras.utils.set_random_seed(seed)
    data = {k: v[:rows] for k, v in logits("cifar100_resnet50").items()}
    for part in ("val", "test"):
        data[f"features_{part}"] = data[f"features_{part}"].astype("float32")
    rate, normalize = STUDIES[name]
    options = {"learning_rate": rate, "normalize": normalize}
    options["rng"] = np.random.default_rng(seed)
    return train(data, epochs=epochs, **options)


def describe(values):
    """Mean of the last NLLs, and how many of them are not a number."""
    failed = int((~np.isfinite(values)).sum())
    mean = f"{np.nanmean(values):.2f}" if failed < len(values) else "–"
    return f"{mean}, {failed} of {len(values)} NaN" if failed else mean


def draw(curves):
    plt = pyplot()
    figure, axes = plt.subplots(3, 3, figsize=(WIDTH, 8), sharey=True)
    for axis, (title, values) in zip(axes.flat, curves.items(), strict=False):
        axis.plot(values, label=list(CONSTRAINTS))
        axis.set(title=title, xlabel="epoch", ylim=(2.5, 6))
    axes[0, 0].set(ylabel="test NLL")
    names = axes[0, 0].get_legend_handles_labels()
    figure.legend(*names, ncols=len(CONSTRAINTS), loc=BELOW)
    return figure


def main():
    options = parser(__doc__).parse_args()
    names, seeds, rows, epochs = list(STUDIES), 5, None, 25
    if options.quick:
        names, seeds, rows, epochs = names[:1], 1, 500, 1
    tasks = [(n, seed, rows, epochs) for n in names for seed in range(seeds)]
    results = parallel(study, tasks)
    curves = {
        name: np.array(results[i * seeds : (i + 1) * seeds])
        for i, name in enumerate(names)
    }
    last = {name: values[:, -1] for name, values in curves.items()}
    rows = {
        constraint: [describe(values[:, i]) for values in last.values()]
        for i, constraint in enumerate(CONSTRAINTS)
    }
    data = {"seeds": seeds, "epochs": epochs, "each_seed": last}
    data["tables"] = {"nll": {"columns": names, "rows": rows}}
    figure = draw({name: values[0] for name, values in curves.items()})
    record("softplus_offset", data, {"curves": figure}, quick=options.quick)


if __name__ == "__main__":
    main()
