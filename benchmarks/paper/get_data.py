"""The real data of the studies, from the folder KERAS_LIKELIHOOD_DATA.

    KERAS_LIKELIHOOD_DATA=... python benchmarks/paper/get_data.py

lists the files of the folder with their keys and sources, and downloads the
regression sets that are missing from OpenML (this needs pandas and a network).
The sets of ODDS are at https://odds.cs.stonybrook.edu. What is not there is
taken from TensorFlow Datasets if that has it, under the name in `TFDS`, and
packages, network and disk allow.

    python benchmarks/paper/get_data.py ResNet50 cifar100

trains a network as in the appendix of the paper and writes its logits
(`DenseNet121`; `cifar10`, `svhn`). Meant for a GPU.
"""

import argparse
import io
import os
import pathlib

import numpy as np

REGRESSION = {
    "crime": "crime_norm",
    "kin.": "kin8nm",
    "bank": "bank8FM",
    "wine": "wine_red",
    "mpg": "autompg",
    "cpu": "cpu_machine",
    "soil": "soil",
    "fried": "fried",
}
"""The eight regression sets: name in the tables and name of the file."""

CLASSIFIERS = {
    "RN50 CIFAR-10": "cifar10_resnet50",
    "RN50 CIFAR-100": "cifar100_resnet50",
    "RN50 SVHN": "svhn_resnet50",
    "DN121 CIFAR-10": "cifar10_densenet121",
    "DN121 CIFAR-100": "cifar100_densenet121",
    "DN121 SVHN": "svhn_densenet121",
    "ResNet-20 CIFAR-10": "cifar10_resnet20",
    "ResNet-56 CIFAR-10": "cifar10_resnet56",
    "VGG-16 CIFAR-10": "cifar10_vgg16",
    "DenseNet-BC-190 CIFAR-10": "cifar10_densenetbc190",
}
"""The classifiers: name in the tables and name of the file of logits."""

TFDS = {
    "images/cifar10_jpeg90.npz": "cifar10",
    "images/cifar100_jpeg90.npz": "cifar100",
    "images/svhn_jpeg90.npz": "svhn_cropped",
    "images/celeba10k_89x109_jpeg.npz": "celeb_a",
}
"""Names in TensorFlow Datasets of some of the files."""


def folder() -> pathlib.Path:
    """The data folder; an error says how to name it."""
    if "KERAS_LIKELIHOOD_DATA" not in os.environ:
        raise SystemExit(
            "This study needs real data: set KERAS_LIKELIHOOD_DATA to the "
            "folder that holds regression/, logits/ and images/."
        )
    return pathlib.Path(os.environ["KERAS_LIKELIHOOD_DATA"])


def local(file: str) -> pathlib.Path | None:
    """The path of a file of images; `None` if it is not there."""
    path = pathlib.Path(os.environ.get("KERAS_LIKELIHOOD_DATA", ""), file)
    return path if path.is_file() else None


def from_tfds(file: str, split: str):
    """Examples of a split, as dicts of NumPy arrays, one after the other."""
    try:
        import tensorflow_datasets as tfds
    except ImportError:
        raise SystemExit(
            f"This study needs {file} in the folder KERAS_LIKELIHOOD_DATA, or "
            f'the set {TFDS[file]!r} through `pip install "tensorflow" '
            '"tensorflow-datasets"`.'
        ) from None
    return tfds.as_numpy(tfds.load(TFDS[file], split=split))


def regression(name: str, *, seed: int, rows: int | None = None):
    """Standardised inputs and targets, split at random 80 : 20.

    Missing inputs become their column's mean. Means and deviations are those
    of the training rows.

    Args:
        name: of the file.
        seed: of the split.
        rows: most rows kept, or `None` for all.

    Returns:
        `(x, y), (x_test, y_test)`, float32, y of shape `(n, 1)`.
    """
    with np.load(folder() / "regression" / f"{name}.npz") as file:
        x, y = file["X"].astype("float64"), file["y"].astype("float64")
    order = np.random.default_rng(seed).permutation(len(y))[:rows]
    cut = round(0.8 * len(order))
    train, test = order[:cut], order[cut:]
    mean = np.nanmean(x[train], axis=0)
    x = np.where(np.isnan(x), mean, x)
    deviation = x[train].std(axis=0)
    x = (x - mean) / np.where(deviation > 0, deviation, 1.0)
    y = ((y - y[train].mean()) / y[train].std())[:, None]
    x, y = x.astype("float32"), y.astype("float32")
    return (x[train], y[train]), (x[test], y[test])


def logits(name: str) -> dict:
    """Logits, labels and, where there are any, features of a classifier."""
    with np.load(folder() / "logits" / f"{name}.npz") as file:
        return {key: file[key] for key in file.files}


