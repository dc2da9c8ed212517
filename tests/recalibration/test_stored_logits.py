"""Logits in a memory-mapped file give what logits in memory give."""

import json

import numpy as np
import pytest

from keras_likelihood import cli, recalibration
from keras_likelihood.recalibration import stored_logits
from tests.refusals import refusal


@pytest.fixture
def stored(tmp_path, rng, monkeypatch):
    """`(logits, the same on disk, labels)`; small files count as large."""
    monkeypatch.setattr(stored_logits, "IN_MEMORY", 0)
    monkeypatch.setattr(stored_logits, "_BLOCK", 3000)
    monkeypatch.setattr(stored_logits, "_KEPT", 10_000)
    logits = 3 * rng.normal(size=(5000, 6)).astype("float32")
    labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    logits[:, 0] += 0.5
    logits[7, 1] = -200.0
    np.save(tmp_path / "logits.npy", logits)
    return logits, np.load(tmp_path / "logits.npy", mmap_mode="r"), labels


@pytest.mark.parametrize("name", ["GlobalScaling", "VectorScaling"])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_fit_by_blocks_is_the_fit(stored, name, weighted, rng):
    logits, on_disk, labels = stored
    weight = rng.integers(0, 3, size=len(labels)) if weighted else None
    method = getattr(recalibration, name)
    known = method().fit_arrays(logits, labels, sample_weight=weight)
    found = method().fit_arrays(on_disk, labels, sample_weight=weight)
    for key in known.report_.keys() - {"seconds"}:
        atol = 1e-3 if "accuracy" in key or "ece" in key else 1e-5
        assert found.report_[key] == pytest.approx(known.report_[key], abs=atol)
    for key, value in known.parameters_.items():
        np.testing.assert_allclose(found.parameters_[key], value, atol=0.01)


def test_probabilities_go_to_a_file(stored, tmp_path):
    logits, on_disk, labels = stored
    fitted = recalibration.GlobalScaling().fit_arrays(logits, labels)
    path = tmp_path / "probabilities.npy"
    out = np.lib.format.open_memmap(path, "w+", "float32", logits.shape)
    fitted.calibrate(on_disk, out=out)
    out.flush()
    np.testing.assert_allclose(np.load(path), fitted.calibrate(logits))
    # They are what a fit from probabilities takes.
    again = np.load(path, mmap_mode="r")
    other = recalibration.GlobalScaling().fit_arrays(
        again, labels, from_logits=False
    )
    assert other.parameters_["temperature"] == pytest.approx(1, abs=0.01)
    with pytest.raises(ValueError, match=r"`out` must have .* \(5000, 6\)"):
        fitted.calibrate(on_disk, out=np.zeros((2, 6)))


def test_other_methods_refuse_large_files(stored):
    _, on_disk, labels = stored
    streaming = {
        name
        for name in recalibration.__all__
        if getattr(getattr(recalibration, name), "streams", False)
    }
    assert streaming == {"GlobalScaling", "VectorScaling"}
    with pytest.raises(ValueError, match="MatrixScaling reads all logits"):
        recalibration.MatrixScaling().fit_arrays(on_disk, labels)
    with pytest.raises(ValueError, match="from_logits=False"):
        recalibration.GlobalScaling().fit_arrays(
            np.asarray(on_disk) * 0 + 1 / 6, labels
        )


def test_bad_values_are_found_in_any_block(stored, tmp_path):
    logits, _, labels = stored
    logits[4000, 2] = np.nan
    np.save(tmp_path / "bad.npy", logits)
    bad = np.load(tmp_path / "bad.npy", mmap_mode="r")
    with pytest.raises(ValueError, match="Received: 1 NaN"):
        recalibration.GlobalScaling().fit_arrays(bad, labels)


def test_methods_that_read_blocks_do_so_before_the_others_refuse(
    stored, monkeypatch
):
    _, on_disk, _ = stored
    monkeypatch.setattr(stored_logits, "IN_MEMORY", on_disk.nbytes)
    assert stored_logits.streams(on_disk, recalibration.VectorScaling())
    assert not stored_logits.streams(on_disk, recalibration.MatrixScaling())
    monkeypatch.setattr(stored_logits, "IN_MEMORY", 8 * on_disk.nbytes)
    assert not stored_logits.streams(on_disk, recalibration.VectorScaling())
    assert not stored_logits.streams(
        np.asarray(on_disk), recalibration.VectorScaling()
    )


class TestCommand:
    """`keras-likelihood recalibrate` of a folder of .npy files."""

    @pytest.fixture
    def folder(self, stored, tmp_path):
        logits, _, labels = stored
        np.save(tmp_path / "y.npy", labels)
        np.savez(tmp_path / "same.npz", logits=logits, y=labels)
        return tmp_path

    def test_equals_the_command_on_arrays(self, folder, capsys, monkeypatch):
        rows = []
        calibrate = recalibration.VectorScaling.calibrate

        def counted(recalibrator, logits, *args, **options):
            rows.append(len(logits))
            return calibrate(recalibrator, logits, *args, **options)

        monkeypatch.setattr(recalibration.VectorScaling, "calibrate", counted)
        scores = []
        for data, output in (("same.npz", "a.npz"), (".", "b.npy")):
            status = cli.main(
                [
                    *("recalibrate", "--data", str(folder / data)),
                    *("--method", "vector", "--json"),
                    *("--output", str(folder / output)),
                ]
            )
            assert status == 0
            scores.append(json.loads(capsys.readouterr().out)["scores"])
            assert rows[0] == (5000 if data == "same.npz" else 500)
            rows.clear()
        for method in ("none", "vector"):
            known, found = (score[method] for score in scores)
            for name in ("NLL", "ECE", "accuracy"):
                assert found[name] == pytest.approx(known[name], abs=1e-3)
        p = np.load(folder / "b.npy", mmap_mode="r")
        with np.load(folder / "a.npz") as arrays:
            np.testing.assert_allclose(p, arrays["probabilities"], atol=0.01)

    def test_says_which_methods_can(self, folder, capsys):
        line = refusal(capsys, "recalibrate", "--data", folder)
        assert "--method global or vector" in line
        line = refusal(
            *(capsys, "recalibrate", "--data", folder, "--method", "global"),
            *("--output", folder / "p.npz"),
        )
        assert "must end in .npy" in line
        np.save(folder / "y.npy", np.zeros(3, "int64"))
        line = refusal(capsys, "recalibrate", "--data", folder)
        assert "and (3,) of int64" in line
