"""Models with other insides than Keras wrote."""

import io
import json

import keras
import numpy as np

from bad_file_cases.good import (
    READERS,
    Case,
    good_files,
    model_bytes,
    read_entry,
    rezip,
)


def wrong_models():
    """Models with other insides than Keras wrote."""
    good = good_files()["model.keras"]
    config = json.loads(read_entry(good, "config.json"))
    weights = read_entry(good, "model.weights.h5")
    contents = [
        rezip(good, config__json=json.dumps(c)) for c in _configs(config)
    ]
    contents += [
        rezip(good, config__json=None),
        rezip(good, config__json=b"{"),
        rezip(good, config__json=b"\xff\xfe"),
        rezip(good, config__json=b"[" * 100_000),
        rezip(good, model__weights__h5=None),
        rezip(good, model__weights__h5=b""),
        rezip(good, model__weights__h5=weights[: len(weights) // 2]),
        rezip(good, model__weights__h5=bytes(len(weights))),
        rezip(good, model__weights__h5=good_files()["val.npz"]),
        model_bytes(_dense_model(4, 3)),
        model_bytes(_dense_model(3, 2)),
        model_bytes(_two_outputs()),
        model_bytes(_nan_model()),
    ]
    other = read_entry(model_bytes(_dense_model(3, 5)), "model.weights.h5")
    contents.append(rezip(good, model__weights__h5=other))
    contents += [
        rezip(good, model__weights__h5=w) for w in _huge_weights(weights)
    ]
    for content in contents:
        for command in READERS["model.keras"]:
            yield Case("wrong model", command, {"model.keras": content})


def _configs(config):
    """Configurations that are broken, unknown or dangerous."""
    yield from ([], {}, None, 3, "text", {"class_name": "Dense"})
    layer = config["config"]["layers"][1]
    yield layer
    for changes in (
        {"class_name": "Unknown", "registered_name": "Unknown"},
        {
            "class_name": "Own",
            "module": "somebody.layers",
            "registered_name": "own>Own",
        },
        {"class_name": "system", "module": "os", "registered_name": "system"},
        {"class_name": "Lambda", "config": _lambda_config()},
        {"config": {**layer["config"], "units": 10**13}},
        {"config": {**layer["config"], "units": -1}},
        {"config": {**layer["config"], "units": "x"}},
        {"config": {**layer["config"], "activation": "no_such"}},
        {"config": {}},
        {"inbound_nodes": []},
        {"inbound_nodes": 5},
    ):
        copy = json.loads(json.dumps(config))
        copy["config"]["layers"][1].update(changes)
        yield copy


def _lambda_config():
    code = keras.saving.serialize_keras_object(
        keras.layers.Lambda(lambda x: x, name="last")
    )
    return code["config"]


def _dense_model(columns, classes):
    inputs = keras.Input((columns,))
    return keras.Model(
        inputs, keras.layers.Dense(classes, activation="softmax")(inputs)
    )


def _two_outputs():
    inputs = keras.Input((3,))
    return keras.Model(inputs, [keras.layers.Dense(3)(inputs) for _ in "ab"])


def _nan_model():
    model = _dense_model(3, 3)
    model.set_weights([w * np.nan for w in model.get_weights()])
    return model


def _huge_weights(weights):
    """Weights whose kernel claims to be larger than any memory."""
    import h5py

    file = io.BytesIO(weights)
    with h5py.File(file, "a") as h5:
        found = []
        h5.visititems(
            lambda n, v: (
                found.append(n) if isinstance(v, h5py.Dataset) else None
            )
        )
        for name in found:
            del h5[name]
            h5.create_dataset(name, (10**9, 10**6), "f4", chunks=(1000, 1000))
    yield file.getvalue()
