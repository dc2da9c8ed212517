"""Every loss, found by discovery."""

import warnings

import keras
import numpy as np
import pytest
from keras import ops

import keras_likelihood as kl
from keras_likelihood import losses
from tests import contracts
from tests.contracts import UNITS, as_numpy

OF_ANY_LIKELIHOOD = ["CRPS", "LikelihoodLoss", "LocationScaleLoss"]
# Their likelihoods are made from arguments; see `test_families.py`.
OF_ANY_LIKELIHOOD += ["OrdinalLoss", "QuantilesLoss", "ZeroInflatedLoss"]
OF_ANY_LIKELIHOOD += ["MultivariateNormalLoss", "MultivariateStudentTLoss"]
# It needs rows; see `test_noisy_labels.py` and `test_sparse_noise.py`.
OF_ANY_LIKELIHOOD += ["NoisyLabelsLoss", "Weighted"]
LOSSES = [
    getattr(losses, n) for n in losses.__all__ if n not in OF_ANY_LIKELIHOOD
]
ignore_numpy_copies = pytest.mark.filterwarnings(
    # PyTorch's tensors under NumPy 2, inside Keras.
    "ignore:__array__ implementation:DeprecationWarning"
)
# One of numbers and one of classes; heads of the others are traced.
TRACED = ("normal", "softmax")
every_loss = pytest.mark.parametrize("cls", LOSSES, ids=lambda c: c.__name__)
some_losses = pytest.mark.parametrize(
    "cls",
    [c for c in LOSSES if contracts.stands_for_others(c.likelihood)],
    ids=lambda c: c.__name__,
)


def fixed(cls, **options):
    """The loss with every parameter set to a non-default number."""
    values = {p.name: 1.3 * p.initial for p in cls.likelihood.parameters}
    return cls(**values, **options)


def case(cls, rng, rows=6):
    prediction = rng.normal(size=(rows, UNITS)).astype("float32")
    prediction = contracts.predictions_for(cls.likelihood, prediction)
    return contracts.targets_for(cls.likelihood, prediction.shape, rng), (
        prediction
    )


def last_layer(cls):
    """A stock layer whose outputs the likelihood allows."""
    constrained = cls.likelihood.prediction_constraint is not None
    activation = contracts.activation_for(cls.likelihood)
    return keras.layers.Dense(
        UNITS, activation=activation if constrained else None
    )


@every_loss
def test_is_the_mean_nll(cls, rng):
    y, prediction = case(cls, rng)
    loss = fixed(cls)
    values = {p.name: 1.3 * p.initial for p in cls.likelihood.parameters}
    nll = as_numpy(cls.likelihood(prediction, **values).nll(y))
    found = as_numpy(loss(y, prediction))
    np.testing.assert_allclose(found, nll.mean(), rtol=1e-5)
    assert loss.parameter_values() == pytest.approx(values)


@every_loss
def test_takes_parameters_from_the_output(cls, rng):
    y, prediction = case(cls, rng)
    width = 1 if cls.likelihood.event_rank else UNITS
    parameters = {
        p.name: rng.uniform(0.5, 1.5, size=(6, width)).astype("float32")
        for p in cls.likelihood.parameters
    }
    nll = as_numpy(cls.likelihood(prediction, **parameters).nll(y))
    for container in (tuple, list):
        y_pred = container([prediction, *parameters.values()])
        found = as_numpy(cls()(y, y_pred))
        np.testing.assert_allclose(found, nll.mean(), rtol=1e-5)


@every_loss
def test_sample_weight_and_reduction(cls, rng):
    y, prediction = case(cls, rng)
    contracts.sample_weight_counts_examples(
        fixed(cls, reduction="sum"), y, prediction
    )
    assert as_numpy(fixed(cls, reduction=None)(y, prediction)).shape == (6,)


