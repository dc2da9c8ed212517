"""Cost of element-wise likelihoods with gradients, over the normal's.

    KERAS_BACKEND=jax python benchmarks/robust_rho_nll.py

Prints a table of the processor time of one compiled forward and backward pass
in float32: the mean NLL and its gradients with respect to the prediction and
all parameters. They are scalars, or predicted for each element. Likelihoods are
timed in turn, round after round, and the fastest round counts. On a GPU use
`--clock perf_counter`. On JAX the last columns are the bytes that the program
accesses, in arrays of the targets' size, by XLA's cost analysis.
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
    """A function that runs one step and waits, and the arrays it accesses."""
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
        return lambda: jax.block_until_ready(step(target, *inputs)), accessed
    if backend == "tensorflow":
        import tensorflow as tf

        @tf.function
        def step(*inputs):
            with tf.GradientTape() as tape:
                tape.watch(inputs)
                value = loss(*inputs)
            return tape.gradient(value, inputs)

        return lambda: step(*inputs)[0].numpy(), np.nan
    import torch

    inputs = [x.requires_grad_() for x in inputs]
    return (
        lambda: torch.autograd.grad(loss(*inputs), inputs)[0][-1].item(),
        np.nan,
    )


def measure(size, names, rounds, clock):
    """Milliseconds and accessed arrays by likelihood and kind."""
    steps = {
        (name, kind): compiled_step(name, kind, size)
        for kind in KINDS
        for name in names
    }
    best = dict.fromkeys(steps, np.inf)
    for _ in range(rounds + 1):
        for key, (step, _) in steps.items():
            start = clock()
            step()
            best[key] = min(best[key], clock() - start)
    return {key: (1e3 * best[key], steps[key][1]) for key in steps}


def table(found):
    """Markdown: time over the normal's and arrays accessed."""
    lines = [
        "| likelihood | scalar: time | arrays | element-wise: time | arrays |",
        "|---|---:|---:|---:|---:|",
    ]
    for name in dict.fromkeys(name for name, _ in found):
        cells = [name]
        for kind in KINDS:
            ms, arrays = found[name, kind]
            cells += [f"{ms / found['normal', kind][0]:.2f}x", f"{arrays:.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[2**21, 2**26])
    parser.add_argument("--likelihoods", nargs="+", default=[*CASES])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--clock", default="process_time")
    options = parser.parse_args()
    clock = getattr(time, options.clock)
    for size in options.sizes:
        found = measure(size, options.likelihoods, options.rounds, clock)
        normal = [f"{found['normal', kind][0]:.2f} ms" for kind in KINDS]
        print(f"{size} elements, the normal's {' and '.join(normal)}\n")
        print(table(found) + "\n")


if __name__ == "__main__":
    main()
