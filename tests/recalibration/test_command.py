"""`keras-likelihood recalibrate`, as called from the shell."""

import keras
import numpy as np
import pytest

from keras_likelihood import cli
from keras_likelihood.commands import recalibrate as command


def call(*arguments):
    return cli.main(["recalibrate", *map(str, arguments)])


def arrays(rows=150):
    random = np.random.default_rng(0)
    x = random.standard_normal((rows, 4)).astype("float32")
    logits = 4 * x[:, :3]
    y = (logits / 3 + random.gumbel(size=logits.shape)).argmax(axis=1)
    return x, logits, y


def test_model_table_file_and_figure(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    x, _, y = arrays()
    inputs = keras.Input((4,))
    hidden = keras.layers.Dense(5, activation="tanh")(inputs)
    outputs = keras.layers.Dense(3, activation="softmax")(hidden)
    keras.Model(inputs, outputs).save(tmp_path / "model.keras")
    np.savez(tmp_path / "val.npz", x=x, y=y)
    status = call(
        tmp_path / "model.keras",
        *("--data", tmp_path / "val.npz"),
        *("--test", tmp_path / "val.npz"),
        *("--output", tmp_path / "calibrated.keras"),
    )
    assert status == 0
    printed = capsys.readouterr().out
    for short in ("none", *command.METHODS, "auto chose"):
        assert f"\n{short}" in f"\n{printed}"
    p = keras.models.load_model(tmp_path / "calibrated.keras").predict(
        x, verbose=0
    )
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-5)
    assert (tmp_path / "calibrated.png").stat().st_size > 5000


def test_logits_from_npz_and_csv_agree(tmp_path):
    _, logits, y = arrays()
    np.savez(tmp_path / "val.npz", logits=logits, y=y)
    table = np.c_[logits, y]
    np.savetxt(tmp_path / "val.csv", table, delimiter=",", header="a,b,c,y")
    for suffix in ("npz", "csv"):
        call(
            *("--data", tmp_path / f"val.{suffix}"),
            *("--method", "global"),
            *("--output", tmp_path / f"{suffix}.npz"),
        )
    found = [
        np.load(tmp_path / f"{suffix}.npz")["probabilities"]
        for suffix in ("npz", "csv")
    ]
    np.testing.assert_allclose(found[0], found[1], atol=1e-5)


def test_one_hot_labels_and_one_method(tmp_path, capsys):
    _, logits, y = arrays()
    for name, labels in {"plain": y, "one_hot": np.eye(3)[y]}.items():
        np.savez(tmp_path / f"{name}.npz", logits=logits, y=labels)
    printed = []
    for name in ("plain", "one_hot"):
        call("--data", tmp_path / f"{name}.npz", "--method", "global")
        lines = capsys.readouterr().out.splitlines()
        printed.append([line.split()[:4] for line in lines])
        assert "nothing written; --output names a file" in lines
    assert printed[0] == printed[1]
    assert [line[0] for line in printed[0][:3]] == ["method", "none", "global"]
    assert not any(line[0] == "auto" for line in printed[0])


def test_labels_of_sequences_stay_class_numbers(tmp_path, capsys):
    _, logits, y = arrays()
    np.savez(tmp_path / "rows.npz", logits=logits, y=y)
    np.savez(
        tmp_path / "sequences.npz",
        logits=logits.reshape(50, 3, 3),
        y=y.reshape(50, 3),
    )
    printed = []
    for name in ("rows", "sequences"):
        call("--data", tmp_path / f"{name}.npz", "--method", "global")
        lines = capsys.readouterr().out.splitlines()
        printed.append([line.split()[:4] for line in lines])
    assert printed[0] == printed[1]


def test_errors_of_the_user_are_one_line(tmp_path, monkeypatch):
    _, logits, y = arrays()
    np.savez(tmp_path / "val.npz", logits=logits, y=y[:-1])
    arguments = ["recalibrate", "--data", str(tmp_path / "val.npz")]
    with pytest.raises(SystemExit, match="^recalibrate: "):
        cli.main(arguments)

    def lost(options):
        raise ModuleNotFoundError("no sklearn", name="sklearn")

    monkeypatch.setattr(command, "run", lost)
    with pytest.raises(SystemExit, match=r"keras-likelihood\[recalibration\]"):
        cli.main(arguments)


def test_pickles_and_wrong_files_are_refused(tmp_path):
    pickled = np.array([{"a": 1}], dtype=object)
    np.savez(tmp_path / "bad.npz", logits=pickled)
    with pytest.raises(SystemExit, match="pickled arrays are refused"):
        call("--data", tmp_path / "bad.npz")
    with pytest.raises(SystemExit, match="no such file"):
        call("--data", tmp_path / "none.npz")
    np.savez(tmp_path / "x.npz", x=np.zeros(3))
    with pytest.raises(SystemExit, match="needs `logits` and `y`"):
        call("--data", tmp_path / "x.npz")
