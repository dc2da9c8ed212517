"""Row updates against automatic differentiation of the whole table."""

import keras
import numpy as np
import pytest
from keras import ops

import keras_likelihood as kl
from keras_likelihood import likelihoods
from keras_likelihood.data_parameters import SparseRMSProp
from tests.autodiff import gradients
from tests.contracts import EAGERLY

ROWS = 9
INDEX = np.array([5, 2, 5, 0, 8, 5], "int32")
WEIGHT = np.array([1.0, 0.5, 2.0, 0.0, 3.0, 1.5], "float32")

CASES = {
    "normal": (kl.losses.NormalLoss, ["scale"], (2,)),
    "normal_beta": (kl.losses.NormalLoss, ["scale"], (2,)),
    "normal_sum": (kl.losses.NormalLoss, ["scale"], (2,)),
    "image": (kl.losses.LaplaceLoss, ["scale"], (2, 3, 2)),
    "softmax": (kl.losses.SoftmaxLoss, ["temperature"], (4,)),
    "robust": (kl.losses.RobustRhoLoss, ["shape", "scale"], (3,)),
}
OPTIONS = {"normal_beta": {"beta": 0.5}, "normal_sum": {"reduction": "sum"}}


def dense_gradients(loss_class, names, dimension, data, options):
    """Autodiff gradients of the whole loss with respect to each whole table."""
    x, y, weight = data
    likelihood = likelihoods.get(loss_class.likelihood)
    shape = likelihood.shape_of(names[0], x.shape, dimension)
    loss = loss_class(**options)
    declared = [likelihood.parameter(n) for n in names]

    def objective(*tables):
        values = [
            p.constraint(
                float(p.constraint.inverse(p.initial))
                + ops.take(table, INDEX, axis=0)
            )
            for p, table in zip(declared, tables, strict=True)
        ]
        return loss(y, (ops.convert_to_tensor(x), *values), weight)

    loss.adopt()
    tables = [np.zeros((ROWS, *shape), "float32") for _ in names]
    return gradients(objective, *tables)


def row_gradients(loss_class, names, dimension, data, options):
    """The gradients with which one step of `fit` updated the rows.

    With `rho = 0` the mean square is the squared gradient, and the row changes
    by its negative sign.
    """
    x, y, weight = data
    traced = len(names) > 1 and dimension == "element" and weight is not None
    parameters = {
        n: kl.DataParameter(
            ROWS, dimension=dimension, optimizer=SparseRMSProp(rho=0.0)
        )
        for n in names
    }
    inputs = keras.Input(x.shape[1:])
    outputs = keras.layers.Dense(x.shape[-1], kernel_initializer="identity")
    model = kl.LikelihoodModel(inputs, outputs(inputs))
    model.compile(
        keras.optimizers.SGD(0.0),
        loss=loss_class(**parameters, **options),
        # One traced step of two parameters, with weights, stands for all.
        run_eagerly=EAGERLY and not traced,
    )
    model.fit(
        x,
        kl.indexed(y, index=INDEX),
        sample_weight=weight,
        batch_size=len(x),
        callbacks=list(parameters.values()),
        verbose=0,
    )
    states = [p.state() for p in parameters.values()]
    return [-np.sign(s[:, 0]) * np.sqrt(s[:, 1]) for s in states]


def example_data(case, shape, weight):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(len(INDEX), *shape)).astype("float32")
    if case == "softmax":
        y = rng.integers(0, shape[-1], len(INDEX)).astype("int32")
    else:
        y = rng.normal(size=x.shape).astype("float32")
    return x, y, weight


@pytest.mark.few(6)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dimension", ["scalar", "element"])
@pytest.mark.parametrize("case", CASES)
def test_equals_autodiff_of_the_whole_table(case, dimension, weighted):
    # Keras takes weights of images for each pixel only.
    weight = WEIGHT if weighted and case != "image" else None
    loss_class, names, shape = CASES[case]
    data = example_data(case, shape, weight)
    options = OPTIONS.get(case, {})
    expected = dense_gradients(loss_class, names, dimension, data, options)
    actual = row_gradients(loss_class, names, dimension, data, options)
    for a, e in zip(actual, expected, strict=True):
        e = e.reshape(ROWS, -1)
        assert np.any(e)
        np.testing.assert_allclose(a, e, rtol=1e-4, atol=1e-7)
        # Only the rows of examples outside of the batch.
        np.testing.assert_array_equal(
            np.any(a != 0, axis=1), np.any(e != 0, axis=1)
        )


@pytest.mark.usefixtures("step_by_step")
def test_loss_weight_counts():
    loss_class, names, shape = CASES["normal"]
    x, y, _ = example_data("normal", shape, None)
    squares = []
    for weight in (1.0, 3.0):
        scale = kl.DataParameter(ROWS, optimizer=SparseRMSProp(rho=0.0))
        inputs = keras.Input(shape)
        outputs = keras.layers.Dense(2, kernel_initializer="identity")(inputs)
        model = kl.LikelihoodModel(inputs, outputs)
        model.compile("sgd", loss=loss_class(scale=scale), loss_weights=weight)
        model.fit(x, kl.indexed(y, index=INDEX), callbacks=[scale], verbose=0)
        squares.append(scale.state()[:, 1])
    np.testing.assert_allclose(squares[1], 9 * squares[0], rtol=1e-5)
