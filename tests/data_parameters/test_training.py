"""Data parameters inside `fit`, `evaluate` and `predict`."""

import keras
import numpy as np
import pytest
from keras import ops

import keras_likelihood as kl
from keras_likelihood.data_parameters import SparseRMSProp
from keras_likelihood.data_parameters.indexed import indices

# What `fit` computes is the same; XLA takes seconds to compile it.
JIT = keras.backend.backend() == "jax"


def frozen_model(loss, units=1, features=1, **options):
    """A model that always predicts zeros."""
    inputs = keras.Input((features,))
    outputs = keras.layers.Dense(units, kernel_initializer="zeros")(inputs)
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile(
        keras.optimizers.SGD(0.0), loss=loss, jit_compile=JIT, **options
    )
    return model


def fit(model, x, y, parameters, **options):
    options = {"verbose": 0, "batch_size": 4, **options}
    return model.fit(x, y, callbacks=parameters, **options)


def fit_whole(model, x, y, parameter, steps):
    """Many steps on all rows in one epoch, because each epoch is slow."""
    rows = np.tile(np.arange(len(x)), steps)
    y = kl.indexed(y[rows], index=rows)
    fit(model, x[rows], y, [parameter], batch_size=len(x), shuffle=False)


@pytest.fixture
def data(rng):
    x = rng.normal(size=(24, 1)).astype("float32")
    return x, (3 * rng.normal(size=(24, 1))).astype("float32")


def test_finds_the_scale_of_each_residual(data):
    x, y = data
    scale = kl.DataParameter(24, learning_rate=0.1)
    model = frozen_model(kl.losses.NormalLoss(scale=scale))
    fit_whole(model, x, y, scale, steps=150)
    # The best scale for one residual is its size. Below the floor of the
    # constraint there is no such scale.
    expected = np.maximum(np.abs(y[:, 0]), 0.3)
    np.testing.assert_allclose(scale.values(), expected, atol=0.35)


@pytest.mark.parametrize("dimension", ["scalar", "channel", "element"])
def test_values_have_the_shape_of_the_dimension(dimension):
    scale = kl.DataParameter(7, dimension=dimension, initial=0.5)
    inputs = keras.Input((4, 5, 3))
    model = kl.LikelihoodModel(inputs, keras.layers.Dense(2)(inputs))
    model.compile("sgd", loss=kl.losses.NormalLoss(scale=scale))
    shape = {"scalar": (), "channel": (1, 1, 2), "element": (4, 5, 2)}
    values = scale.values()
    assert values.shape == (7, *shape[dimension])
    np.testing.assert_allclose(values, 0.5, rtol=1e-6)
    assert scale.values([2, 6]).shape == (2, *shape[dimension])


def test_rows_that_were_not_visited_rest(data):
    x, y = data
    scale = kl.DataParameter(
        24, optimizer=SparseRMSProp(momentum=0.9, weight_decay=0.1)
    )
    model = frozen_model(kl.losses.NormalLoss(scale=scale))
    fit(model, x, kl.indexed(y), [scale])
    before = scale.state()
    half = kl.indexed(y[::2], index=2 * np.arange(12))
    fit(model, x[::2], half, [scale], epochs=2)
    after = scale.state()
    np.testing.assert_array_equal(before[1::2], after[1::2])
    assert np.all(before[::2] != after[::2])


def test_own_constraint_and_start(data):
    x, y = data
    scale = kl.DataParameter(24, initial=0.5, constraint="affine_sigmoid")
    model = frozen_model(kl.losses.NormalLoss(scale=scale))
    fit_whole(model, x, 10 * y, scale, steps=40)
    assert scale.values().max() < 1.0
    assert scale.values().max() > 0.8


@pytest.mark.usefixtures("step_by_step")
def test_metrics_see_plain_targets(data):
    x, y = data
    scale = kl.DataParameter(24)
    model = frozen_model(kl.losses.NormalLoss(scale=scale), metrics=["mse"])
    history = fit(
        model, x, kl.indexed(y), [scale], sample_weight=np.ones(24)
    ).history
    assert history["mse"][0] == pytest.approx(np.mean(y**2), rel=1e-5)


