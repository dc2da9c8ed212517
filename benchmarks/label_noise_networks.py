"""The networks of the study and the batches that they see."""

import keras
import numpy as np

import keras_likelihood as kl

WIDTHS = (
    ((64, 0), (128, 1), (128, 0), (128, 0)),
    ((256, 1), (256, 1), (256, 0), (256, 0)),
)
"""Of each block: the channels, and whether it halves the image."""
PADDING = 4


def network(x, classes):
    """A small residual network, or three layers for tiny images."""
    inputs = h = keras.Input(x.shape[1:])
    if x.shape[1] < 16:
        for width in (16, 32):
            h = keras.layers.Conv2D(
                width, 3, padding="same", activation="relu"
            )(h)
            h = keras.layers.MaxPooling2D()(h)
        h = keras.layers.Flatten()(h)
        h = keras.layers.Dense(128, activation="relu")(h)
    else:
        for first, second, third, fourth in WIDTHS:
            h = _block(_block(h, *first), *second)
            h = h + _block(_block(h, *third), *fourth)
        h = keras.layers.GlobalMaxPooling2D(dtype="float32")(h)
    logits = keras.layers.Dense(classes, dtype="float32")(h)
    return kl.LikelihoodModel(inputs, logits)


def _block(h, width, pool):
    h = keras.layers.Conv2D(
        width,
        3,
        padding="same",
        use_bias=False,
        kernel_initializer="he_normal",
        kernel_regularizer=keras.regularizers.L2(2.5e-4),
    )(h)
    if pool:
        rows, columns = h.shape[1:3]
        # The gradient of this maximum is faster than that of a pooling.
        h = keras.ops.reshape(h, (-1, rows // 2, 2, columns // 2, 2, width))
        h = keras.ops.max(h, axis=(2, 4))
    h = keras.layers.BatchNormalization(momentum=0.9)(h)
    return keras.layers.ReLU()(h)


def optimizer_for(x, epochs, steps):
    """SGD with warm-up and cosine for photographs, Adam for digits."""
    if x.shape[1] < 16:
        return keras.optimizers.Adam(1e-3)
    warm = max(1, epochs * steps // 20)
    rate = keras.optimizers.schedules.CosineDecay(
        0.0, epochs * steps - warm, warmup_target=0.2, warmup_steps=warm
    )
    return keras.optimizers.SGD(rate, momentum=0.9, nesterov=True)


def standardised(x):
    """Bytes of photographs as numbers about zero; digits as they are."""
    if x.dtype != "uint8":
        return x
    mean = np.array([125.3, 123.0, 113.9], "float32")
    deviation = np.array([63.0, 62.1, 66.7], "float32")
    return (x - mean) / deviation


class DeviceBatches(keras.utils.PyDataset):
    """Shuffled batches of photographs, cropped and mirrored on the device.

    It runs on JAX. The targets know the number of their example.
    """

    def __init__(self, x, y, size, seed):
        super().__init__()
        import jax

        around = [(0, 0), (PADDING,) * 2, (PADDING,) * 2, (0, 0)]
        self.images = jax.numpy.asarray(np.pad(x, around, mode="reflect"))
        self.labels, self.size = y, size
        self.random = np.random.default_rng(seed)
        self.key = jax.random.PRNGKey(seed)
        self.augment = jax.jit(_augmented)
        self.split = jax.random.split
        self.on_epoch_end()

    def __len__(self):
        return len(self.labels) // self.size

    def on_epoch_end(self):
        self.order = self.random.permutation(len(self.labels))

    def __getitem__(self, step):
        rows = self.order[step * self.size : (step + 1) * self.size]
        self.key, key = self.split(self.key)
        x = self.augment(self.images, rows, key)
        return x, kl.indexed(self.labels[rows], index=rows)


def _augmented(images, rows, key):
    import jax
    from jax import numpy as jnp

    crop, flip = jax.random.split(key)
    side = images.shape[1] - 2 * PADDING
    corners = jax.random.randint(crop, (len(rows), 2), 0, 2 * PADDING + 1)
    flips = jax.random.bernoulli(flip, shape=(len(rows), 1))
    down = corners[:, :1] + jnp.arange(side)
    along = corners[:, 1:] + jnp.arange(side)
    along = jnp.where(flips, along[:, ::-1], along)
    x = images[rows[:, None, None], down[:, :, None], along[:, None, :]]
    return standardised(x)


def batches(x, y, size, seed):
    """The arguments of `fit` that are data."""
    if x.dtype != "uint8":
        return {"x": x, "y": kl.indexed(y), "batch_size": size}
    return {"x": DeviceBatches(x, y, size, seed)}
