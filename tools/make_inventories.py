"""Writes docs/_inventories: where names of other packages are described.

    python tools/make_inventories.py

Sphinx makes links of such names from inventories. Those that the packages
publish hold thousands of names, and Keras publishes none. These hold the
names that our pages mention, so that the documentation builds without a
network.
"""

import pathlib
import zlib

FOLDER = pathlib.Path(__file__).parents[1] / "docs" / "_inventories"

MODEL = "api/models/model/"
TRAINING = "api/models/model_training_apis/"
SAVING = "api/models/model_saving_apis/model_saving_and_loading/"
REGRESSION = "api/losses/regression_losses/"
CLASSES = "api/losses/probabilistic_losses/"

KERAS = {
    "keras.Input": "api/layers/core_layers/input/",
    "keras.Layer": "api/layers/base_layer/",
    "keras.Model": MODEL,
    "keras.Model.compile": TRAINING,
    "keras.Model.evaluate": TRAINING,
    "keras.Model.fit": TRAINING,
    "keras.Model.predict": TRAINING,
    "keras.Model.save": SAVING,
    "keras.Model.summary": MODEL,
    "keras.Model.train_on_batch": TRAINING,
    "keras.Sequential": "api/models/sequential/",
    "keras.callbacks.BackupAndRestore": "api/callbacks/backup_and_restore/",
    "keras.callbacks.Callback": "api/callbacks/base_callback/",
    "keras.callbacks.EarlyStopping": "api/callbacks/early_stopping/",
    "keras.callbacks.History": "api/callbacks/",
    "keras.callbacks.ModelCheckpoint": "api/callbacks/model_checkpoint/",
    "keras.config.floatx": "api/utils/config_utils/",
    "keras.distribution": "api/distribution/",
    "keras.distribution.DataParallel": "api/distribution/data_parallel/",
    "keras.layers.Dense": "api/layers/core_layers/dense/",
    "keras.layers.EinsumDense": "api/layers/core_layers/einsum_dense/",
    "keras.layers.Embedding": "api/layers/core_layers/embedding/",
    "keras.layers.GRU": "api/layers/recurrent_layers/gru/",
    "keras.layers.MultiHeadAttention": (
        "api/layers/attention_layers/multi_head_attention/"
    ),
    "keras.losses.BinaryCrossentropy": CLASSES,
    "keras.losses.CategoricalCrossentropy": CLASSES,
    "keras.losses.Huber": REGRESSION,
    "keras.losses.Loss": "api/losses/",
    "keras.losses.MeanAbsoluteError": REGRESSION,
    "keras.losses.MeanSquaredError": REGRESSION,
    "keras.losses.SparseCategoricalCrossentropy": CLASSES,
    "keras.metrics.Metric": "api/metrics/base_metric/",
    "keras.models.load_model": SAVING,
    "keras.ops": "api/ops/",
    "keras.ops.sqrt": "api/ops/numpy/",
    "keras.optimizers.Adam": "api/optimizers/adam/",
    "keras.random": "api/random/",
    "keras.random.SeedGenerator": "api/random/seed_generator/",
    "keras.regularizers.L1": "api/layers/regularizers/",
    "keras.regularizers.L2": "api/layers/regularizers/",
    "keras.regularizers.Regularizer": "api/layers/regularizers/",
    "keras.saving.load_model": SAVING,
    "keras.utils.PyDataset": "api/utils/python_utils/",
    "keras.utils.set_random_seed": "api/utils/python_utils/",
}
# Where Keras defines them, which is what a list of base classes names.
for public, private in {
    "keras.Layer": "layers.layer.Layer",
    "keras.Model": "models.model.Model",
    "keras.callbacks.Callback": "callbacks.callback.Callback",
    "keras.losses.Loss": "losses.loss.Loss",
    "keras.metrics.Metric": "metrics.metric.Metric",
    "keras.regularizers.Regularizer": "regularizers.regularizers.Regularizer",
}.items():
    KERAS[f"keras.src.{private}"] = KERAS[public]
PYTHON = {
    **{
        name: f"library/exceptions.html#{name}"
        for name in (
            *("FileExistsError", "ImportError", "KeyError", "MemoryError"),
            *("OSError", "RuntimeError", "TypeError", "UserWarning"),
            "ValueError",
        )
    },
    "pathlib.Path": "library/pathlib.html#pathlib.Path",
}
NUMPY = {
    "numpy.argsort": "reference/generated/numpy.argsort.html#numpy.argsort",
    "numpy.load": "reference/generated/numpy.load.html#numpy.load",
    "numpy.ndarray": "reference/generated/numpy.ndarray.html#numpy.ndarray",
    "numpy.random.Generator": (
        "reference/random/generator.html#numpy.random.Generator"
    ),
    "numpy.random.RandomState": (
        "reference/random/legacy.html#numpy.random.RandomState"
    ),
    "numpy.save": "reference/generated/numpy.save.html#numpy.save",
    "numpy.savez": "reference/generated/numpy.savez.html#numpy.savez",
}
SKLEARN = {
    f"sklearn.{name}": f"modules/generated/sklearn.{name}.html#sklearn.{name}"
    for name in (
        "base.clone",
        "datasets.fetch_openml",
        "datasets.load_diabetes",
        "datasets.load_digits",
        "linear_model.ARDRegression",
        "linear_model.BayesianRidge",
        "linear_model.LassoCV",
        "linear_model.LogisticRegressionCV",
        "linear_model.PoissonRegressor",
    )
}
INVENTORIES = {
    "keras": KERAS,
    "numpy": NUMPY,
    "python": PYTHON,
    "sklearn": SKLEARN,
}


def role_of(name: str) -> str:
    """The kind of a name, as Sphinx calls it."""
    before, _, last = name.rpartition(".")
    if last[:1].isupper():
        return "exception" if not before else "class"
    if before.rpartition(".")[2][:1].isupper():
        return "method"
    return "module" if before == "keras" else "function"


def write(project: str, names: dict[str, str]) -> pathlib.Path:
    """One inventory, in the format that Sphinx calls version 2."""
    head = (
        "# Sphinx inventory version 2\n"
        f"# Project: {project}\n"
        "# Version: \n"
        "# The remainder of this file is compressed using zlib.\n"
    )
    lines = [
        f"{name} py:{role_of(name)} 1 {address} -\n"
        for name, address in sorted(names.items())
    ]
    path = FOLDER / f"{project}.inv"
    path.write_bytes(head.encode() + zlib.compress("".join(lines).encode(), 9))
    return path


def main():
    FOLDER.mkdir(exist_ok=True)
    for project, names in INVENTORIES.items():
        print(write(project, names))


if __name__ == "__main__":
    main()