@pytest.mark.few(1)
def test_mixed_precision(data, mixed_precision):
    x, y = data
    scale = kl.DataParameter(24)
    model = frozen_model(kl.losses.NormalLoss(scale=scale))
    fit(model, x, kl.indexed(y), [scale])
    assert scale.values().dtype == np.float32
    assert np.all(scale.state()[:, 1] > 0)


class TestWithoutTraining:
    def nll(self, y, scale):
        return np.mean(
            0.5 * (y / scale) ** 2 + np.log(scale) + 0.5 * np.log(2 * np.pi)
        )

    def trained(self, data, **options):
        x, y = data
        scale = kl.DataParameter(24, **options)
        model = frozen_model(kl.losses.NormalLoss(scale=scale))
        fit(model, x, kl.indexed(y), [scale], epochs=2)
        return model, scale

    def test_evaluate_uses_the_rows_and_leaves_them(self, data):
        x, y = data
        model, scale = self.trained(data)
        before = scale.state()
        found = model.evaluate(x, kl.indexed(y), verbose=0)
        expected = self.nll(y[:, 0], scale.values())
        assert found == pytest.approx(expected, rel=1e-5)
        np.testing.assert_array_equal(before, scale.state())

    @pytest.mark.usefixtures("step_by_step")
    def test_falls_back_to_the_initial_value(self, data):
        x, y = data
        model, _ = self.trained(data, initial=1.5)
        found = model.evaluate(x, y, verbose=0)
        assert found == pytest.approx(self.nll(y, 1.5), rel=1e-5)

    def test_validation_within_fit(self, data):
        x, y = data
        scale = kl.DataParameter(24, fallback="mean")
        model = frozen_model(kl.losses.NormalLoss(scale=scale))
        history = fit(
            model, x, kl.indexed(y), [scale], validation_data=(x, y)
        ).history
        mean = scale.values().mean()
        expected = self.nll(y, mean)
        assert history["val_loss"][0] == pytest.approx(expected, rel=1e-5)
        own = model.predict_distribution(x, verbose=0).as_numpy().scale
        np.testing.assert_allclose(own, mean, rtol=1e-5)

    @pytest.mark.usefixtures("step_by_step")
    def test_validation_split_does_not_move_its_rows(self, data):
        x, y = data
        scale = kl.DataParameter(24)
        model = frozen_model(kl.losses.NormalLoss(scale=scale))
        fit(model, x, kl.indexed(y), [scale], validation_split=0.25)
        squares = scale.state()[:, 1, 0]
        np.testing.assert_array_equal(squares > 0, np.arange(24) < 18)


class TestWithoutTheCallback:
    def test_on_batches(self, data):
        x, y = data
        y = kl.indexed(y)
        by_fit, by_batch = kl.DataParameter(24), kl.DataParameter(24)
        model = frozen_model(kl.losses.NormalLoss(scale=by_fit))
        fit(model, x, y, [by_fit], batch_size=24)
        model = frozen_model(kl.losses.NormalLoss(scale=by_batch))
        model.train_on_batch(x, y)
        by_batch.check()
        np.testing.assert_allclose(by_batch.state(), by_fit.state(), rtol=1e-6)
        before = by_batch.state()
        model.test_on_batch(x, y)
        np.testing.assert_array_equal(by_batch.state(), before)

    def test_in_a_loop_of_your_own(self, data):
        if keras.backend.backend() == "jax":
            pytest.skip("a loop on JAX hands the variables on by itself")
        x, y = data
        scale = kl.DataParameter(24)
        model = frozen_model(kl.losses.NormalLoss(scale=scale))
        model.compute_loss(
            ops.convert_to_tensor(x),
            {k: ops.convert_to_tensor(v) for k, v in kl.indexed(y).items()},
            model(x, training=True),
        )
        scale.check()
        assert np.all(scale.state()[:, 1] > 0)

    def test_in_a_stateless_loop(self, data):
        x, y = data
        scale = kl.DataParameter(24)
        model = frozen_model(kl.losses.NormalLoss(scale=scale))
        y = {k: ops.convert_to_tensor(v) for k, v in kl.indexed(y).items()}
        variables = model.non_trainable_variables
        before = [(v, ops.convert_to_tensor(v)) for v in variables]
        with keras.StatelessScope(before) as scope:
            model.compute_loss(x, y, model(x, training=True))
        if keras.backend.backend() != "jax":
            pytest.skip("tables of the others are changed in place")
        moved = scope.get_current_value(scale.table.variables[0])
        assert np.all(ops.convert_to_numpy(moved)[:, 1] > 0)
        assert not scale.state().any()


