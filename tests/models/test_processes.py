"""Training in two processes gives the same numbers as in one."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import traceback

import keras
import numpy as np
import pytest

import keras_likelihood as kl

PROCESSES = 2
EXAMPLES, BATCH, EPOCHS = 96, 16, 3
SECONDS = 120


def data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(EXAMPLES, 3)).astype("float32")
    y = rng.normal(size=(EXAMPLES, 1)).astype("float32")
    # Rows repeat within a batch, also across processes.
    return x, y, rng.integers(0, 50, EXAMPLES)


def part(process):
    """The examples of a process: its part of every batch, in order."""
    share = BATCH // PROCESSES
    rows = np.arange(EXAMPLES).reshape(-1, PROCESSES, share)
    return rows[:, process].ravel()


def fit(model, x, y, share, **options):
    if keras.backend.backend() == "tensorflow" and strategy_has_workers():
        with pytest.raises(
            ValueError, match="does not support several workers"
        ):
            model.fit(x, y)
        return fit_on_workers(model, x, y, **options)
    return model.fit(
        x,
        y,
        batch_size=BATCH // share,
        epochs=EPOCHS,
        shuffle=False,
        verbose=0,
        **options,
    ).history


def strategy_has_workers():
    import tensorflow as tf

    strategy = tf.distribute.get_strategy()
    return isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)


def fit_on_workers(model, x, y, callbacks=()):
    """The training loop of the guide to distributed training."""
    import tensorflow as tf

    strategy = tf.distribute.get_strategy()
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH)
    dataset = strategy.experimental_distribute_dataset(dataset)

    @tf.function
    def train_step(batch):
        strategy.run(model.train_step, args=(batch,))

    callbacks = keras.callbacks.CallbackList(
        [*callbacks, *model.data_parameters.values()],
        add_history=True,
        model=model,
        epochs=EPOCHS,
        steps=EXAMPLES // BATCH,
    )
    callbacks.on_train_begin()
    for epoch in range(EPOCHS):
        model.reset_metrics()
        for number, batch in enumerate(dataset):
            callbacks.on_train_batch_begin(number)
            train_step(batch)
            callbacks.on_train_batch_end(number)
        learned = model.loss_parameters.learned()
        logs = {name: np.mean(p.latest) for name, p in learned.items()}
        callbacks.on_epoch_end(epoch, model.get_metrics_result() | logs)
    callbacks.on_train_end()
    return model.history.history


def layer(units, **options):
    return keras.layers.Dense(units, kernel_initializer="ones", **options)


def with_global_and_data(rows, share):
    """A global shape and a scale for each example."""
    x, y, index = data()
    optimizer = kl.data_parameters.SparseRMSProp(momentum=0.5)
    scale = kl.DataParameter(51, optimizer=optimizer)
    inputs = keras.Input((3,))
    model = kl.LikelihoodModel(inputs, layer(1)(inputs))
    loss = kl.losses.RobustRhoLoss(scale=scale)
    model.compile(keras.optimizers.SGD(0.1), loss=loss)
    history = fit(model, x[rows], kl.indexed(y[rows], index=index[rows]), share)
    return model, history


def with_predicted_and_adaptive(rows, share):
    """A predicted scale, an adaptive regularizer, and metrics."""
    x, y, _ = data()
    # `fit` counts the terms, a loop of your own does not.
    count = EXAMPLES if keras.backend.backend() == "tensorflow" else None
    regularizer = kl.regularizers.DRidge(num_examples=count)
    inputs = keras.Input((3,))
    hidden = layer(4, activation="tanh", kernel_regularizer=regularizer)
    model = kl.LikelihoodModel(inputs, kl.layers.ScaleHead(1)(hidden(inputs)))
    model.compile(
        keras.optimizers.Adam(0.01),
        loss=kl.losses.NormalLoss(),
        metrics=[kl.metrics.NegativeLogLikelihood(), "mae"],
    )
    # All processes use the same inputs for the measurement.
    measured = kl.regularizers.LearnScales(held_out=(x, y))
    history = fit(model, x[rows], y[rows], share, callbacks=[measured])
    return model, history


def results(models, prefix=""):
    made = {}
    for name, (model, history) in models.items():
        # Seed values carry no information and may differ.
        weights = [*model.variables, *model.loss_parameters.variables]
        for i, weight in enumerate(weights):
            if "seed" not in weight.path:
                made[f"{prefix}{name}_{i}"] = weight.numpy()
        for key, values in history.items():
            made[f"{prefix}{name}_{key}"] = np.asarray(values)
    return made


def train(rows=slice(None), share=1):
    keras.utils.set_random_seed(0)
    return {
        "data": with_global_and_data(rows, share),
        "head": with_predicted_and_adaptive(rows, share),
    }


def finish(models, process, folder):
    if process == 0:
        for name, (model, _) in models.items():
            model.save(folder / f"{name}.keras")
    return results(models)


def on_jax(process, ports, folder):
    keras.distribution.initialize(f"127.0.0.1:{ports[0]}", PROCESSES, process)
    # Each process passes its own examples to `fit`.
    distribution = keras.distribution.DataParallel(auto_shard_dataset=False)
    keras.distribution.set_distribution(distribution)
    rows = part(process)
    return finish(train(rows, PROCESSES), process, folder)


def on_tensorflow(process, ports, folder):
    addresses = [f"127.0.0.1:{port}" for port in ports]
    os.environ["TF_CONFIG"] = json.dumps(
        {
            "cluster": {"worker": addresses},
            "task": {"type": "worker", "index": process},
        }
    )
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        # TensorFlow distributes the examples itself.
        models = train()
    return finish(models, process, folder)


WORKERS = {"jax": on_jax, "tensorflow": on_tensorflow}


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [str(one.getsockname()[1]) for one in sockets]


def run_workers(folder):
    """Runs the processes to their end, or terminates them."""
    environment = {
        **os.environ,
        "KERAS_BACKEND": keras.backend.backend(),
        "PYTHONPATH": os.pathsep.join(sys.path),
        "CUDA_VISIBLE_DEVICES": "",
    }
    with subprocess.Popen(
        [sys.executable, __file__, str(folder), *free_ports(PROCESSES)],
        env=environment,
        start_new_session=True,
    ) as workers:
        try:
            code = workers.wait(SECONDS)
        except subprocess.TimeoutExpired:
            code = "too late"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(workers.pid, signal.SIGKILL)
    logs = [(folder / f"{p}.log").read_text()[-3000:] for p in range(PROCESSES)]
    assert code == 0, "\n\n".join(logs)
    made = []
    for process in range(PROCESSES):
        with np.load(folder / f"{process}.npz") as archive:
            made.append(dict(archive))
    return made


@pytest.mark.skipif(
    keras.backend.backend() == "torch", reason="Keras has no `fit` for it"
)
@pytest.mark.few(0)
def test_two_processes_train_to_the_numbers_of_one(tmp_path):
    made = run_workers(tmp_path)
    models = train()
    expected = results(models)
    for process in made:
        assert sorted(process) == sorted(expected)
        for name, value in expected.items():
            np.testing.assert_allclose(
                process[name], value, rtol=1e-5, atol=1e-5, err_msg=name
            )
    loaded = {
        name: (keras.saving.load_model(tmp_path / f"{name}.keras"), history)
        for name, (_, history) in models.items()
    }
    for name, value in results(loaded).items():
        np.testing.assert_allclose(value, made[0][name], rtol=1e-5, atol=1e-5)


def work(number, folder, ports):
    """Runs a process; its output goes to separate files."""
    log = os.open(folder / f"{number}.log", os.O_WRONLY | os.O_CREAT)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(log, stream.fileno())
    try:
        found = WORKERS[keras.backend.backend()](number, ports, folder)
        np.savez(folder / f"{number}.npz", **found)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        # Do not wait for the other process, which waits for this one.
        os._exit(1)
    sys.stdout.flush()
    sys.stderr.flush()


if __name__ == "__main__":
    # Forks of a process that has imported everything.
    for number in range(PROCESSES):
        if not os.fork():
            work(number, pathlib.Path(sys.argv[1]), sys.argv[2:])
            sys.exit()
    # The first failure terminates all processes.
    codes = (os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(PROCESSES))
    sys.exit(any(codes))
