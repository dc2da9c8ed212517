"""Cost of likelihood parameters in a training step.

A convolutional decoder with 64x64x3 targets is trained inside `fit` with a loss
whose parameters are fixed numbers, and with learned ones: global or predicted,
one per image or one per element. Variants are timed alternately, so that a busy
machine slows down all of them equally. Times are relative to fixed parameters.
The script also times the likelihood itself, on a million residuals.

    python benchmarks/step_overhead.py [--backends tensorflow jax torch]
"""

import argparse
import importlib.util
import os
import statistics
import subprocess
import sys
import time

LOSSES = {
    "Normal": ("NormalLoss", "ScaleHead", {"scale": 0.5}),
    "RobustRho": (
        "RobustRhoLoss",
        "RobustRhoHead",
        {"shape": 1.5, "scale": 0.5},
    ),
}
VARIANTS = (
    "fixed",
    "global scalar",
    "global element",
    "predicted scalar",
    "predicted element",
)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backends", nargs="+", default=installed_backends())
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--likelihoods", nargs="+", default=list(LOSSES))
    parser.add_argument("--skip-nll", action="store_true")
    parser.add_argument("--worker", action="store_true")
    options = parser.parse_args()
    if options.worker:
        measure(options)
        return
    for backend in options.backends:
        environment = os.environ | {
            "KERAS_BACKEND": backend,
            "TF_CPP_MIN_LOG_LEVEL": "3",
        }
        arguments = [*sys.argv[1:], "--worker"]
        subprocess.run(
            [sys.executable, __file__, *arguments], env=environment, check=True
        )
    if not options.skip_nll:
        script = os.path.join(os.path.dirname(__file__), "robust_rho_nll.py")
        for backend in options.backends:
            environment = os.environ | {"KERAS_BACKEND": backend}
            subprocess.run(
                [sys.executable, script, "--sizes", "1000000"],
                env=environment,
                check=True,
            )


def installed_backends():
    return [
        name
        for name in ("tensorflow", "jax", "torch")
        if importlib.util.find_spec(name)
    ]


def measure(options):
    import keras
    import numpy as np

    rng = np.random.default_rng(0)
    count = options.steps * options.batch
    x = rng.normal(size=(count, 64)).astype("float32")
    y = rng.normal(size=(count, 64, 64, 3)).astype("float32")
    for likelihood in options.likelihoods:
        models = {v: make_model(likelihood, v) for v in VARIANTS}
        times = {v: [] for v in VARIANTS}
        for repeat in range(options.repeats + 1):
            for variant, model in models.items():
                start = time.perf_counter()
                model.fit(x, y, batch_size=options.batch, verbose=0)
                if repeat:  # The first one compiles.
                    elapsed = time.perf_counter() - start
                    times[variant].append(elapsed / options.steps)
        report(keras.backend.backend(), likelihood, times)


def report(backend, likelihood, times):
    base = times["fixed"]
    print(f"\n{backend}: {likelihood}, decoder with 64x64x3 targets")
    print(f"  {'parameters':20} {'ms a step':>10} {'against fixed':>14}")
    for variant, measured in times.items():
        ratios = [t / b for t, b in zip(measured, base, strict=True)]
        print(
            f"  {variant:20} {1e3 * statistics.median(measured):10.1f}"
            f" {statistics.median(ratios):13.3f}x"
        )
    sys.stdout.flush()


def make_model(likelihood, variant):
    import keras

    import keras_likelihood as kl

    loss_name, head_name, values = LOSSES[likelihood]
    loss = getattr(kl.losses, loss_name)
    conditioning, _, dimension = variant.partition(" ")
    keras.utils.set_random_seed(0)
    inputs, maps = decoder()
    if conditioning == "predicted":
        head = getattr(kl.layers, head_name)(3, dimension=dimension)
        model = kl.LikelihoodModel(inputs, head(maps))
        loss = loss()
    else:
        model = kl.LikelihoodModel(inputs, keras.layers.Dense(3)(maps))
        if conditioning == "fixed":
            loss = loss(**values)
        else:
            loss = loss(dimension=dimension)
    model.compile("adam", loss=loss)
    return model


def decoder():
    import keras

    inputs = keras.Input((64,))
    maps = keras.layers.Dense(8 * 8 * 64, activation="relu")(inputs)
    maps = keras.layers.Reshape((8, 8, 64))(maps)
    for filters in (64, 32, 32):
        maps = keras.layers.UpSampling2D()(maps)
        maps = keras.layers.Conv2D(
            filters, 3, padding="same", activation="relu"
        )(maps)
    return inputs, maps


if __name__ == "__main__":
    main()
