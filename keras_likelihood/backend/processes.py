"""Training of one model in several processes.

JAX and TensorFlow support this natively: JAX arrays may span several processes,
and TensorFlow synchronizes its copies. For PyTorch the training loop of Keras
lacks the parts in this module.
"""

import contextlib
from collections.abc import Iterator

import keras
import numpy as np

_state = {"joint": False}


@contextlib.contextmanager
def joint_training() -> Iterator[None]:
    """Trains one `LikelihoodModel` in the processes of `torch.distributed`.

    Keras has no `fit` for several PyTorch processes. Within this context
    `LikelihoodModel.fit` starts from the values of process 0, averages the
    gradients over the processes after every batch and updates data parameters
    with the joint batch. `fit` and `evaluate` report metrics of all examples.
    The results equal those of one process with the joint batch.

    ```python
    torch.distributed.init_process_group("gloo")  # run with `torchrun`
    with kl.models.joint_training():
        model.fit(x_part, y_part, batch_size=32)
    if torch.distributed.get_rank() == 0:
        model.save("model.keras")
    ```

    Every process calls `fit` with its own part of the examples. All parts and
    batches must have the same size. Processes wait for each other, so all must
    call `fit` and `evaluate`. Normalisation layers use the statistics of
    process 0. `FileTable` and `train_on_batch` only work with one process.
    """
    backend = keras.backend.backend()
    if backend != "torch":
        own = "tf.distribute.MultiWorkerMirroredStrategy"
        own = "keras.distribution" if backend == "jax" else own
        raise ValueError(
            f"`joint_training` needs PyTorch. Use `{own}` here. "
            f"Received: backend {backend!r}"
        )
    import torch

    ready = torch.distributed.is_available()
    if not ready or not torch.distributed.is_initialized():
        raise ValueError(
            "`joint_training` needs a process group. Call "
            "`torch.distributed.init_process_group` first. "
            "Received: no process group"
        )
    before, _state["joint"] = _state["joint"], True
    try:
        yield
    finally:
        _state["joint"] = before


def joint_count() -> int:
    """Number of PyTorch processes that train jointly, or 1."""
    if not _state["joint"]:
        return 1
    import torch

    return torch.distributed.get_world_size()


@contextlib.contextmanager
def in_step(model):
    """Synchronizes all processes and averages their gradients."""
    count = joint_count()
    if count == 1:
        yield
        return
    import torch

    def average(gradient):
        gradient = gradient.contiguous() / count
        torch.distributed.all_reduce(gradient)
        return gradient

    trainable = model.trainable_variables
    held = [*trainable, *model.non_trainable_variables]
    _copy_from_first([*held, *model.optimizer.variables])
    hooks = [v.value.register_hook(average) for v in trainable]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
    # Each process computes the statistics of normalisation layers, for
    # example, from its own examples.
    _copy_from_first(model.non_trainable_variables)


def _copy_from_first(variables):
    import torch

    for variable in variables:
        value = variable.value.detach().contiguous()
        torch.distributed.broadcast(value, src=0)
        variable.assign(value)


def replicas_that_add() -> int:
    """Number of `tf.distribute` replicas, whose losses are summed."""
    if keras.backend.backend() != "tensorflow":
        return 1
    import tensorflow as tf

    return tf.distribute.get_strategy().num_replicas_in_sync


def replica_count() -> int:
    """Number of model replicas that train together, each on its own batch."""
    return replicas_that_add() * joint_count()


def gather_replicas(x):
    """Concatenates the batches `(batch, ...)` of all replicas."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.distribute.get_replica_context().all_gather(x, axis=0)
    import torch

    parts = [torch.empty_like(x) for _ in range(joint_count())]
    torch.distributed.all_gather(parts, x.contiguous())
    return torch.cat(parts)


@contextlib.contextmanager
def summed(variables: list):
    """A context in which variables are summed over all processes."""
    if joint_count() == 1 or not variables:
        yield
        return
    import torch

    before = [v.value.detach().clone() for v in variables]
    total = torch.cat([b.reshape(-1).double() for b in before])
    torch.distributed.all_reduce(total)
    parts = total.split([b.numel() for b in before])
    for variable, part, old in zip(variables, parts, before, strict=True):
        variable.assign(part.reshape(old.shape).to(old.dtype))
    try:
        yield
    finally:
        for variable, old in zip(variables, before, strict=True):
            variable.assign(old)


def refuse_workers(model):
    """Raises an error for several workers, which Keras 3 does not support."""
    strategy = getattr(model, "distribute_strategy", None)
    resolver = getattr(strategy, "cluster_resolver", None)
    workers = resolver.cluster_spec().as_dict() if resolver else {}
    if sum(map(len, workers.values())) > 1:
        raise ValueError(
            "`fit` of Keras 3 does not support several workers of "
            "`tf.distribute.MultiWorkerMirroredStrategy`. Run "
            "`model.train_step` with `strategy.run`, see the guide to "
            "distributed training, or use JAX. "
            f"Received: workers {workers}"
        )


@contextlib.contextmanager
def single_process():
    """A context in which one of several JAX processes can save a model.

    Keras creates variables to save a model. Under a distribution this would
    wait for the other processes.
    """
    distribution = keras.distribution.distribution()
    if distribution is None or distribution.num_processes == 1:
        yield
        return
    keras.distribution.set_distribution(None)
    try:
        yield
    finally:
        keras.distribution.set_distribution(distribution)


def from_first_process(arrays):
    """The NumPy arrays of the first process, in all processes."""
    if joint_count() > 1:
        import torch

        box = [arrays]
        torch.distributed.broadcast_object_list(box, src=0)
        return box[0]
    if keras.backend.backend() == "jax":
        import jax
        from jax.experimental import multihost_utils

        if jax.process_count() > 1:
            shared = multihost_utils.broadcast_one_to_all(arrays)
            return keras.tree.map_structure(np.asarray, shared)
    return arrays
