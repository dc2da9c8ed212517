r"""Cost of the RobustRho NLL and its gradients, relative to the plain formula.

    python benchmarks/robust_rho_nll.py
    KERAS_BACKEND=jax python benchmarks/robust_rho_nll.py \
        --residuals 100000000 --passes

Prints the time of one forward and backward pass (gradients of the mean NLL with
respect to prediction, shape and scale, float32) as users of each backend would
run it: `tf.function`, `jax.jit`, PyTorch eager. The plain formula is the power
written out, with its special cases selected by `where`, and a cubic Hermite
spline for the normalizer; gradients are left to automatic differentiation.
Variants are timed alternately, round after round, and the fastest round is
reported. The last two ratios are of the processor time, which is less affected
by other programs (`taskset -c 0` for one core).

`--passes` prints, for JAX, how many kernels the compiled step has and how many
bytes they read and write, in arrays of the residuals' size.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time

import numpy as np

BACKENDS = ("tensorflow", "jax", "torch")
KNOTS = 4096
LARGEST_SHAPE = 4.0


def plain_rho(x, shape, scale):
    """Rho by its definition, each limit computed and then selected."""
    from keras import ops

    tiny = 1.2e-7
    s = ops.square(x / scale)
    half = 0.5 * s
    b = ops.maximum(ops.abs(shape - 2), tiny)
    sign = ops.where(shape >= 0, 1.0, -1.0)
    a = sign * ops.maximum(ops.abs(shape), tiny)
    value = b / a * (ops.power(s / b + 1, 0.5 * shape) - 1)
    value = ops.where(shape == 2, half, value)
    value = ops.where(shape == 0, ops.log1p(ops.minimum(half, 3e37)), value)
    value = ops.where(shape == -np.inf, -ops.expm1(-half), value)
    steep = ops.expm1(ops.minimum(half, 87.0))
    return ops.where(shape == np.inf, steep, value)


def plain_log_partition(shape, values, tangents):
    """Cubic Hermite spline through uniform knots on [0, LARGEST_SHAPE]."""
    from keras import ops

    position = ops.clip(
        shape * (KNOTS / LARGEST_SHAPE), 0.0, KNOTS - 1.0 - 1e-3
    )
    low = ops.floor(position)
    t = position - ops.stop_gradient(low)
    low = ops.cast(low, "int32")
    v0, v1 = ops.take(values, low), ops.take(values, low + 1)
    d0, d1 = ops.take(tangents, low), ops.take(tangents, low + 1)
    t2 = t * t
    t3 = t2 * t
    h1 = -2 * t3 + 3 * t2
    h11 = t3 - t2
    return v0 * (1 - h1) + v1 * h1 + d0 * (h11 - t2 + t) + d1 * h11


def losses():
    """The variants: functions of (y, prediction, shape, scale)."""
    from keras import ops

    from keras_likelihood.likelihoods import Normal, RobustRho
    from keras_likelihood.likelihoods.log_partition import value_and_slope

    step = LARGEST_SHAPE / KNOTS
    knots = step * np.arange(KNOTS + 1)
    knots = ops.convert_to_tensor(knots, dtype="float32")
    values, slopes = value_and_slope(knots)
    tangents = slopes * step

    def normal(y, prediction, shape, scale):
        return ops.mean(Normal(prediction, scale=scale).nll(y))

    def ours(y, prediction, shape, scale):
        nll = RobustRho(prediction, shape=shape, scale=scale).nll(y)
        return ops.mean(nll)

    def plain(y, prediction, shape, scale):
        nll = plain_rho(y - prediction, shape, scale) + ops.log(scale)
        return ops.mean(nll + plain_log_partition(shape, values, tangents))

    return {"normal": normal, "ours": ours, "plain": plain}


def passes(text: str, size: int) -> tuple[int, int]:
    """Kernels of a compiled JAX step, and the large arrays they touch."""
    entry = text[text.index("ENTRY") :]
    large = f"[{size}"
    made = dict(re.findall(r"^\s*(?:ROOT )?%(\S+) = (.*)$", entry, re.M))
    kernels = [v for v in made.values() if " fusion(" in v]
    touched = 0
    for line in kernels:
        result, arguments = line.split(" fusion(", 1)
        names = re.findall(r"%([\w.\-]+)", arguments.split(")", 1)[0])
        touched += result.count(large)
        touched += sum(
            made.get(n, "").split("(")[0].count(large) for n in names
        )
    return len(kernels), touched


def compiled_step(loss, arguments):
    """A function of no arguments that runs forward and backward, and waits."""
    import keras

    y, *inputs = arguments
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        y, *inputs = map(tf.constant, (y, *inputs))

        @tf.function
        def step(y, *inputs):
            with tf.GradientTape() as tape:
                tape.watch(inputs)
                value = loss(y, *inputs)
            return value, tape.gradient(value, inputs)

        return lambda: step(y, *inputs)[0].numpy()
    if backend == "jax":
        import jax

        step = jax.jit(jax.value_and_grad(loss, argnums=(1, 2, 3)))
        step = step.lower(y, *inputs).compile()
        run = lambda: jax.block_until_ready(step(y, *inputs))  # noqa: E731
        run.passes = passes(step.as_text(), len(y))
        return run
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    y = torch.tensor(y, device=device)
    inputs = [torch.tensor(v, device=device).requires_grad_() for v in inputs]

    def step():
        for v in inputs:
            v.grad = None
        loss(y, *inputs).backward()
        return inputs[0].grad[-1].item()

    return step


def residuals(size: int):
    """`(y, prediction)` and the parameters by kind, on the device."""
    import keras

    rng = np.random.default_rng(0)
    # A million draws, repeated: drawing more takes longer than the study.
    drawn = min(size, 1_000_000)

    def repeated(values):
        values = np.resize(values.astype("float32"), size)
        if keras.backend.backend() != "jax":
            return values
        import jax

        return jax.device_put(values)

    y = repeated(rng.standard_t(3, drawn))
    prediction = repeated(rng.normal(size=drawn))
    return (y, prediction), {
        "scalar": (np.float32(1.2), np.float32(0.7)),
        "element-wise": (
            repeated(rng.uniform(0, 3, drawn)),
            repeated(rng.uniform(0.5, 2, drawn)),
        ),
    }


def measure(size: int, rounds: int) -> dict:
    """Milliseconds passed and computed, and passes of each variant."""
    targets, parameters = residuals(size)
    variants = losses()
    steps = {
        f"{name}, {kind}": compiled_step(loss, (*targets, *values))
        for kind, values in parameters.items()
        for name, loss in variants.items()
    }
    best = {name: np.array([np.inf, np.inf]) for name in steps}
    for step in steps.values():
        step()
    for _ in range(rounds):
        for name, step in steps.items():
            start = now()
            step()
            best[name] = np.minimum(best[name], now() - start)
    return {
        name: (*(1e3 * s).tolist(), getattr(steps[name], "passes", None))
        for name, s in best.items()
    }


def now():
    """Seconds that passed and that were computed."""
    return np.array([time.perf_counter(), time.process_time()])


def run(backend: str, size: int, rounds: int) -> dict:
    """`measure` in a process of its own, on the named backend."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    paths = [root, os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {
        "KERAS_BACKEND": backend,
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }
    command = [sys.executable, os.path.abspath(__file__), "--measure"]
    command += ["--residuals", str(size), "--rounds", str(rounds)]
    done = subprocess.run(
        command, env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def report(backend: str, measured: dict, show_passes: bool) -> None:
    for name, (ms, computed, counted) in measured.items():
        kind = name.split(", ")[1]
        normal, plain = (measured[f"{n}, {kind}"] for n in ("normal", "plain"))
        line = (
            f"{backend:<11}{name:<22}{ms:9.3f} ms"
            f"{ms / normal[0]:8.2f} x normal{ms / plain[0]:8.2f} x plain"
            f"  computed {computed / normal[1]:6.2f}{computed / plain[1]:6.2f}"
        )
        if show_passes and counted:
            line += f"{counted[0]:5} kernels, {counted[1]:3} arrays"
        print(line)


def _default_backends() -> list[str]:
    chosen = os.environ.get("KERAS_BACKEND")
    return [chosen] if chosen else list(BACKENDS)


def main(argv: list[str] | None = None) -> dict[str, dict]:
    """Measures and prints; returns time and passes by backend, variant."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--backends", nargs="+", default=_default_backends())
    parser.add_argument(
        "--residuals", "--size", dest="size", type=int, default=1_000_000
    )
    parser.add_argument("--passes", action="store_true")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument(
        "--measure", action="store_true", help=argparse.SUPPRESS
    )
    options = parser.parse_args(argv)
    if options.measure:
        print(json.dumps(measure(options.size, options.rounds)))
        return {}
    results = {}
    for backend in options.backends:
        results[backend] = run(backend, options.size, options.rounds)
        report(backend, results[backend], options.passes)
    return results


if __name__ == "__main__":
    main()