def labelled_images(name: str):
    """`(x_train, y_train), (x_test, y_test)`, images as uint8."""
    name = f"images/{name}_jpeg90.npz"
    path = local(name)
    if path is None:
        return tuple(_labelled(name, split) for split in ("train", "test"))
    with np.load(path) as file:
        rows, columns, height, width = (int(v) for v in file["grid"])
        starts = np.concatenate([[0], np.cumsum(file["lens"])])
        sheets = file["jpeg"]
        labels = file["y_train"], file["y_test"]
    tiles = []
    for begin, end in zip(starts[:-1], starts[1:], strict=True):
        sheet = _decoded(sheets[begin:end])
        grid = sheet.reshape(rows, height, columns, width, 3).swapaxes(1, 2)
        tiles.append(grid.reshape(rows * columns, height, width, 3))
    images = np.concatenate(tiles)
    cut, end = len(labels[0]), len(labels[0]) + len(labels[1])
    return (images[:cut], labels[0]), (images[cut:end], labels[1])


def celeba(count: int):
    """The first CelebA images, one after the other, `(height, width, 3)`."""
    name = "images/celeba10k_89x109_jpeg.npz"
    path = local(name)
    if path is None:
        for example in from_tfds(name, f"train[:{count}]"):
            yield example["image"]
        return
    with np.load(path) as file:
        files, ends = file["jpeg"], np.cumsum(file["lens"])[:count]
    for begin, end in zip([0, *ends[:-1]], ends, strict=True):
        yield _decoded(files[begin:end])


def _labelled(name, split):
    examples = list(from_tfds(name, split))
    images = np.stack([example["image"] for example in examples])
    return images, np.array([example["label"] for example in examples])


def _decoded(jpeg):
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(jpeg.tobytes())).convert("RGB"))


OPENML = {
    "autompg": ("autoMpg", 1, "class"),
    "bank8FM": ("bank8FM", 1, "rej"),
    "cpu_machine": ("machine_cpu", 1, "class"),
    "fried": ("fried", 1, "Y"),
    "kin8nm": ("kin8nm", 1, "y"),
    "soil": ("visualizing_soil", 1, "track"),
    "wine_red": ("wine-quality-red", 1, "class"),
}
"""Name, version and target of regression sets in OpenML."""


def download(name, path):
    """Writes a regression set with the keys `X` and `y`."""
    from sklearn.datasets import fetch_openml

    source, version, target = OPENML[name]
    frame = fetch_openml(source, version=version, as_frame=True).frame
    codes = frame.apply(
        lambda column: (
            column
            if column.dtype.kind in "fi"
            else column.astype("category").cat.codes
        )
    ).astype("float32")
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, X=codes.drop(columns=target), y=codes[target])


def write_logits(network, name, epochs=300):
    """Trains a network of `keras.applications`; the last rows are for val."""
    import keras

    (x, y), (x_test, y_test) = labelled_images(name)
    make = getattr(keras.applications, network)
    model = make(
        weights=None,
        input_shape=x.shape[1:],
        classes=int(y.max()) + 1,
        classifier_activation=None,
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(1e-4, beta_2=0.99), loss=loss)
    cut = len(x) * 9 // 10
    model.fit(x[:cut] / 255, y[:cut], batch_size=512, epochs=epochs, verbose=2)
    both = keras.Model(model.input, [model.layers[-2].output, model.output])
    arrays = {"y_val": y[cut:], "y_test": y_test}
    for part, images in (("val", x[cut:]), ("test", x_test)):
        features, scores = both.predict(images / 255, batch_size=512)
        arrays[f"features_{part}"] = features.astype("float16")
        arrays[f"logits_{part}"] = scores
    path = folder() / "logits" / f"{name}_{network.lower()}.npz"
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **arrays)


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("network", nargs="*", metavar="NETWORK IMAGES")
    if names := options.parse_args().network:
        write_logits(*names)
        return
    files = {f"regression/{n}.npz": "X, y" for n in REGRESSION.values()}
    keys = "logits_val, y_val, logits_test, y_test, features_val, features_test"
    files |= {f"logits/{name}.npz": keys for name in CLASSIFIERS.values()}
    files |= {"odds/*.npz": "X, y (1 = outlier)"}
    keys = "jpeg, lens (grid, y_train, y_test), or {!r} of TensorFlow Datasets"
    files |= {file: keys.format(name) for file, name in TFDS.items()}
    for file, content in files.items():
        path = folder() / file
        name = path.stem
        if not list(folder().glob(file)) and name in OPENML:
            download(name, path)
        there = "" if list(folder().glob(file)) else "MISSING  "
        print(f"{there}{file}: {content}")


if __name__ == "__main__":
    main()
