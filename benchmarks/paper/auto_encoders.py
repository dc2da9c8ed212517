"""Variational auto-encoders of faces (Table 1, Figure 11).

    KERAS_BACKEND=jax python benchmarks/paper/auto_encoders.py

Convolutional VAEs of CelebA faces under the robust loss, whose shape and scale
are global, learned for each training image, or predicted by a 1x1 convolution
of the decoder's last features; one pair for an image, or one for every pixel
and channel. As in the appendix of the paper, the scale starts at 1, the steps
of shape and scale are a tenth of the others, their gradients are clipped at
norm 1, the shape is an affine sigmoid in [0, 3] and the scale a softplus. The
paper does not give the rest; it is taken from Barron (2019), whose study the
paper repeats: Adam at 1e-3, batches of 64, a shape that starts in the middle of
its range. `isolated` stops the gradient of shape and scale at the decoder's
features. `TensorFlow 1` follows the RMSProp of TensorFlow 1.15, whose mean
square starts at one.

The error is the squared error of a held-out face's reconstruction, summed over
pixels in [0, 1]. Times of a step and bytes are relative to a normal likelihood
of scale 1; nothing else may use the device then. Meant for a GPU.
"""

import time

import keras
import numpy as np
from get_data import celeba
from keras import layers
from recipe import TENSORFLOW_1
from results import mean_and_error, parallel, parser, record

import keras_likelihood as kl

CODE, SIZE, BATCH = 16, 64, 64
RATE, MULTIPLIER, CLIPNORM = 1e-3, 0.1, 1.0
START = {"shape": 1.5, "scale": 1.0}
POSITIVE = kl.constraints.ShiftedSoftplus(1e-8)
PLAIN, SHOWN = "normal, scale 1", "predicted HxWxC"
ROWS = {
    PLAIN: ("normal", None),
    "global 1x1x1": ("global", "scalar"),
    "data 1x1x1": ("data", "scalar"),
    "data 1x1x1, TensorFlow 1": ("data, TensorFlow 1", "scalar"),
    "predicted 1x1x1": ("predicted", "scalar"),
    "global HxWxC": ("global", "element"),
    "data HxWxC": ("data", "element"),
    "data HxWxC, TensorFlow 1": ("data, TensorFlow 1", "element"),
    SHOWN: ("predicted", "element"),
    "isolated HxWxC": ("isolated", "element"),
}
COUNTED = 0.9
"""Share of the predicted values that a range holds."""