@every_loss
def test_targets_and_weights_have_one_shape(cls, rng):
    loss = fixed(cls, reduction=None)
    y, prediction = case(cls, rng)
    contracts.loss_takes_one_shape(loss, y, prediction)
    if not cls.likelihood.event_rank:
        contracts.loss_takes_one_shape(loss, y[:, :1], prediction[:, :1])
    # Sequences
    y, prediction = (np.stack([v[:4], v[2:]], axis=1) for v in (y, prediction))
    contracts.loss_takes_one_shape(loss, y, prediction)


@pytest.mark.parametrize(
    "loss, units",
    [
        (kl.losses.QuantilesLoss((0.1, 0.5), scale=1.0, reduction=None), 2),
        (
            kl.losses.LikelihoodLoss(
                kl.likelihoods.Censored("normal"), scale=1.0, reduction=None
            ),
            1,
        ),
        (kl.losses.OrdinalLoss(3, gaps=1.0, reduction=None), 1),
    ],
)
def test_families_have_one_shape(loss, units, rng):
    prediction = rng.normal(size=(6, units)).astype("float32")
    y = rng.integers(0, 3, size=6).astype("float32")
    y = y if loss.likelihood.event_rank else y[:, None]
    contracts.loss_takes_one_shape(loss, y, prediction)
    if loss.likelihood.takes_bounds:
        bounds = np.stack([y[:, 0], y[:, 0] + 1], axis=-1)
        found = [
            as_numpy(loss(b, prediction)) for b in (bounds, bounds[:, None])
        ]
        np.testing.assert_allclose(*found)
        with pytest.raises(ValueError, match=r"\(6, 1, 2\).*Received: \(6, 3"):
            loss(np.zeros((6, 3, 2), "float32"), prediction)


@pytest.mark.few(2)
@every_loss
def test_learns_its_parameters_and_saves_them(cls, rng, tmp_path):
    y, x = case(cls, rng)
    model = contracts.small_model(last_layer(cls), x)
    learned = [p.name for p in cls.likelihood.parameters]
    eagerly = contracts.runs_eagerly(cls.likelihood, TRACED)
    model.compile(contracts.momentum(), loss=cls(), run_eagerly=eagerly)
    before = model.loss.parameter_values()
    contracts.training_moves_every_weight(model, x, y)
    after = model.loss.parameter_values()
    assert set(after) == set(learned)
    for name in learned:
        assert before[name] != after[name]
    if not contracts.stands_for_others(cls.likelihood):
        return
    again = contracts.model_survives_saving(model, x, y, tmp_path / "m.keras")
    assert again.loss.parameter_values() == pytest.approx(
        model.loss.parameter_values()
    )


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "cls",
    [losses.NormalLoss, losses.RobustRhoLoss, losses.SoftmaxLoss]
    + [losses.StudentTLoss],
)
def test_options_off_default_survive_saving(cls, rng, tmp_path):
    y, x = case(cls, rng)
    *fixed_ones, learned = cls.likelihood.parameters
    parameter = kl.layers.GlobalParameter(
        initial=0.7,
        constraint=kl.constraints.Softplus(floor=0.2),
        dimension="element",
        learning_rate_multiplier=0.5,
        weight_decay=0.01,
        clipnorm=1.0,
    )
    loss = cls(
        **{p.name: 1.3 * p.initial for p in fixed_ones},
        **{learned.name: parameter},
        reduction="sum",
        name="renamed",
        dtype="float32",
    )
    model = contracts.small_model(last_layer(cls), x)
    # The tests of heads compile the steps of losses.
    model.compile(
        contracts.momentum(), loss=loss, run_eagerly=contracts.EAGERLY
    )
    contracts.training_moves_every_weight(model, x, y)
    again = contracts.model_survives_saving(model, x, y, tmp_path / "m.keras")
    assert again.loss.name == "renamed"


@every_loss
def test_dtype_survives_the_config(cls, rng):
    y, prediction = case(cls, rng)
    loss = fixed(cls, dtype="bfloat16", dimension="element")
    again = cls.from_config(loss.get_config())
    assert again.dtype == "bfloat16"
    assert again.dimension == "element"
    first, second = loss(y, prediction), again(y, prediction)
    assert keras.backend.standardize_dtype(first.dtype) == "bfloat16"
    assert float(as_numpy(ops.cast(first, "float32"))) == float(
        as_numpy(ops.cast(second, "float32"))
    )


