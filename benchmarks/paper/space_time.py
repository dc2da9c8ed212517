"""Cost of each type of likelihood parameter, in space and time.

    KERAS_BACKEND=jax python benchmarks/paper/space_time.py

A small network with one or many targets and a normal likelihood whose scale
is fixed, global, one per training example, or predicted. Space is counted in
the parameters' numbers; the time of a step is the least over rounds in which
the types take turns, relative to the fixed scale.
"""

import time

import keras
import numpy as np
from results import parser, record

import keras_likelihood as kl

BATCH, FEATURES = 1024, 256
TYPES = ("fixed", "global", "data", "predicted")


def make(kind, examples, targets):
    """A compiled model and the callbacks and numbers of its parameters."""
    inputs = keras.Input((FEATURES,))
    hidden = keras.layers.Dense(FEATURES, activation="relu")(inputs)
    outputs = keras.layers.Dense(targets)(hidden)
    callbacks, scale = [], None
    if kind == "predicted":
        head = kl.layers.ScaleHead(targets, constraint="shifted_softplus")
        outputs = head(hidden)
    elif kind == "fixed":
        scale = 1.0
    elif kind == "global":
        scale = kl.layers.GlobalParameter(dimension="element")
    else:
        scale = kl.DataParameter(examples, dimension="element")
        callbacks = [scale]
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile("adam", loss=kl.losses.NormalLoss(scale))
    return model, callbacks


def count(kind, model, callbacks, plain):
    """Numbers that the parameter adds to the model."""
    if kind == "data":
        return int(np.prod(callbacks[0].values().shape))
    return model.count_params() - plain


def study(examples, targets, *, steps, rounds):
    """Numbers and seconds of a step, by type."""
    rng = np.random.default_rng(0)
    rows = rng.integers(examples, size=steps * BATCH)
    x = rng.standard_normal((len(rows), FEATURES)).astype("float32")
    y = rng.standard_normal((len(rows), targets)).astype("float32")
    models = {kind: make(kind, examples, targets) for kind in TYPES}
    seconds = {kind: [] for kind in TYPES}
    for turn in range(rounds + 1):
        for kind, (model, callbacks) in models.items():
            target = kl.indexed(y, index=rows) if kind == "data" else y
            begin = time.perf_counter()
            model.fit(
                x, target, batch_size=BATCH, verbose=0, callbacks=callbacks
            )
            if turn:  # The first one compiles.
                seconds[kind].append((time.perf_counter() - begin) / steps)
    plain = models["fixed"][0].count_params()
    numbers = {k: count(k, *m, plain) for k, m in models.items()}
    return numbers, {k: min(s) for k, s in seconds.items()}


def main():
    options = parser(__doc__).parse_args()
    sizes = {"steps": 20, "rounds": 12}
    cases = [(10_000, 1), (1_000_000, 1), (10_000, 64), (100_000, 64)]
    if options.quick:
        sizes, cases = {"steps": 2, "rounds": 1}, cases[:1]
    rows = {kind: [] for kind in TYPES[1:]}
    columns, details = [], {}
    for examples, targets in cases:
        numbers, seconds = study(examples, targets, **sizes)
        case = f"n = {examples:,}, p = {targets}"
        columns += [f"numbers, {case}", f"step time, {case}"]
        details[case] = {"numbers": numbers, "seconds": seconds}
        for kind in rows:
            rows[kind] += [
                numbers[kind],
                f"{seconds[kind] / seconds['fixed']:.2f}x",
            ]
    table = {
        "columns": columns,
        "rows": rows,
    }
    data = {"features": FEATURES, "batch": BATCH, "cases": details}
    data["tables"] = {"costs": table}
    record("space_time", data, quick=options.quick)


if __name__ == "__main__":
    main()
