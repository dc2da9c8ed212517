"""Cost of element-wise likelihoods with gradients, beside the limit of bytes.

    KERAS_BACKEND=jax python benchmarks/robust_rho_nll.py

Prints a table of the processor time of one compiled forward and backward pass
in float32: the mean NLL and its gradients with respect to the prediction and
all parameters. They are scalars, or predicted for each element. Likelihoods are
timed in turn, round after round, and the fastest round counts. On a GPU use
`--clock perf_counter --repeats 20`: passes that follow each other hide the time
of their start.

"Time" is relative to the normal. "Limit" is the time relative to that of moving
the arguments and the gradients once, at the speed of a copy in the same run. On
JAX, "arrays" are the bytes that the program accesses, by XLA's cost analysis,
in arrays of the targets' size.
"""

import argparse
import time

import keras
import numpy as np
from keras import ops

from keras_likelihood import likelihoods

CASES = {
    "normal": {"scale": 0.7},
    "robust_rho": {"shape": 1.2, "scale": 0.7},
    "student_t": {"df": 4.0, "scale": 0.7},
    "beta": {"concentration": 3.0},
    "gamma": {"shape": 2.0},
    "negative_binomial": {"dispersion": 0.5},
    "von_mises": {"concentration": 2.0},
}
KINDS = ("scalar", "element-wise")


def compiled_step(name, kind, size):
    """A function that starts one step, and the arrays it accesses."""
    rng = np.random.default_rng(0)
    likelihood = likelihoods.get(name)
    y, prediction = rng.uniform(0.2, 0.8, (2, size)).astype("float32")
    if likelihood.is_discrete:
        y = rng.poisson(prediction).astype("float32")
    if likelihood.prediction_constraint is None:
        prediction = rng.normal(size=size).astype("float32")
    values = [np.float32(value) for value in CASES[name].values()]
    if kind == "element-wise":
        factor = rng.uniform(0.5, 1.8, size).astype("float32")
        values = [value * factor for value in values]

    def loss(prediction, *values):
        parameters = dict(zip(CASES[name], values, strict=True))
        return ops.mean(likelihood(prediction, **parameters).nll(y))

    inputs = [ops.convert_to_tensor(x) for x in (prediction, *values)]
    y = ops.convert_to_tensor(y)
    backend = keras.backend.backend()
    if backend == "jax":
        import jax

        def total(y_true, *inputs):
            nonlocal y
            y = y_true
            return loss(*inputs)

        every = tuple(range(1, 1 + len(inputs)))
        step = jax.jit(jax.value_and_grad(total, argnums=every))
        target = y
        step = step.lower(target, *inputs).compile()
        accessed = step.cost_analysis()["bytes accessed"] / (4 * size)
        return lambda: step(target, *inputs)[1], accessed
    if backend == "tensorflow":
        import tensorflow as tf

        @tf.function
        def step(*inputs):
            with tf.GradientTape() as tape:
                tape.watch(inputs)
                value = loss(*inputs)
            return tape.gradient(value, inputs)

        return lambda: step(*inputs), np.nan
    import torch

    inputs = [x.requires_grad_() for x in inputs]
    return lambda: torch.autograd.grad(loss(*inputs), inputs), np.nan


def wait(results):
    if keras.backend.backend() == "jax":
        import jax

        return jax.block_until_ready(results)
    return ops.convert_to_numpy(results[0][-1:])


def copy_step(size):
    """A function that starts to copy an array."""
    x = ops.convert_to_tensor(np.ones(size, "float32"))
    if keras.backend.backend() != "jax":
        return lambda: [x + 1], np.nan
    import jax

    copied = jax.jit(lambda x: x + 1)
    return lambda: [copied(x)], np.nan


def measure(size, options):
    """Milliseconds and accessed arrays by likelihood and kind."""
    steps = {
        (name, kind): compiled_step(name, kind, size)
        for kind in KINDS
        for name in options.likelihoods
    }
    steps["copy"] = copy_step(max(options.sizes))
    best, clock = dict.fromkeys(steps, np.inf), getattr(time, options.clock)
    for _ in range(options.rounds + 1):
        for key, (step, _) in steps.items():
            start = clock()
            for _ in range(options.repeats):
                results = step()
            wait(results)
            used = (clock() - start) / options.repeats
            best[key] = min(best[key], used)
    return {key: (1e3 * best[key], steps[key][1]) for key in steps}


def table(found, per_array):
    """Markdown: time over the normal's, over the limit, arrays accessed.

    The limit follows from the milliseconds of reading or writing one array.
    """
    head = " | ".join(f"{kind}: time | limit | arrays" for kind in KINDS)
    lines = [f"| likelihood | {head} |", "|---|" + "---:|" * 3 * len(KINDS)]
    for name in dict.fromkeys(key[0] for key in found if key != "copy"):
        cells = [name]
        for kind in KINDS:
            ms, arrays = found[name, kind]
            parameters = len(CASES[name]) if kind == "element-wise" else 0
            # The target, the prediction and its gradient, and for each
            # parameter the same two.
            least = 3 + 2 * parameters
            cells += [
                f"{ms / found['normal', kind][0]:.2f}x",
                f"{ms / (least * per_array):.1f}x",
                f"{arrays:.0f}",
            ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[2**21, 2**26])
    parser.add_argument("--likelihoods", nargs="+", default=[*CASES])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--clock", default="process_time")
    options = parser.parse_args()
    for size in options.sizes:
        found = measure(size, options)
        normal = [f"{found['normal', kind][0]:.3g} ms" for kind in KINDS]
        speed = 8 * max(options.sizes) / (1e6 * found["copy"][0])
        print(f"{size} elements: the normal takes {' and '.join(normal)}.")
        print(f"A copy has {speed:.0f} GB/s.\n")
        print(table(found, 4 * size / (1e6 * speed)) + "\n")


if __name__ == "__main__":
    main()