@pytest.mark.few(4)
@ignore_numpy_copies
@some_losses
def test_a_stock_model_says_that_it_does_not_learn(cls, rng):
    y, x = case(cls, rng)
    model = keras.Sequential([keras.Input((UNITS,)), last_layer(cls)])
    eagerly = contracts.runs_eagerly(cls.likelihood, TRACED)
    model.compile("sgd", loss=cls(), run_eagerly=eagerly)
    if not cls.likelihood.parameters:
        # Nothing is left to learn or to warn about.
        model.fit(x, y, verbose=0)
        return
    with pytest.warns(UserWarning, match="LikelihoodModel") as record:
        model.fit(x, y, epochs=2, verbose=0)
    assert sum("LikelihoodModel" in str(r.message) for r in record) == 1
    model.compile("sgd", loss=fixed(cls), run_eagerly=contracts.EAGERLY)
    model.fit(x, y, verbose=0)
    name = cls.likelihood.parameters[0].name
    model.compile("sgd", loss=cls(**{name: "global"}))
    with pytest.raises(ValueError, match="from_model.*Received"):
        model.fit(x, y, verbose=0)


def test_a_loop_of_ones_own_may_train_the_loss(rng):
    loss = losses.NormalLoss("global")
    assert len(loss.trainable_variables) == 1
    with pytest.raises(ValueError, match="adopt.*Received"):
        loss(np.zeros((2, 1)), np.ones((2, 1)))
    assert len(loss.adopt()) == 1
    value = as_numpy(loss(np.zeros((2, 1)), np.ones((2, 1))))
    np.testing.assert_allclose(value, 0.5 + 0.5 * np.log(2 * np.pi), rtol=1e-6)


def test_targets_may_leave_out_a_single_unit(rng):
    y = rng.normal(size=(6, 1)).astype("float32")
    loss = losses.NormalLoss(1.0)
    assert float(loss(y[:, 0], y + 1)) == pytest.approx(float(loss(y, y + 1)))
    with pytest.raises(ValueError, match="Received: \\(6, 1\\)"):
        loss(y, np.zeros((6, 3), dtype="float32"))


def test_mask_of_the_prediction_counts():
    """Masked steps have no influence, and the mean is over the others."""
    prediction = np.ones((2, 4, 1), dtype="float32")
    prediction[0, 2:] = 0.0
    y = np.zeros_like(prediction)
    y[0, 2:] = 1e6
    masked = keras.layers.Masking(0.0)(prediction)
    y_pred = (masked, ops.full((2, 4, 1), 2.0))
    nll = 0.5 * 0.25 + np.log(2.0) + 0.5 * np.log(2 * np.pi)
    found = as_numpy(losses.NormalLoss()(y, y_pred))
    np.testing.assert_allclose(found, nll, rtol=1e-5)
    weight = np.array([[1.0], [3.0]], "float32") * np.ones((2, 4), "float32")
    found = as_numpy(losses.NormalLoss()(y, y_pred, weight))
    np.testing.assert_allclose(found, nll * (2 + 3 * 4) / 6, rtol=1e-5)


def test_masks_travel_through_a_recurrent_model():
    inputs = keras.Input((4, 2))
    hidden = keras.layers.Masking(0.0)(inputs)
    hidden = keras.layers.SimpleRNN(3, return_sequences=True)(hidden)
    model = kl.LikelihoodModel(inputs, kl.layers.ScaleHead(1)(hidden))
    model.compile("sgd", loss=losses.NormalLoss())
    x = np.ones((2, 4, 2), dtype="float32")
    x[:, 2:] = 0.0
    y = np.zeros((2, 4, 1), dtype="float32")
    short = model.evaluate(x, y, verbose=0)
    y[:, 2:] = 1e6
    assert model.evaluate(x, y, verbose=0) == pytest.approx(short)


