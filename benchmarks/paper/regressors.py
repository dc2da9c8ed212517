"""Linear and deep regressors with and without a predicted scale.

    KERAS_BACKEND=jax python benchmarks/paper/regressors.py
    KERAS_BACKEND=jax python benchmarks/paper/regressors.py --runs RUNS.jsonl

The protocol of the paper: inputs and targets standardised, one hidden layer
of 10 units for the deep ones, Adam at 1e-3 for 3000 steps on all the data.
Every method sees the same 80 % of a set, and is judged on the rest.

`Ours` is one recipe for all sets and both depths: of those in `CANDIDATES`,
each of which holds out a fifth of its data to stop early, the one with the
best mean rank by the likelihood of the data held out. The test data play no
part in the choice. A constant and a predicted scale stopped in the same way
stand beside it. `Recalibrated` is ours with a factor on its scales, and tails,
refitted to the data held out.

With `--runs`, every run is a line of that file and is not done again, so
several processes, each with `--only` a few seeds or a few `--sets`, may fill it
side by side. The call without them then writes the results.
"""

import pathlib

import keras
import numpy as np
from datasets import REGRESSION, regression
from literal import Repeated
from regressors_tables import DEPTHS, collect
from results import parser
from runs import Runs

import keras_likelihood as kl
from keras_likelihood.recalibration.regression import GlobalScaling

MOST_ROWS = 5000
FLOOR = kl.constraints.ShiftedSoftplus(0.01)
"""Constraint of every predicted scale, as in the paper."""


def scale_head(**options):
    return kl.layers.ScaleHead(1, constraint=FLOOR, **options)


def student_t(**options):
    """A head of Student's t with its tails learned once for all data."""
    return kl.layers.LikelihoodHead(
        "student_t",
        1,
        conditioning={"df": "global"},
        constraint={"scale": FLOOR},
        **options,
    )


BASELINES = {
    "base": lambda: (keras.layers.Dense(1), kl.losses.NormalLoss(scale=1.0)),
    "predicted": lambda: (scale_head(), kl.losses.NormalLoss()),
    "beta": lambda: (scale_head(), kl.losses.NormalLoss(beta=0.5)),
    "faithful": lambda: (
        scale_head(isolated=True),
        kl.losses.NormalLoss(beta=1.0),
    ),
}
CANDIDATES = {
    "normal": BASELINES["predicted"],
    "normal, decay": lambda: (
        scale_head(weight_decay=1e-3),
        kl.losses.NormalLoss(),
    ),
    "t": lambda: (student_t(), kl.losses.StudentTLoss()),
    "t, decay": lambda: (
        student_t(weight_decay={"scale": 1e-3}),
        kl.losses.StudentTLoss(),
    ),
    "t, isolated": lambda: (
        student_t(isolated={"scale": True}),
        kl.losses.StudentTLoss(),
    ),
}


CONSTANT = {
    "constant": lambda: (
        scale_head(conditioning="global"),
        kl.losses.NormalLoss(),
    )
}
"""Stopped early like the candidates, but not one of them."""


class BestOutputs(keras.callbacks.Callback):
    """Keeps each branch's outputs where it is best on the data held out.

    `outputs` are, by branch, those of the data held out and of the test data.
    """

    def __init__(self, held_out, test):
        super().__init__()
        self.held_out, self.test = held_out, test
        self.best, self.outputs = {}, {}

    def on_epoch_end(self, epoch, logs=None):
        x, y = self.held_out
        test = self.model(self.test)
        for name, output in self.model(x).items():
            value = float(numbers(law_of(output).nll(y)).mean())
            if value < self.best.get(name, np.inf):
                self.best[name] = value
                self.outputs[name] = output, test[name]


def numbers(tensor):
    return keras.ops.convert_to_numpy(tensor)


def law_of(output, scale=1.0):
    """The predicted distribution of a branch's output."""
    if not isinstance(output, list | tuple):
        return kl.likelihoods.Normal(output, scale=scale)
    if len(output) == 2:
        return kl.likelihoods.Normal(output[0], scale=output[1])
    prediction, df, scale = output
    return kl.likelihoods.StudentT(prediction, df=df, scale=scale)


