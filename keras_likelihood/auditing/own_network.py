"""Trains a small network for the audit of data without a model."""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_likelihood.auditing import inputs as checks
from keras_likelihood.data_parameters import DataParameter, indexed
from keras_likelihood.layers.target_units import centre_and_spread
from keras_likelihood.losses import NoisyLabelsLoss, StudentTLoss
from keras_likelihood.models import LikelihoodModel

VISITS, EPOCHS = 40_000, (12, 40)
"""Number of examples seen in training, and the range of epochs."""
LARGEST_SIDE = 40
"""Larger images are averaged down to this number of pixels per side."""
WIDTHS = (24, 40, 64)


class OwnNetwork(NamedTuple):
    """The result of `train_for_audit`.

    Attributes:
        model: the trained `LikelihoodModel`.
        data_parameter: learned values per example: the `DataParameter` of the
            label memory, or the scales `(n,)` in the unit of the targets.
        history: `keras.callbacks.History` of the training.
    """

    model: Any
    data_parameter: Any
    history: Any


def train_for_audit(
    x,
    y,
    *,
    task: str | None = None,
    classes: int | None = None,
    epochs: int | None = None,
    seed: int = 0,
    on_epoch: Callable[[int, int], None] | None = None,
) -> OwnNetwork:
    """Trains a small network with a learned parameter for every example.

    Images get a few convolutions with batch normalisation, tables get two
    hidden layers. Inputs are standardised inside the model. Labels are
    learned with `NoisyLabelsLoss(DataParameter(n))`, targets with
    `StudentTLoss(scale=DataParameter(n))`.

    ```python
    network = kl.auditing.train_for_audit(x, y)
    kl.audit(network.model, x, y, data_parameter=network.data_parameter)
    ```

    Args:
        x: images `(n, height, width)` or `(n, height, width, channels)`, or
            a table `(n, features)` of finite numbers. Use `fill_missing` for
            a table with missing values.
        y: class numbers `(n,)` or `(n, 1)`, one-hot `(n, classes)`, or one
            number per example.
        task: `"classification"` or `"regression"`. If `None` (default), whole
            numbers are treated as classes.
        classes: number of classes. Defaults to the highest class number plus
            one, or the number of columns of one-hot labels.
        epochs: number of epochs, `>= 1`. Defaults to 12 to 40, depending on
            the number of examples.
        seed: random seed of the weights and the order of the examples. It is
            set globally for Keras. Defaults to 0.
        on_epoch: function of the number of finished epochs and of all epochs.

    Returns:
        An `OwnNetwork`: the model, the learned values and the history.
    """
    x, y = checks.as_inputs(x, y)
    n = len(x)
    if task is None:
        whole = y.dtype.kind != "f" or np.array_equal(y, np.round(y))
        task = "classification" if whole else "regression"
    if epochs is None:
        epochs = int(np.clip(VISITS // n, *EPOCHS))
    checks.check_options(task, epochs=epochs)
    epochs, learned = int(epochs), DataParameter(n)
    loss: Any
    if task == "regression":
        y, units = checks.as_quantities(y), 1
        # One gross error would change the mean and deviation too much.
        (middle,), (spread,) = centre_and_spread(y, 1)
        y = ((y - middle) / spread).astype("float32")
        loss = StudentTLoss(scale=learned)
    else:
        y, units = checks.as_classes(y, classes)
        loss = NoisyLabelsLoss(learned)
    keras.utils.set_random_seed(seed)
    inputs, features = _body(x)
    outputs = keras.layers.Dense(units)(features)
    model = LikelihoodModel(inputs, outputs)
    # Even with few examples, an epoch has some dozens of steps.
    batch = int(np.clip(2 ** (n // 24).bit_length() // 2, 16, 128))
    rate = keras.optimizers.schedules.CosineDecay(2e-3, epochs * -(-n // batch))
    model.compile(keras.optimizers.AdamW(rate, weight_decay=1e-3), loss=loss)
    report = on_epoch or (lambda done, count: None)
    show = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: report(epoch + 1, epochs)
    )
    options = {"batch_size": batch, "epochs": epochs, "verbose": 0}
    history = model.fit(x, indexed(y), callbacks=[show], **options)
    if task == "classification":
        return OwnNetwork(model, learned, history)
    answer = keras.layers.Rescaling(float(spread), float(middle))(outputs)
    model = LikelihoodModel(inputs, answer)
    return OwnNetwork(model, learned.values() * spread, history)


def _body(x):
    """Symbolic inputs and features of a network for `x`."""
    inputs = keras.Input(x.shape[1:])
    return inputs, (_table if x.ndim == 2 else _images)(x, inputs)


def _table(x, inputs):
    # A gross error in a column must not dominate the network.
    h = keras.ops.clip(_standardise(x, inputs), -8.0, 8.0)
    for _ in range(2):
        h = keras.layers.Dense(128, use_bias=False)(h)
        h = keras.layers.BatchNormalization()(h)
        h = keras.layers.ReLU()(h)
        h = keras.layers.Dropout(0.2)(h)
    return h


def _images(x, inputs):
    h = inputs
    if x.ndim == 3:
        h, x = keras.layers.Reshape((*x.shape[1:], 1))(h), x[..., None]
    elif x.shape[1] in (1, 3, 4) and x.shape[-1] not in (1, 3, 4):
        h, x = keras.layers.Permute((2, 3, 1))(h), np.moveaxis(x, 1, -1)
    h = _standardise(x, h)
    shrink = -(-max(x.shape[1:3]) // LARGEST_SIDE)
    if shrink > 1:
        h = keras.layers.AveragePooling2D(shrink, padding="same")(h)
    for level, width in enumerate(WIDTHS):
        if level and min(h.shape[1:3]) < 4:
            break
        # The first level has the most pixels. One layer is enough there.
        for _ in range(2 if level else 1):
            h = keras.layers.Conv2D(width, 3, padding="same", use_bias=False)(h)
            h = keras.layers.BatchNormalization()(h)
            h = keras.layers.ReLU()(h)
        h = keras.layers.MaxPooling2D(padding="same")(h)
    h = keras.layers.Flatten()(h)
    return keras.layers.Dropout(0.3)(h)


def _standardise(x, h):
    """Standardises each column or channel."""
    some = x[:: -(-x.size // 5_000_000)]
    axes = tuple(range(x.ndim - 1))
    mean = some.mean(axis=axes, dtype="float64")
    spread = some.std(axis=axes, dtype="float64")
    # Only rounding errors would be left of a constant column.
    spread = np.where(spread <= 1e-6 * np.abs(mean), 1.0, spread)
    return keras.layers.Normalization(mean=mean, variance=spread**2)(h)
