"""Several PyTorch processes that train one model."""

import contextlib

from keras_likelihood.backend.processes import joint


def joint_training() -> contextlib.AbstractContextManager:
    """Lets the processes of `torch.distributed` train one `LikelihoodModel`.

    Keras has no `fit` over several PyTorch processes. Within this context
    `LikelihoodModel.fit` starts from the values of process 0, averages the
    gradients over the processes after every batch and lets data parameters
    take the step of the joint batch. `fit` and `evaluate` report metrics of
    all examples. The numbers are those of one process with the joint batch.

    ```python
    torch.distributed.init_process_group("gloo")  # by `torchrun`
    with kl.models.joint_training():
        model.fit(x_part, y_part, batch_size=32)
    if torch.distributed.get_rank() == 0:
        model.save("model.keras")
    ```

    Every process gives `fit` its own part of the examples. All parts and
    batches must have the same size. Every process must call `fit` and
    `evaluate`, because each waits for the others. Normalisation layers see the
    examples of their own process, and the statistics of process 0 are kept. A
    table on disk and `train_on_batch` work with one process only.

    Returns:
        A context manager.
    """
    return joint()