class TestNotFinite:
    def test_one_bad_input_leaves_the_table_whole(self, data):
        x, y = data
        x = x.copy()
        x[13] = np.nan
        scale = kl.DataParameter(24)
        inputs = keras.Input((1,))
        model = kl.LikelihoodModel(inputs, keras.layers.Dense(1)(inputs))
        model.compile(
            "sgd", loss=kl.losses.NormalLoss(scale=scale), jit_compile=JIT
        )
        # Whichever of the two checks comes first.
        with pytest.raises(
            ValueError,
            match="rows of the data scale must be finite|loss is NaN",
        ):
            fit(model, x, kl.indexed(y), [scale], shuffle=False)
        state = scale.state()
        assert np.isfinite(state).all()
        assert np.isfinite(scale.values()).all()
        moved = np.flatnonzero(state[:, 1, 0])
        assert set(range(12)) <= set(moved) <= set(range(24)) - {13}


class TestRefusals:
    def test_a_refused_fit_leaves_a_model_that_trains(self, data):
        x, y = data
        scale = kl.DataParameter(24)
        model = frozen_model(kl.losses.NormalLoss(scale=scale))
        with pytest.raises(ValueError, match="without an index"):
            model.fit(x, y, verbose=0)
        # Only the step reveals whether a generator has an index.
        assert indices(iter([(x, y)])) is None
        with pytest.raises(ValueError, match="without an index"):
            model.train_on_batch(x, y)
        assert not scale.state().any()
        fit(model, x, kl.indexed(y), [scale])
        assert np.all(scale.state()[:, 1] > 0)

    def test_callback_of_another_loss(self, data):
        x, y = data
        scale, other = kl.DataParameter(24), kl.DataParameter(24)
        frozen_model(kl.losses.NormalLoss(scale=other))
        model = frozen_model(kl.losses.NormalLoss(scale=scale))
        with pytest.raises(ValueError, match="not in the loss"):
            fit(model, x, kl.indexed(y), [scale, other])

    @pytest.mark.few(1)
    @pytest.mark.parametrize(("row", "bad"), [(1, -1), (23, 24), (1, 2**30)])
    def test_index_out_of_range_in_every_fit(self, data, row, bad):
        x, y = data
        index = np.arange(24)
        index[row] = bad
        scale = kl.DataParameter(24)
        model = frozen_model(kl.losses.NormalLoss(scale=scale))
        for _ in range(2):
            with pytest.raises(ValueError, match="rows 0 to 23.*1 index"):
                wrong = kl.indexed(y, index=index)
                fit(model, x, wrong, [scale], shuffle=False)
        fit(model, x, kl.indexed(y), [scale])

    @pytest.mark.few(1)
    @pytest.mark.parametrize("bad", [-3, 24])
    def test_index_out_of_range_moves_no_row(self, data, bad):
        x, y = data
        scale = kl.DataParameter(24, optimizer=SparseRMSProp(momentum=0.5))
        model = frozen_model(kl.losses.NormalLoss(scale=scale))
        fit(model, x, kl.indexed(y), [scale])
        before = scale.state()
        with pytest.raises(ValueError, match="rows 0 to 23.*1 index"):
            model.train_on_batch(
                x[:1], kl.indexed(y[:1], index=np.array([bad]))
            )
        scale.check()
        np.testing.assert_array_equal(scale.state(), before)
        # An example without a row has the initial value.
        found = model.test_on_batch(
            x[:1], kl.indexed(y[:1], index=np.array([bad]))
        )
        plain = model.test_on_batch(x[:1], y[:1])
        assert float(found) == pytest.approx(float(plain), rel=1e-6)

    def test_stock_model(self, data):
        x, y = data
        loss = kl.losses.NormalLoss(scale=kl.DataParameter(24))
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        model.compile("sgd", loss=loss)
        with pytest.raises(ValueError, match="LikelihoodModel"):
            model.fit(x, y, verbose=0)

    def test_one_parameter_for_two(self):
        both = kl.DataParameter(24)
        with pytest.raises(
            ValueError, match="must not be used for two parameters"
        ):
            kl.losses.RobustRhoLoss(shape=both, scale=both)

    def test_rows_of_unknown_size(self):
        scale = kl.DataParameter(4, dimension="element")
        inputs = keras.Input((None, 3))
        model = kl.LikelihoodModel(inputs, keras.layers.Dense(1)(inputs))
        with pytest.raises(ValueError, match="a fixed shape"):
            model.compile("sgd", loss=kl.losses.NormalLoss(scale=scale))

    def test_values_before_there_is_a_table(self):
        with pytest.raises(ValueError, match="compiled with"):
            kl.DataParameter(4).values()

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"num_examples": 0}, "num_examples"),
            ({"num_examples": 2.5}, "num_examples"),
            ({"num_examples": "ten"}, "a whole number > 0. Received: 'ten'"),
            ({"fallback": "median"}, "'initial' or 'mean'"),
            ({"learning_rate": -1.0}, "learning_rate"),
            ({"optimizer": "rmsprop"}, "a SparseRMSProp, a SparseSGD or"),
            ({"table": "scale.npy"}, "a FileTable or None"),
        ],
    )
    def test_arguments(self, options, message):
        with pytest.raises(ValueError, match=message):
            kl.DataParameter(**{"num_examples": 4, **options})

    def test_initial_value_outside_of_the_constraint(self):
        scale = kl.DataParameter(4, initial=-1.0)
        with pytest.raises(ValueError, match="strictly between"):
            kl.losses.NormalLoss(scale=scale)

    @pytest.mark.parametrize("initial", [[1.0, 2.0], 1e300])
    def test_initial_values_that_are_not_one_finite_number(self, initial):
        with pytest.raises(ValueError, match="`initial` must be.*Received"):
            scale = kl.DataParameter(4, initial=initial)
            kl.losses.NormalLoss(scale=scale).build((None, 3))


