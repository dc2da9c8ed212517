"""`indexed` with TensorFlow Datasets."""

import keras
import numpy as np
import pytest

import keras_likelihood as kl
from keras_likelihood.data_parameters.indexed import INDEX

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture
def mnist():
    pytest.importorskip("tensorflow")
    tfds = pytest.importorskip("tensorflow_datasets")
    with tfds.testing.mock_data(num_examples=20):
        yield lambda **options: tfds.load("mnist", split="train", **options)


def test_trains_on_loaded_data(mnist):
    dataset = kl.indexed(mnist(as_supervised=True))
    numbers = [int(y[INDEX]) for _, y in dataset]
    np.testing.assert_array_equal(numbers, np.arange(20))
    temperature = kl.DataParameter(20)
    inputs = keras.Input((28, 28, 1))
    flat = keras.layers.Rescaling(1 / 255)(keras.layers.Flatten()(inputs))
    model = kl.LikelihoodModel(inputs, keras.layers.Dense(10)(flat))
    model.compile("sgd", loss=kl.losses.SoftmaxLoss(temperature=temperature))
    model.fit(
        dataset.shuffle(20).batch(5),
        shuffle=False,
        callbacks=[temperature],
        verbose=0,
    )
    assert np.all(temperature.state()[:, 1] > 0)


def test_names_the_remedy_for_dictionaries(mnist):
    with pytest.raises(ValueError, match="as_supervised=True"):
        kl.indexed(mnist())
