"""A small network of the audit's own, for data that come without one."""

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
"""Examples that training sees in all, and the fewest and most epochs for it."""
LARGEST_SIDE = 40
"""Pixels of an image that the convolutions see; larger ones are averaged."""
WIDTHS = (24, 40, 64)


class OwnNetwork(NamedTuple):
    """What `train_for_audit` returns: three arguments of an audit.

    Attributes:
        model: the trained `LikelihoodModel`.
        data_parameter: what every example learned: the `DataParameter` of
            the memory of labels, or the scales `(n,)` of targets in the
            targets' unit.
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
    """Trains a small network in which every example has its own parameter.

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
            a table `(n, features)` of finite numbers; `fill_missing` makes
            one of a table with missing values.
        y: class numbers `(n,)` or `(n, 1)`, one-hot `(n, classes)`, or one
            number per example.
        task: `"classification"` or `"regression"`. `None` (default) takes
            whole numbers for classes.
        classes: how many there are. Defaults to the highest class number and
            one, or the columns of one-hot labels.
        epochs: how often every example is seen, `>= 1`. Defaults to 12 to
            40, the more the fewer examples there are.
        seed: of the weights and the order of examples. It is set for all of
            Keras. Defaults to 0.
        on_epoch: called with the number of epochs done and of all epochs.

    Returns:
        An `OwnNetwork`: the model, what every example learned, and the
        history.
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
        # One gross error would set the mean and the deviation of all.
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
    # Some dozens of steps per epoch, also where there are few examples.
    batch = int(np.clip(2 ** (n // 24).bit_length() // 2, 16, 128))
    rate = keras.optimizers.schedules.CosineDecay(2e-3, epochs * -(-n // batch))
    model.compile(keras.optimizers.AdamW(rate, weight_decay=1e-3), loss=loss)
    tell = on_epoch or (lambda done, count: None)
    show = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: tell(epoch + 1, epochs)
    )
    options = {"batch_size": batch, "epochs": epochs, "verbose": 0}
    history = model.fit(x, indexed(y), callbacks=[show], **options)
    if task == "classification":
        return OwnNetwork(model, learned, history)
    answer = keras.layers.Rescaling(float(spread), float(middle))(outputs)
    model = LikelihoodModel(inputs, answer)
    return OwnNetwork(model, learned.values() * spread, history)


def _body(x):
    """Inputs and features of a network for such arrays."""
    inputs = keras.Input(x.shape[1:])
    return inputs, (_table if x.ndim == 2 else _images)(x, inputs)


def _table(x, inputs):
    # A gross error in a column must not take over the network.
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
        # The first level sees the most pixels; one layer is enough there.
        for _ in range(2 if level else 1):
            h = keras.layers.Conv2D(width, 3, padding="same", use_bias=False)(h)
            h = keras.layers.BatchNormalization()(h)
            h = keras.layers.ReLU()(h)
        h = keras.layers.MaxPooling2D(padding="same")(h)
    h = keras.layers.Flatten()(h)
    return keras.layers.Dropout(0.3)(h)


def _standardise(x, h):
    """Mean 0 and deviation 1 of each column, or channel."""
    some = x[:: -(-x.size // 5_000_000)]
    axes = tuple(range(x.ndim - 1))
    mean = some.mean(axis=axes, dtype="float64")
    spread = some.std(axis=axes, dtype="float64")
    # Of a constant column rounding alone would be left.
    spread = np.where(spread <= 1e-6 * np.abs(mean), 1.0, spread)
    return keras.layers.Normalization(mean=mean, variance=spread**2)(h)