def train(methods, x, y, *, deep, steps, callbacks=()):
    """Trains all methods side by side, as branches of one model.

    Adam steps every weight by itself and the branches share none, so each is
    trained as it would be alone; the features of a deep one are its own.
    """
    inputs = keras.Input((x.shape[1],))
    outputs, losses = {}, {}
    for name, make in methods.items():
        head, losses[name] = make()
        features = inputs
        if deep:
            features = keras.layers.Dense(10, activation="relu")(inputs)
        outputs[name] = head(features)
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile(keras.optimizers.Adam(1e-3), loss=losses)
    targets = dict.fromkeys(methods, y)
    per_epoch = min(steps, 100)
    model.fit(
        Repeated(x, targets, per_epoch),
        epochs=steps // per_epoch,
        verbose=0,
        callbacks=list(callbacks),
    )
    return model


def recalibrated(held_out, y, test):
    """The law of a test output, its scales refitted to data held out."""
    (prediction, *_, scale), (test_prediction, *_, test_scale) = (
        [numbers(part)[:, 0] for part in output] for output in (held_out, test)
    )
    fitted = GlobalScaling().fit_arrays(prediction, y[:, 0], scale=scale)
    return fitted.calibrate(test_prediction, scale=test_scale)


def judge(law, y):
    """CAL, MSE and NLL on test data."""
    y = y.reshape(law.prediction.shape)
    values, nll = numbers(law.cdf(y)), numbers(law.nll(y))
    error = numbers(law.prediction) - y
    cal = kl.metrics.functions.calibration_error(np.clip(values, 0, 1))
    return [cal, float(np.mean(error**2)), float(np.mean(nll))]


def study(name, *, deep, seed, steps):
    """Scores of every method, and the NLL held out of every candidate."""
    keras.utils.clear_session()
    keras.utils.set_random_seed(seed)
    (x, y), (x_test, y_test) = regression(name, seed=seed, rows=MOST_ROWS)
    model = train(BASELINES, x, y, deep=deep, steps=steps)
    fitted, outputs = model(x), model(x_test)
    rmse = float(np.sqrt(np.mean((numbers(fitted["base"]) - y) ** 2)))
    scores = {k: judge(law_of(v), y_test) for k, v in outputs.items()}
    scores["base, rmse"] = judge(law_of(outputs["base"], rmse), y_test)
    floor = FLOOR.low
    scale = numbers(outputs["predicted"][1])
    at_floor = float(np.mean(scale < 1.1 * floor))
    cut = round(0.8 * len(x))
    best = BestOutputs((x[cut:], y[cut:]), x_test)
    train(
        CONSTANT | CANDIDATES,
        x[:cut],
        y[:cut],
        deep=deep,
        steps=steps,
        callbacks=[best],
    )
    for k, (held_out, output) in best.outputs.items():
        scores[f"stopped: {k}"] = judge(law_of(output), y_test)
        law = recalibrated(held_out, y[cut:], output)
        scores[f"recalibrated: {k}"] = judge(law, y_test)
    return scores, best.best, at_floor


def parse():
    options = parser(__doc__)
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--sets", nargs="+", default=list(REGRESSION))
    options.add_argument("--runs", type=pathlib.Path)
    options.add_argument("--only", nargs="+", type=int, default=[])
    options = options.parse_args()
    options.steps = 3000
    if options.quick:
        options.steps, options.seeds, options.sets = 20, 1, ["soil"]
    return options


def run_all(runs, options):
    """Does what is missing: all sets of a seed before the next seed begins."""
    for seed in options.only or range(options.seeds):
        for depth in DEPTHS:
            for name in options.sets:
                keys = {"depth": depth, "set": name, "seed": seed}
                if runs.find(**keys):
                    continue
                scores, held_out, at_floor = study(
                    REGRESSION[name],
                    deep=depth == "deep",
                    seed=seed,
                    steps=options.steps,
                )
                found = {"scores": scores, "held_out": held_out}
                runs.add(**keys, **found, at_floor=at_floor)


def main():
    options = parse()
    runs = Runs(options.runs)
    run_all(runs, options)
    if options.only:
        return
    data = {"most_rows": MOST_ROWS, "steps": options.steps}
    data |= collect(runs, list(CANDIDATES), options.sets, options.seeds)
    runs.record("regressors", data, quick=options.quick)


if __name__ == "__main__":
    main()
