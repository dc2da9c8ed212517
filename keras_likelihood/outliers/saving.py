"""Saves detectors as a zip of the Keras model, arrays and options.

Nothing in the file can run code when it is read. The model is loaded in safe
mode, the arrays without pickle, and the options are JSON.
"""

import io
import json
import pathlib
import tempfile
import zipfile

import keras
import numpy as np

from keras_likelihood.backend.whole_files import replacing

_ARRAYS = ("mean_", "deviation_", "kept_", "decision_scores_", "labels_")
_NEWER = ("middle_", "spread_")
"""Arrays that files of version 0.1.0 lack."""


def save_detector(detector, path):
    """Writes a fitted `ScaleDetector`."""
    options = detector.get_params()
    if not isinstance(options["random_state"], int | None):
        # A random state is not saved, because a fitted detector needs none.
        options["random_state"] = None
    about = {
        "detector": type(detector).__name__,
        "options": options,
        "threshold": detector.threshold_,
        "columns": detector.n_features_in_,
    }
    arrays = io.BytesIO()
    names = (*_ARRAYS, *_NEWER, *detector._more_arrays)
    np.savez(arrays, **{n: getattr(detector, n) for n in names})
    with (
        replacing(path) as temporary,
        tempfile.TemporaryDirectory() as folder,
        zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as file,
    ):
        model = pathlib.Path(folder, "model.keras")
        detector.model_.save(model)
        file.write(model, "model.keras")
        file.writestr("arrays.npz", arrays.getvalue())
        file.writestr("detector.json", json.dumps(about))


def load_detector(cls, path):
    """Reads what `save_detector` wrote, as a `cls`."""
    with zipfile.ZipFile(path) as file:
        about = json.loads(file.read("detector.json"))
        if about["detector"] != cls.__name__:
            raise ValueError(
                f"The file must hold a {cls.__name__}. "
                f"Received: a {about['detector']}"
            )
        # Files of earlier versions have options of early stopping.
        known = cls().get_params().keys() & about["options"].keys()
        detector = cls(**{name: about["options"][name] for name in known})
        with np.load(io.BytesIO(file.read("arrays.npz"))) as arrays:
            for name in (*_ARRAYS, *cls._more_arrays):
                setattr(detector, name, arrays[name])
            # With infinite spreads nothing is cut, as in that version.
            endless = np.full_like(detector.mean_, np.inf)
            detector.middle_ = arrays.get("middle_", detector.mean_)
            detector.spread_ = arrays.get("spread_", endless)
        with tempfile.TemporaryDirectory() as folder:
            model = file.extract("model.keras", folder)
            detector.model_ = keras.saving.load_model(model)
    detector.threshold_ = about["threshold"]
    detector.n_features_in_ = about["columns"]
    return detector