def faces(size, count):
    """CelebA faces in [0, 1], `(count, size, size, 3)`."""
    from PIL import Image

    images = []
    for pixels in celeba(count):
        # The middle of the image, as in most work on these faces.
        side = round(pixels.shape[1] * 74 / 89)
        top, left = ((length - side) // 2 for length in pixels.shape[:2])
        face = Image.fromarray(pixels[top : top + side, left : left + side])
        images.append(np.asarray(face.resize((size, size))) / 255)
    images = np.stack(images).astype("float32")
    cut = len(images) * 9 // 10
    return images[:cut], images[cut:]


class SampledCode(layers.Layer):
    """Draws a code and adds its KL divergence, as NLL per element.

    Args:
        elements: numbers in an image, over which the loss is a mean.
    """

    def __init__(self, elements, **kwargs):
        super().__init__(**kwargs)
        self.elements = elements
        self.seeds = keras.random.SeedGenerator(0)

    def call(self, inputs, training=False):
        mean, log_variance = inputs
        spread = keras.ops.exp(log_variance)
        divergence = mean**2 + spread - 1 - log_variance
        self.add_loss(
            0.5 * keras.ops.mean(keras.ops.sum(divergence, -1)) / self.elements
        )
        if not training:
            return mean
        noise = keras.random.normal(keras.ops.shape(mean), seed=self.seeds)
        return mean + keras.ops.sqrt(spread) * noise


def features(inputs, size):
    """The decoder's last feature maps, of the size of the image."""
    options = {"strides": 2, "padding": "same", "activation": "relu"}
    h = inputs
    for filters in (32, 64, 128):
        h = layers.Conv2D(filters, 4, **options)(h)
    h = layers.Flatten()(h)
    code = SampledCode(3 * size**2)(
        [layers.Dense(CODE)(h), layers.Dense(CODE)(h)]
    )
    h = layers.Dense(size**2 // 64 * 128, activation="relu")(code)
    h = layers.Reshape((size // 8, size // 8, 128))(h)
    for filters in (64, 32, 32):
        h = layers.Conv2DTranspose(filters, 4, **options)(h)
    return h


def build(row, size, count):
    """A compiled VAE and its data parameters."""
    kind, dimension = ROWS[row]
    inputs, data, head = keras.Input((size, size, 3)), {}, layers.Conv2D(3, 1)
    if kind.startswith("data"):
        options = TENSORFLOW_1 if "TensorFlow" in kind else {}
        optimizer = kl.data_parameters.SparseRMSProp(
            RATE * MULTIPLIER, **options
        )
        data = {
            name: kl.DataParameter(
                count,
                optimizer=optimizer,
                initial=start,
                constraint=POSITIVE if name == "scale" else None,
                dimension=dimension,
            )
            for name, start in START.items()
        }
    elif kind != "normal":
        head = kl.layers.RobustRhoHead(
            3,
            conditioning="global" if kind == "global" else "predicted",
            dimension=dimension,
            isolated=kind == "isolated",
            constraint={"scale": POSITIVE},
            initial=START,
            learning_rate_multiplier=MULTIPLIER,
            clipnorm=CLIPNORM,
        )
    loss = kl.losses.RobustRhoLoss(**data)
    if kind == "normal":
        loss = kl.losses.NormalLoss(scale=1.0)
    model = kl.LikelihoodModel(inputs, head(features(inputs, size)))
    model.compile(keras.optimizers.Adam(RATE), loss=loss)
    return model, list(data.values())


def fit(row, x, epochs, seed):
    """The trained model and the seconds of an epoch."""
    keras.utils.clear_session()
    keras.utils.set_random_seed(seed)
    model, data = build(row, x.shape[1], len(x))
    y, seconds = kl.indexed(x) if data else x, []
    for _ in range(epochs):
        begin = time.perf_counter()
        model.fit(x, y, batch_size=BATCH, callbacks=data, verbose=0)
        seconds.append(time.perf_counter() - begin)
    return model, min(seconds)


def study(row, seed, size, images, epochs):
    """Error, the ranges of shape and scale, and maps of them for some faces."""
    x, held = faces(size, images)
    model, _ = fit(row, x, epochs, seed)
    outputs = model.predict(held, batch_size=BATCH, verbose=0)
    if not isinstance(outputs, list | tuple):
        outputs = [outputs]
    error = np.mean(np.sum((outputs[0] - held) ** 2, axis=(1, 2, 3)))
    result, outside = {"error": float(error)}, (1 - COUNTED) / 2
    for name, values in zip(START, outputs[1:], strict=False):
        result[name] = np.quantile(values, [outside, 1 - outside]).tolist()
    if row == SHOWN and seed == 0:
        result["maps"] = [held[:6], *(part[:6] for part in outputs)]
    return result


def draw(held, decoded, shape, scale):
    """Faces, reconstructions, shapes and scales."""
    scale = np.log10(scale)
    return kl.plots.plot_parameter_maps(
        {"shape": shape.mean(axis=-1), "log10 scale": scale.mean(axis=-1)},
        {"face": held, "prediction": decoded.clip(0, 1)},
    )


def cost(row, size, images):
    """Seconds of an epoch, and bytes of all variables."""
    model, seconds = fit(row, faces(size, images)[0], 4, 0)
    variables = {id(v): v for v in model.variables}
    variables.update({id(v): v for v in model.optimizer.variables})
    # All are float32 or int32.
    size = sum(4 * int(np.prod(v.shape)) for v in variables.values())
    return {"seconds": seconds, "bytes": size}


def main():
    options = parser(__doc__).parse_args()
    size, images, epochs, seeds = SIZE, 10_000, 60, 5
    if options.quick:
        size, images, epochs, seeds = 16, 80, 1, 1
    keys = [(row, seed) for seed in range(seeds) for row in ROWS]
    tasks = [(*key, size, images, epochs) for key in keys]
    every = dict(zip(keys, parallel(study, tasks), strict=True))
    costs = dict(
        zip(
            ROWS,
            parallel(cost, [(row, size, images) for row in ROWS], jobs=1),
            strict=True,
        )
    )
    figures = {"maps": draw(*every[SHOWN, 0].pop("maps"))}
    results = {row: [every[row, s] for s in range(seeds)] for row in ROWS}
    errors = {
        row: [[one["error"]] for one in found] for row, found in results.items()
    }
    table = {"columns": ["MSE", "time", "memory, MB"], **mean_and_error(errors)}
    for row, found in costs.items():
        table["rows"][row] += [
            found["seconds"] / costs[PLAIN]["seconds"],
            (found["bytes"] - costs[PLAIN]["bytes"]) / 1e6,
        ]
        if "errors" in table:
            table["errors"][row] += [None, None]
    ranges = {
        row: [
            float(value)
            for name in START
            for value in np.mean([one[name] for one in results[row]], axis=0)
        ]
        for row in (SHOWN, "isolated HxWxC")
    }
    columns = ["shape from", "to", "scale from", "to"]
    data = {"images": images * 9 // 10, "size": size, "epochs": epochs}
    data |= {"seeds": seeds, "each_seed": results, "costs": costs}
    data["tables"] = {
        "errors": table,
        "ranges": {"columns": columns, "rows": ranges},
    }
    record("auto_encoders", data, figures, quick=options.quick)


if __name__ == "__main__":
    main()
