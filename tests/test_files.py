"""Files of unknown origin are refused in one way, and replaced as a whole."""

import os
import stat
import zipfile

import keras
import numpy as np
import pytest

import keras_likelihood as kl
from keras_likelihood.backend.files import map_array, open_regular, replacing
from keras_likelihood.ensembles.member_networks import MemberNetworks
from keras_likelihood.reading import load_model
from keras_likelihood.reading.archives import read_arrays


def npz(path, save=np.savez, **arrays):
    save(path, **arrays)
    return path


def npy(text, body=bytes(96)):
    header = text.encode("latin1") + b"\n"
    return (
        b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + body
    )


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_are_those_of_numpy(tmp_path, rng, save):
    arrays = {
        "a": rng.normal(size=(3, 4)),
        "b": np.asfortranarray(rng.normal(size=(5, 2)).astype(">f4")),
        "c": np.array(["x", "yy"]),
        "d": np.array(7),
        "e": np.zeros((0, 3), "int8"),
        "f": np.array([True, False]),
        "g": np.zeros(3, [("a", "<f4"), ("b", "<i8")]),
    }
    read = read_arrays(npz(tmp_path / "a.npz", save, **arrays))
    assert read.keys() == arrays.keys()
    for name, array in arrays.items():
        assert read[name].dtype == array.dtype
        np.testing.assert_array_equal(read[name], array)
    assert read_arrays(tmp_path / "a.npz", ("d", "z")).keys() == {"d"}


PLAIN = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }"


@pytest.mark.parametrize(
    "entry",
    [
        npy(PLAIN % ("<f8", "(1000000000000000,)")),
        npy(PLAIN % ("<f8", "(-4, 3)")),
        npy(PLAIN % ("<f8", "(0, 1000000000000000)")),
        npy(PLAIN % ("|V1000000000000", "(1,)")),
        npy(PLAIN % ("|O", "(4, 3)")),
        npy(PLAIN % ("<q9", "(4, 3)")),
        npy(PLAIN % ("<f8", "(4, 'x')")),
        npy("(" * 5000),
        npy("__import__('os').getcwd()"),
        npy(PLAIN % ("<f8", "(4, 3)"), bytes(95)),
        b"\x93NUMPY\x09\x00",
        b"\x80\x04]q\x00.",
        b"",
    ],
)
def test_false_headers(tmp_path, entry):
    path = tmp_path / "bad.npz"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("x.npy", entry)
    with pytest.raises(kl.FileError, match=r"bad.npz: the file is damaged"):
        read_arrays(path)
    (tmp_path / "bad.npy").write_bytes(entry)
    with open_regular(tmp_path / "bad.npy") as file:
        with pytest.raises(kl.FileError, match=r"bad.npy: the file is damaged"):
            map_array(file, tmp_path / "bad.npy")


def test_archives_that_unpack_to_far_more_than_their_size(tmp_path):
    path = npz(tmp_path / "x.npz", np.savez_compressed, x=np.zeros(2**24))
    with pytest.raises(kl.FileError, match="100 times its size.*134,217"):
        read_arrays(path)
    # Small files may be as empty as they like.
    path = npz(tmp_path / "x.npz", np.savez_compressed, x=np.zeros(2**16))
    assert not read_arrays(path)["x"].any()


def test_damaged_archives(tmp_path, rng):
    path = npz(tmp_path / "x.npz", x=rng.normal(size=100))
    content = path.read_bytes()
    for damaged in (
        content[:200] + b"?" + content[201:],
        content[:-1],
        content[:500],
        b"",
        b"text",
    ):
        path.write_bytes(damaged)
        with pytest.raises(kl.FileError, match=r"x.npz: the file is damaged"):
            read_arrays(path)


def test_what_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "pipe.keras")
    (tmp_path / "folder.keras").mkdir()
    for name in ("pipe.keras", "folder.keras"):
        for read in (load_model, read_arrays, kl.tabular.load):
            with pytest.raises(kl.FileError, match=f"{name}: a file is needed"):
                read(tmp_path / name)


class TestModels:
    def save(self, path):
        inputs = keras.Input((3,))
        outputs = MemberNetworks("normal", 4, hidden=(5,))(inputs)
        kl.LikelihoodModel(inputs, outputs).save(path)

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ('"members": 4', '"members": 3000000'),
            ('"hidden": [5]', '"hidden": [5, 10000000000000]'),
            ('"hidden": [5]', '"members": 10000, "hidden": [9000]'),
            ('"classes": null', '"classes": 100000000'),
            ('"num_examples": 9', '"num_examples": 100000000'),
        ],
    )
    def test_sizes_beyond_the_stored_weights(self, tmp_path, old, new):
        path = tmp_path / "model.keras"
        if "num_examples" in old:
            inputs = keras.Input((3,))
            model = kl.LikelihoodModel(inputs, keras.layers.Dense(1)(inputs))
            scale = kl.DataParameter(num_examples=9)
            model.compile("sgd", loss=kl.losses.NormalLoss(scale=scale))
            model.save(path)
        else:
            self.save(path)
        load_model(path)
        with zipfile.ZipFile(path) as file:
            parts = {name: file.read(name) for name in file.namelist()}
        config = parts["config.json"].decode()
        assert old in config
        parts["config.json"] = config.replace(old, new)
        with zipfile.ZipFile(path, "w") as file:
            for name, content in parts.items():
                file.writestr(name, content)
        with pytest.raises(kl.FileError, match=r"model.keras.*stored weights"):
            load_model(path)

    def test_damage(self, tmp_path):
        path = tmp_path / "model.keras"
        self.save(path)
        content = path.read_bytes()
        for damaged in (
            content[:-20],
            content[:300] + bytes(9) + content[309:],
        ):
            path.write_bytes(damaged)
            with pytest.raises(kl.FileError, match="model.keras.*is damaged"):
                load_model(path)
        path.write_bytes(content)
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("config.json", "[" * 10**5)
        with pytest.raises(kl.FileError, match="model.keras.*is damaged"):
            load_model(path)


def test_writing_is_private_and_whole(tmp_path):
    path, seen = tmp_path / "a.txt", []
    path.write_text("old")
    os.chmod(path, 0o600)
    with replacing(path) as temporary:
        seen.append(stat.S_IMODE(os.stat(temporary).st_mode))
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert seen == [0o600] == [stat.S_IMODE(os.stat(path).st_mode)]
    assert path.read_text() == "new"
    with replacing(path, keep=True) as temporary:
        temporary.write_text("late")
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["a.txt"]
