"""Recalibration curves for different offsets of the softplus.

    KERAS_BACKEND=jax python benchmarks/paper/softplus_offset.py

A temperature is predicted from the features of a ResNet-50 on CIFAR-100,
trained by gradient descent on the validation set and judged on the test set,
with the temperature constrained by shifted softplus functions of different
offsets and by the exponential, at several step sizes.
"""

import keras
import numpy as np
from datasets import logits
from results import BELOW, WIDTH, parser, pyplot, record

import keras_likelihood as kl

CONSTRAINTS = {
    "exp": kl.constraints.Exp(),
    "softplus, s = 0": kl.constraints.ShiftedSoftplus(0.0),
    "softplus, s = 0.01": kl.constraints.ShiftedSoftplus(0.01),
    "softplus, s = 0.2": kl.constraints.ShiftedSoftplus(0.2),
    "softplus, s = 1": kl.constraints.ShiftedSoftplus(1.0),
}


class Curves(keras.callbacks.Callback):
    """Test NLL of every branch after every epoch."""

    def __init__(self, inputs, labels):
        super().__init__()
        self.inputs, self.labels = inputs, labels
        self.values = []

    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 0:
            self.on_epoch_end(epoch)

    def on_epoch_end(self, epoch, logs=None):
        row = []
        for output in self.model(self.inputs).values():
            law = kl.likelihoods.Softmax(output[0], temperature=output[1])
            nll = keras.ops.convert_to_numpy(law.nll(self.labels))
            row.append(float(nll.mean()))
        self.values.append(row)


def train(data, *, learning_rate, epochs, normalize):
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
    curves = Curves(test, data["y_test"].astype("int32"))
    labels = data["y_val"].astype("int32")
    model.fit(
        [data["features_val"], data["logits_val"]],
        dict.fromkeys(outputs, labels),
        batch_size=500,
        epochs=epochs,
        verbose=0,
        callbacks=[curves],
    )
    return np.array(curves.values)


def describe(values):
    """The last value of a curve and its worst after the first epoch."""
    if not np.isfinite(values[-1]):
        epoch = np.flatnonzero(~np.isfinite(values))[0]
        return f"not a number from epoch {epoch}"
    return f"{values[-1]:.2f} (worst {values[1:].max():.2f})"


def draw(curves):
    plt = pyplot()
    figure, axes = plt.subplots(
        1, len(curves), figsize=(WIDTH, 3.8), sharey=True
    )
    for axis, (title, values) in zip(axes, curves.items(), strict=True):
        axis.plot(values, label=list(CONSTRAINTS))
        axis.set(title=title, xlabel="epoch", ylim=(2.5, 6))
    axes[0].set(ylabel="test NLL")
    names = axes[0].get_legend_handles_labels()
    figure.legend(*names, ncols=len(CONSTRAINTS), loc=BELOW)
    return figure


def main():
    options = parser(__doc__).parse_args()
    data = logits("cifar100_resnet50")
    rows = slice(0, 500 if options.quick else None)
    data = {
        k: v[rows].astype("float32") if "features" in k else v[rows]
        for k, v in data.items()
    }
    epochs = 1 if options.quick else 25
    studies = {
        "step 1e-4": (1e-4, None),
        "step 1e-3": (1e-3, None),
        "step 1e-2": (1e-2, None),
        "step 1e-3, normalised": (1e-3, "batch"),
    }
    curves = {}
    for name, (rate, normalize) in studies.items():
        keras.utils.set_random_seed(0)
        curves[name] = train(
            data, learning_rate=rate, epochs=epochs, normalize=normalize
        )
    rows = {
        name: [describe(values[:, place]) for values in curves.values()]
        for place, name in enumerate(CONSTRAINTS)
    }
    tables = {"nll": {"columns": list(studies), "rows": rows}}
    record(
        "softplus_offset",
        {
            "start": curves["step 1e-3"][0, 0],
            "epochs": epochs,
            "tables": tables,
        },
        {"curves": draw(curves)},
        quick=options.quick,
    )


if __name__ == "__main__":
    main()