@pytest.mark.skipif(
    keras.backend.backend() == "torch",
    reason="Keras has no `steps_per_execution` on PyTorch",
)
def test_several_steps_per_execution_change_nothing(data):
    x, y = data
    found = []
    # The last execution has fewer steps.
    for steps in (1, 4):
        scale = kl.DataParameter(24, optimizer=SparseRMSProp(momentum=0.5))
        loss = kl.losses.NormalLoss(scale=scale)
        model = frozen_model(loss, steps_per_execution=steps)
        fit(model, x, kl.indexed(y), [scale], shuffle=False, epochs=2)
        found.append(scale.values())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6)
    index = np.arange(24)
    index[7] = 99
    with pytest.raises(ValueError, match="rows 0 to 23"):
        fit(model, x, kl.indexed(y, index=index), [scale])


@pytest.mark.slow
@pytest.mark.skipif(
    keras.backend.backend() != "torch", reason="the compiler is PyTorch's"
)
def test_steps_that_pytorch_compiles(data):
    x, y = data
    compiled, plain = kl.DataParameter(len(x)), kl.DataParameter(len(x))
    for scale, is_compiled in ((compiled, True), (plain, False)):
        model = frozen_model(kl.losses.NormalLoss(scale=scale))
        model.jit_compile = is_compiled
        fit(model, x, kl.indexed(y), [], shuffle=False)
    np.testing.assert_allclose(compiled.values(), plain.values(), rtol=1e-5)
