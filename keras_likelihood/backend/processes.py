"""Training of one model in several processes or on several devices."""

import contextlib
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from keras_likelihood.backend.types import Tensor


def replica_count() -> int:
    """Number of `tf.distribute` replicas, whose losses are summed."""
    if keras.backend.backend() != "tensorflow":
        return 1
    import tensorflow as tf

    return int(tf.distribute.get_strategy().num_replicas_in_sync)


def gather_replicas(x: Any) -> Tensor:
    """Concatenates the batches `(batch, ...)` of all replicas."""
    import tensorflow as tf

    return tf.distribute.get_replica_context().all_gather(x, axis=0)


def parts_of_data() -> int:
    """Number of processes that each pass their own examples to `fit`."""
    distribution = keras.distribution.distribution()
    is_whole = distribution is None or distribution.auto_shard_dataset
    return 1 if is_whole else int(distribution.num_processes)


def refuse_workers(model: Any) -> None:
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
def single_process() -> Iterator[None]:
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


def from_first_process(arrays: Any) -> Any:
    """The NumPy arrays of the first process, in all processes."""
    if keras.backend.backend() == "jax":
        import jax
        from jax.experimental import multihost_utils

        if jax.process_count() > 1:
            shared = multihost_utils.broadcast_one_to_all(arrays)
            return keras.tree.map_structure(np.asarray, shared)
    return arrays
