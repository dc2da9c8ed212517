"""Trains a small network for the audit of data without a model."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import layers

from keras_likelihood.auditing.audit import as_arrays, check_task
from keras_likelihood.backend.types import Array
from keras_likelihood.constraints import Exp
from keras_likelihood.data_parameters import DataParameter, indexed
from keras_likelihood.layers.target_units import centre_and_spread
from keras_likelihood.likelihoods.checks import check_argument
from keras_likelihood.losses import NoisyLabelsLoss, StudentTLoss
from keras_likelihood.models import LikelihoodModel
from keras_likelihood.reading.targets import as_labels

VISITS, EPOCHS = 40_000, (12, 40)
"""Number of examples seen in training, and the range of epochs."""
LARGEST_SIDE = 40
"""Larger images are averaged down to this number of pixels per side."""
WIDTHS = (24, 40, 64)
LARGEST = 1e15
"""Squares of larger numbers are close to the limit of single precision."""


def train_for_audit(
    x: Any,
    y: Any,
    *,
    task: str | None = None,
    classes: int | None = None,
    epochs: int | None = None,
    seed: int = 0,
    callbacks: Sequence[keras.callbacks.Callback] = (),
) -> LikelihoodModel:
    """Trains a small network with a learned parameter for every example.

    Images get a few convolutions with batch normalisation, tables get two
    hidden layers. Inputs are standardised inside the model. Labels are
    learned with `NoisyLabelsLoss(DataParameter(n))`, targets with
    `StudentTLoss(scale=DataParameter(n))`.

    ```python
    report = kl.audit(kl.auditing.train_for_audit(x, y), x, y)
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
        callbacks: Keras callbacks of the training.

    Returns:
        The fitted model.
    """
    x, y = as_arrays(x, y)
    is_array = isinstance(x, np.ndarray) and x.dtype.kind in "biuf"
    fits = is_array and x.ndim in (2, 3, 4) and x.size
    if not fits or np.abs(x.astype("float64")).max() > LARGEST:
        raise ValueError(
            "Without a model, `x` must be an array of numbers up to "
            f"{LARGEST:g}, a table (n, features) or images (n, height, width, "
            f"channels). Received: {type(x).__name__} of shape {np.shape(x)}"
        )
    n, check = len(x), check_argument
    epochs = int(np.clip(VISITS // n, *EPOCHS)) if epochs is None else epochs
    check_task(task)
    check("epochs", epochs, int(epochs) == epochs >= 1, "a whole number >= 1")
    whole = y.dtype.kind != "f" or np.array_equal(y, np.round(y))
    keras.utils.set_random_seed(seed)
    inputs, outputs = _body(x)
    loss: Any
    if whole if task is None else task == "classification":
        y, classes = _as_classes(y, classes)
        outputs = layers.Dense(classes)(outputs)
        loss = NoisyLabelsLoss(DataParameter(n))
    else:
        y = _as_quantities(y)
        # One gross error would change the mean and deviation too much.
        (middle,), (spread,) = centre_and_spread(y, 1)
        outputs = layers.Dense(1)(outputs)
        outputs = layers.Rescaling(float(spread), float(middle))(outputs)
        # The steps of a logarithm do not depend on the unit.
        scale = DataParameter(n, initial=float(spread), constraint=Exp())
        loss = StudentTLoss(scale=scale)
    model = LikelihoodModel(inputs, outputs)
    # Even with few examples, an epoch has some dozens of steps.
    batch = int(np.clip(2 ** (n // 24).bit_length() // 2, 16, 128))
    rate = keras.optimizers.schedules.CosineDecay(2e-3, epochs * -(-n // batch))
    model.compile(keras.optimizers.AdamW(rate, weight_decay=1e-3), loss=loss)
    options = {"batch_size": batch, "epochs": epochs, "verbose": 0}
    model.fit(x, indexed(y), callbacks=list(callbacks), **options)
    return model


def _body(x: Array) -> tuple[Any, Any]:
    """Symbolic inputs and features of a network for `x`."""
    inputs = h = keras.Input(x.shape[1:])
    channels_first = x.ndim == 4 and x.shape[3] not in (1, 3, 4)
    if x.ndim == 3:
        h, x = layers.Reshape((*x.shape[1:], 1))(h), x[..., None]
    elif channels_first and x.shape[1] in (1, 3, 4):
        h, x = layers.Permute((2, 3, 1))(h), np.moveaxis(x, 1, -1)
    some, axes = x[:: -(-x.size // 5_000_000)], tuple(range(x.ndim - 1))
    mean, spread = some.mean(axes, "float64"), some.std(axes, "float64")
    # Only rounding errors would be left of a constant column.
    spread = np.where(spread <= 1e-6 * np.abs(mean), 1.0, spread)
    h = layers.Normalization(mean=mean, variance=spread**2)(h)
    if x.ndim == 2:
        # A gross error in a column must not dominate the network.
        h = keras.ops.clip(h, -8.0, 8.0)
        for _ in range(2):
            h = _normalised(layers.Dense(128, use_bias=False), h)
            h = layers.Dropout(0.2)(h)
        return inputs, h
    shrink = -(-max(x.shape[1:3]) // LARGEST_SIDE)
    if shrink > 1:
        h = layers.AveragePooling2D(shrink, padding="same")(h)
    for level, width in enumerate(WIDTHS):
        if level and min(h.shape[1:3]) < 4:
            break
        options = {"padding": "same", "use_bias": False}
        # The first level has the most pixels. One layer is enough there.
        for _ in range(2 if level else 1):
            h = _normalised(layers.Conv2D(width, 3, **options), h)
        h = layers.MaxPooling2D(padding="same")(h)
    return inputs, layers.Dropout(0.3)(layers.Flatten()(h))


def _normalised(layer: Any, h: Any) -> Any:
    return layers.ReLU()(layers.BatchNormalization()(layer(h)))


def _as_classes(y: Array, classes: int | None) -> tuple[Array, int]:
    """Returns class numbers `(n,)` and the number of classes."""
    if y.ndim == 2 and y.shape[1] > 1:
        fits, allowed = classes in (None, y.shape[1]), f"{y.shape[1]} names"
        check_argument("label_names", classes, fits, allowed)
        classes = y.shape[1]
    elif classes is None:
        highest = y.max() if y.dtype.kind in "biuf" else 1
        classes = max(int(min(np.ceil(highest), 1e9)) + 1, 2)
    labels = as_labels(y, (len(y), classes))
    if not 2 <= classes <= len(y) or (labels == labels[0]).all():
        raise ValueError(
            "An audit needs labels of at least two classes, and as many "
            "examples as classes. Use task='regression' for quantities. "
            f"Received: {len(y)} labels of {classes} classes"
        )
    return labels, classes


def _as_quantities(y: Array) -> Array:
    """Returns targets `(n, 1)` that are not all the same."""
    is_column = y.dtype.kind in "biuf" and y.size == len(y) >= 10
    if not is_column or np.ptp(y) == 0:
        raise ValueError(
            "Without a model, an audit of targets needs at least 10 examples, "
            "one number per example, and targets that differ. "
            f"Received: {y.dtype} of shape {y.shape}, the first {y[0]}"
        )
    return y.reshape(-1, 1).astype("float64")