@pytest.mark.few(1)
@pytest.mark.parametrize("hidden_units", [None, 5])
def test_the_faithful_scheme_trains_the_mean_by_squared_error(
    hidden_units, rng
):
    """beta=1 and an isolated head: the trunk moves as under MSE / 2."""
    x = rng.normal(size=(8, 4)).astype("float32")
    y = 2 * x[:, :1]

    def kernels(loss):
        keras.utils.set_random_seed(5)
        head = kl.layers.ScaleHead(1, isolated=True, hidden_units=hidden_units)
        model = contracts.small_model(head, x)
        model.compile(keras.optimizers.SGD(0.05), loss=loss)
        with warnings.catch_warnings():
            # Squared error leaves the scale without a gradient.
            warnings.simplefilter("ignore", UserWarning)
            model.fit(x, y, epochs=5, verbose=0)
        return [as_numpy(v.value) for v in model.layers[1].weights]

    class HalfSquaredError(losses.NormalLoss):
        def elementwise(self, distribution, y_true):
            return 0.5 * ops.square(distribution.prediction - y_true)

    contracts.assert_equal_outputs(
        kernels(losses.NormalLoss(beta=1.0)),
        kernels(HalfSquaredError()),
        rtol=1e-4,
        atol=1e-6,
    )


def test_half_the_parameters_from_the_head_is_an_error(rng):
    y = np.zeros((4, 1), dtype="float32")
    with pytest.raises(ValueError, match="'shape', 'scale'.*Received"):
        losses.RobustRhoLoss()(y, (y, y + 1))
    named = losses.RobustRhoLoss(shape=1.0)
    fixed_both = losses.RobustRhoLoss(shape=1.0, scale=0.5)
    np.testing.assert_allclose(
        as_numpy(named(y, (y, y + 0.5))), as_numpy(fixed_both(y, y)), rtol=1e-6
    )


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: losses.NormalLoss(0.0), "`scale` must be > 0"),
        (lambda: losses.NormalLoss(float("nan")), "`scale` must be > 0"),
        (lambda: losses.NormalLoss("learned"), "'learned'"),
        (lambda: losses.NormalLoss(beta=2.0), "Received: 2.0"),
        (lambda: losses.LocationScaleLoss("softmax"), "'scale'"),
        (lambda: losses.RobustRhoLoss(shape=-1.0), "`shape` must be >= 0"),
        (lambda: losses.LikelihoodLoss("normal", width=1.0), "'width'"),
    ],
)
def test_bad_arguments_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_shape_zero_is_allowed():
    y = np.zeros((2, 1), dtype="float32")
    value = as_numpy(losses.RobustRhoLoss(shape=0.0, scale=1.0)(y, y))
    np.testing.assert_allclose(value, np.log(np.pi * np.sqrt(2)), rtol=1e-6)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_one_unit_that_is_not_finite_spoils_its_example_alone(bad):
    y = np.array([[0.0, bad], [0.5, 0.0]], "float32")
    loss = kl.losses.NormalLoss(scale=1.0, reduction="none")
    found = as_numpy(loss(y, np.zeros_like(y)))
    assert np.isnan(found[0]) and np.isfinite(found[1])
    weighted = loss(y, np.zeros_like(y), sample_weight=np.array([0.0, 1.0]))
    assert np.isfinite(as_numpy(weighted)).all()


def test_ignored_outcomes_of_several_units_do_not_count(rng):
    logits = rng.normal(size=(3, 2)).astype("float32")
    y = np.array([[0, 255], [1, 0], [255, 1]])
    kept = y != 255
    loss = kl.losses.BernoulliLoss(temperature=1.0, missing=255)
    nll = np.logaddexp(0, logits) - np.where(kept, y, 0) * logits
    assert as_numpy(loss(y, logits)) == pytest.approx(
        nll[kept].mean(), rel=1e-5
    )


def test_targets_of_half_precision_may_have_a_large_sum():
    """64 targets of 2000 overflow float16 if they are summed."""
    y = np.full((2, 64), 2000.0, "float16")
    loss = losses.NormalLoss(scale=1.0, dtype="float16")
    assert np.isfinite(as_numpy(loss(y, y)))
