"""Logits in a memory-mapped file."""

import numpy as np
import pytest

from keras_likelihood import recalibration
from keras_likelihood.recalibration import inputs


@pytest.fixture
def stored(tmp_path, rng, monkeypatch):
    """`(logits, the same on disk, labels)`. Small files count as large."""
    monkeypatch.setattr(inputs, "_MOST_BYTES", 12_000)
    monkeypatch.setattr(inputs, "_BLOCK", 3000)
    logits = 3 * rng.normal(size=(5000, 6)).astype("float32")
    labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    logits[:, 0] += 0.5
    logits[7, 1] = -200.0
    np.save(tmp_path / "logits.npy", logits)
    return logits, np.load(tmp_path / "logits.npy", mmap_mode="r"), labels


@pytest.mark.parametrize("name", ["GlobalScaling", "LinearFeatureScaling"])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_large_file_is_sampled_evenly(stored, name, weighted, rng):
    logits, on_disk, labels = stored
    weight = rng.integers(1, 3, size=len(labels)) if weighted else None
    features = rng.normal(size=(5000, 2))
    found, known = (
        getattr(recalibration, name)().fit_arrays(
            values[::step],
            labels[::step],
            features[::step],
            sample_weight=None if weight is None else weight[::step],
        )
        for values, step in ((on_disk, 1), (logits, 10))
    )
    assert found.report_["examples"] == 500
    for key, value in known.parameters_.items():
        np.testing.assert_array_equal(found.parameters_[key], value)


def test_probabilities_go_to_a_file(stored, tmp_path, monkeypatch):
    logits, on_disk, labels = stored
    monkeypatch.setattr(inputs, "_MOST_BYTES", on_disk.nbytes)
    fitted = recalibration.GlobalScaling().fit_arrays(logits, labels)
    path = tmp_path / "probabilities.npy"
    out = np.lib.format.open_memmap(path, "w+", "float32", logits.shape)
    fitted.calibrate(on_disk, out=out)
    out.flush()
    np.testing.assert_allclose(np.load(path), fitted.calibrate(logits))
    # A fit from probabilities accepts them.
    again = np.load(path, mmap_mode="r")
    other = recalibration.GlobalScaling().fit_arrays(
        again, labels, from_logits=False
    )
    assert other.parameters_["temperature"] == pytest.approx(1, abs=0.01)
    with pytest.raises(ValueError, match=r"`out` must be of .* \(5000, 6\)"):
        fitted.calibrate(on_disk, out=np.zeros((2, 6)))
