"""Regressors with one learned scale and with a predicted one, as in the paper.

    KERAS_BACKEND=jax python benchmarks/paper/literal_regressors.py
    python benchmarks/paper/literal_regressors.py --runs RUNS.jsonl

Both are trained by the paper's recipe (`literal.py`), the seeds side by side.
`base` has one scale for all rows, which is learned with the network; a scale of
1 cannot be the paper's base, because some NLLs of its base are negative.
`predicted` has a scale from the last layer's features, whose weights have
Glorot's start, as the paper says (in `regressors.py` they start at zero, as in
the heads of this package). Beside CAL, squared error and NLL the results have
the mean gap between a level and the share of targets below its predicted
quantile: the paper's column "MSE" looks like this gap.
"""

import keras
import numpy as np
from datasets import REGRESSION, regression
from literal import POSITIVE, STEPS, UNITS, Dense, train
from regressors_tables import DEPTHS
from results import mean_and_error
from runs import Runs, study_options
from scipy import stats

import keras_likelihood as kl

MOST_ROWS = 5000
MODELS = ("base", "predicted")
MEASURES = ("CAL", "gap", "MSE", "NLL")
LEVELS = np.arange(1, 20) / 20


def branch(inputs, model, deep):
    """Prediction and scale."""
    features = Dense(UNITS, relu=True)(inputs) if deep else inputs
    scale = POSITIVE(Dense(1, constant=model == "base")(features))
    return Dense(1)(features), scale


def judge(prediction, scale, y):
    """CAL, mean gap, squared error and NLL on test rows."""
    law = stats.norm(prediction.astype("float64"), scale)
    values = law.cdf(y)
    gaps = [abs(np.mean(values <= level) - level) for level in LEVELS]
    return [
        kl.metrics.functions.calibration_error(values.ravel()),
        float(np.mean(gaps)),
        float(np.mean((prediction - y) ** 2)),
        float(-np.mean(law.logpdf(y))),
    ]


def study(name, deep, seeds, steps):
    """`scores` of both models, a list over the seeds."""
    keras.utils.clear_session()
    keras.utils.set_random_seed(0)
    splits = [regression(name, seed=s, rows=MOST_ROWS) for s in range(seeds)]
    (x, y), (x_test, y_test) = (
        [np.stack([split[part][i] for split in splits]) for i in (0, 1)]
        for part in (0, 1)
    )
    inputs = keras.Input(batch_shape=(seeds, None, x.shape[-1]))
    outputs = {name: branch(inputs, name, deep) for name in MODELS}
    model = train(inputs, outputs, x, y, steps=steps)
    found = model(x_test)
    scores = {}
    for name in MODELS:
        both = [keras.ops.convert_to_numpy(part) for part in found[name]]
        scores[name] = list(map(judge, *both, y_test))
    return {"scores": scores}


def tables_of(every, depth):
    """A table for each measure, with a column for each model."""
    paper = "table:robust-reg" + "-linear" * (depth == "linear")
    made = {}
    for place, measure in enumerate(MEASURES):
        found = {
            key: np.array([models[m] for m in MODELS])[:, :, place].T
            for key, models in every.items()
        }
        # The paper's "MSE" stands beside the gap, not beside our MSE.
        theirs = {"gap": "MSE", "MSE": "-"}.get(measure, measure)
        made[f"{depth}_{measure}"] = {
            "columns": [f"{measure} {model}" for model in MODELS],
            **mean_and_error(found),
            "paper": paper,
            "paper_columns": [f"{theirs} Base", f"{theirs} Temp"],
            "only_ours": True,
        }
    return made


def main():
    options, steps, seeds, sets = study_options(
        __doc__, STEPS, REGRESSION, "soil"
    )
    runs = Runs(options.runs)
    data = {"sets": len(sets), "seeds": seeds, "measures": list(MEASURES)}
    data |= {"steps": steps, "each_seed": {}, "tables": {}}
    for depth in DEPTHS:
        args, keys = (depth == "deep", seeds, steps), {"depth": depth}
        kept = runs.of_sets(sets, study, *args, **keys, seeds=seeds)
        every = {key: run["scores"] for key, run in kept.items()}
        data["each_seed"][depth] = every
        data["tables"] |= tables_of(every, depth)
    runs.record("literal_regressors", data, quick=options.quick)


if __name__ == "__main__":
    main()
