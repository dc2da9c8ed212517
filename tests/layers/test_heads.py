"""Every head, found by discovery, for every likelihood it can serve."""

import itertools
import warnings

import keras
import numpy as np
import pytest
from keras import ops

import keras_likelihood as kl
from keras_likelihood import constraints, layers, likelihoods
from keras_likelihood.likelihoods.output import split_output
from tests import contracts
from tests.contracts import FEATURES, UNITS, as_numpy

LIKELIHOODS = contracts.LIKELIHOODS
NAMED_HEADS = [
    getattr(layers, n)
    for n in layers.__all__
    if n.endswith("Head") and n != "LikelihoodHead"
]
DIMENSIONS = ["scalar", "channel", "element"]


@pytest.fixture
def dense(rng):
    return rng.normal(size=(4, FEATURES)).astype("float32")


@pytest.fixture
def maps(rng):
    return rng.normal(size=(4, 6, 7, FEATURES)).astype("float32")


def contract_cases():
    """Every dimension, both conditionings and both ranks of the features.

    Heads differ only by the rank of an event and the number of parameters. So
    the first likelihood of each kind gets the full cross product, and the
    others get each option at least once.
    """
    kinds = set()
    for likelihood in LIKELIHOODS:
        kind = likelihood.event_rank, len(likelihood.parameters)
        options = itertools.product(DIMENSIONS, ["predicted", "global"])
        each = [(*option, ["dense", "maps"]) for option in options]
        if kind in kinds:
            each = [
                ("scalar", "predicted", ["maps"]),
                ("channel", "global", ["maps"]),
                ("element", "predicted", ["dense"]),
            ]
        kinds.add(kind)
        for dimension, conditioning, names in each:
            if likelihood.event_rank and dimension == "channel":
                continue  # Classes are not channels.
            name = f"{likelihood.__name__}-{dimension}-{conditioning}"
            yield pytest.param(
                likelihood, dimension, conditioning, names, id=name
            )


@pytest.mark.few(12)
@pytest.mark.parametrize(
    "likelihood, dimension, conditioning, names", [*contract_cases()]
)
def test_contract(likelihood, dimension, conditioning, names, request):
    options = {"dimension": dimension, "conditioning": conditioning}
    for name in names:
        features = request.getfixturevalue(name)
        head = layers.LikelihoodHead(likelihood, UNITS, **options)
        contracts.symbolic_and_eager_shapes_agree(head, features)
        contracts.head_broadcasts_with_its_prediction(head, features)
        contracts.config_keeps_outputs(head, features)
        prediction, parameters = split_output(head(features))
        for value, p in zip(parameters, likelihood.parameters, strict=True):
            assert tuple(value.shape[1:]) == likelihood.shape_of(
                p.name, prediction.shape, dimension
            )


@pytest.mark.parametrize("conditioning", ["predicted", "global"])
@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=lambda c: c.__name__)
def test_starts_at_the_initial_value(likelihood, conditioning):
    declared = {p.name: p.initial for p in likelihood.parameters}
    contracts.head_starts_at_the_initial_values(
        layers.LikelihoodHead(likelihood, UNITS, conditioning=conditioning),
        declared,
    )
    asked = {p.name: 0.7 * p.initial for p in likelihood.parameters}
    contracts.head_starts_at_the_initial_values(
        layers.LikelihoodHead(
            likelihood,
            UNITS,
            conditioning=conditioning,
            initial=asked,
            learning_rate_multiplier=0.1,
        ),
        asked,
    )


@pytest.mark.few(2)
@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=lambda c: c.__name__)
def test_trains_and_saves_with_options_off_default(
    likelihood, rng, dense, tmp_path
):
    head = layers.LikelihoodHead(
        likelihood,
        UNITS,
        conditioning={p.name: "predicted" for p in likelihood.parameters[-1:]},
        dimension="scalar",
        isolated=True,
        normalize="layer",
        hidden_units=5,
        constraint=constraints.Softplus(floor=0.3),
        initial=0.8,
        learning_rate_multiplier=0.5,
        weight_decay=0.01,
        clipnorm=1.0,
        activation=contracts.activation_for(likelihood),
        kernel_initializer="he_normal",
        kernel_regularizer=keras.regularizers.L2(0.01),
    )
    model = contracts.small_model(head, dense)
    model.compile(
        contracts.momentum(),
        loss=kl.losses.LikelihoodLoss(likelihood),
        run_eagerly=contracts.runs_eagerly(likelihood),
    )
    y = contracts.targets_for(likelihood, (len(dense), UNITS), rng)
    # The hidden layer has no gradient until the kernel leaves zero.
    contracts.training_moves_every_weight(model, dense, y, epochs=6)
    contracts.config_keeps_outputs(head, dense)
    contracts.model_survives_saving(model, dense, y, tmp_path / "m.keras")


@pytest.mark.parametrize("head", NAMED_HEADS, ids=lambda c: c.__name__)
def test_named_heads_round_trip(head, dense):
    units = (0.1, 0.5, 0.9) if head is layers.QuantilesHead else UNITS
    made = head(units, dimension="scalar", initial=0.5, name="mine")
    contracts.config_keeps_outputs(made, dense)
    assert made.get_config()["name"] == "mine"


@pytest.mark.few(4)
@pytest.mark.parametrize(
    "likelihood",
    [c for c in LIKELIHOODS if contracts.stands_for_others(c)],
    ids=lambda c: c.__name__,
)
def test_mixed_precision_stays_finite(likelihood, mixed_precision, rng, dense):
    head = layers.LikelihoodHead(likelihood, UNITS)
    model = contracts.small_model(head, dense)
    for output in model.outputs:
        assert output.dtype == "float32"
    model.compile(
        keras.optimizers.SGD(0.01),
        loss=kl.losses.LikelihoodLoss(likelihood),
        # The step of every likelihood is compiled in the test above.
        run_eagerly=contracts.EAGERLY and likelihood is not likelihoods.Normal,
    )
    y = contracts.targets_for(likelihood, (len(dense), UNITS), rng)
    contracts.training_moves_every_weight(model, dense, y)


def test_feature_maps_are_a_1x1_convolution(maps, rng):
    head = layers.ScaleHead(UNITS)
    head(maps)
    layer = head.parameter_layers[0]
    kernel = rng.normal(size=layer.kernel.shape).astype("float32")
    layer.kernel.assign(kernel)
    conv = ops.conv(maps, kernel[None, None])
    np.testing.assert_allclose(
        ops.convert_to_numpy(head(maps)[1]),
        ops.convert_to_numpy(layer.constraint(conv)),
        rtol=1e-4,
    )


def test_a_head_needs_no_wrapper_for_the_steps_of_a_sequence(rng):
    x = rng.normal(size=(4, 5, 3)).astype("float32")
    head = kl.layers.ScaleHead(2)
    shapes = head.compute_output_shape((None, 5, 3))
    assert shapes == ((None, 5, 2), (None, 5, 2))
    outputs = head(keras.Input((5, 3)))
    assert tuple(part.shape for part in outputs) == shapes
    steps = [head(x[:, t]) for t in range(5)]
    for part, by_step in zip(head(x), zip(*steps, strict=True), strict=True):
        expected = np.stack([as_numpy(step) for step in by_step], axis=1)
        np.testing.assert_allclose(as_numpy(part), expected, rtol=1e-5)


def test_scalars_average_over_positions(maps, rng):
    head = layers.ScaleHead(UNITS, dimension="scalar")
    head(maps)
    layer = head.parameter_layers[0]
    kernel = rng.normal(size=layer.kernel.shape).astype("float32")
    layer.kernel.assign(kernel)
    mean = (maps @ kernel).mean(axis=(1, 2), keepdims=True)
    np.testing.assert_allclose(
        ops.convert_to_numpy(head(maps)[1]),
        ops.convert_to_numpy(layer.constraint(mean)),
        rtol=1e-4,
    )


def step(head_options, optimizer, x, y):
    """Change of the bias of the scale and of the trunk in one step."""
    keras.utils.set_random_seed(3)
    head = layers.ScaleHead(1, **head_options)
    model = contracts.small_model(head, x)
    model.compile(optimizer, loss=kl.losses.NormalLoss())
    trunk = model.layers[1].kernel
    bias = head.parameter_layers[0].bias
    read = head.parameter_layers[0].read
    before = [
        ops.convert_to_numpy(ops.convert_to_tensor(v))
        for v in (read(bias), trunk)
    ]
    model.train_on_batch(x, y)
    after = [
        ops.convert_to_numpy(ops.convert_to_tensor(v))
        for v in (read(bias), trunk)
    ]
    return [a - b for a, b in zip(after, before, strict=True)]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "make", [lambda: keras.optimizers.SGD(0.1), lambda: "adam"]
)
def test_learning_rate_multiplier_scales_any_optimizers_step(make, dense):
    y = dense[:, :1] * 3
    plain, _ = step({}, make(), dense, y)
    slowed, _ = step({"learning_rate_multiplier": 0.1}, make(), dense, y)
    assert abs(plain) > 1e-4
    np.testing.assert_allclose(slowed, 0.1 * plain, rtol=1e-3)


def test_clipnorm_bounds_the_gradient_of_the_parameters_alone(dense):
    y = dense[:, :1] * 30
    sgd = keras.optimizers.SGD
    free, trunk = step({"isolated": True}, sgd(1e-4), dense, y)
    clipped, same = step(
        {"isolated": True, "clipnorm": 0.5}, sgd(1e-4), dense, y
    )
    assert abs(free) > 1e-4
    np.testing.assert_allclose(abs(clipped), 0.5e-4, rtol=1e-2)
    np.testing.assert_allclose(same, trunk, rtol=1e-4, atol=1e-8)


def test_isolated_parameters_do_not_shape_the_trunk(dense, rng):
    """The trunk is updated as if the predicted scale were constant."""

    def trunk_step(isolated, stopped):
        keras.utils.set_random_seed(3)
        head = layers.ScaleHead(1, isolated=isolated)
        model = contracts.small_model(head, dense)
        head.parameter_layers[0].kernel.assign(np.full((FEATURES, 1), 0.3))
        if stopped:
            prediction, scale = model.output
            model = kl.LikelihoodModel(
                model.input, (prediction, ops.stop_gradient(scale))
            )
        trunk = model.layers[1].kernel
        before = ops.convert_to_numpy(trunk.value)
        model.compile(keras.optimizers.SGD(0.1), loss=kl.losses.NormalLoss())
        with warnings.catch_warnings():
            # Keras notes that the stopped scale has no gradient.
            warnings.simplefilter("ignore", UserWarning)
            model.train_on_batch(dense, 3 * dense[:, :1])
        return ops.convert_to_numpy(trunk.value) - before

    isolated, oracle, joint = (
        trunk_step(True, False),
        trunk_step(False, True),
        trunk_step(False, False),
    )
    np.testing.assert_allclose(isolated, oracle, rtol=1e-5, atol=1e-7)
    assert np.max(np.abs(joint - oracle)) > 1e-3


def test_weight_decay_pulls_towards_the_start():
    decayed = layers.PredictedParameter(
        "normal",
        "scale",
        1,
        initial=0.5,
        weight_decay=0.1,
        learning_rate_multiplier=0.5,
    )
    decayed(np.ones((2, 3), dtype="float32"))

    def decay():
        return sum(float(ops.convert_to_numpy(v)) for v in decayed.losses)

    assert decay() == pytest.approx(0.0, abs=1e-9)
    decayed.kernel.assign(np.full((3, 1), 2.0))
    assert decay() == pytest.approx(0.1 * 3 * 1.0)


@pytest.mark.parametrize("normalize", ["layer", "batch"])
def test_normalization_takes_out_the_features_scale(normalize, dense):
    head = layers.ScaleHead(1, normalize=normalize)
    head(dense)
    head.parameter_layers[0].kernel.assign(np.ones((FEATURES, 1)))
    small, large = (
        ops.convert_to_numpy(head(dense * k, training=True)[1])
        for k in (1.0, 1000.0)
    )
    np.testing.assert_allclose(small, large, rtol=2e-2)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: layers.ScaleHead(1, conditioning="data"), "the loss"),
        (lambda: layers.ScaleHead(1, normalize="group"), "'group'"),
        (lambda: layers.ScaleHead(1, hidden_units=0), "hidden_units"),
        (lambda: layers.ScaleHead(1, initial={"width": 1.0}), "width"),
        (lambda: layers.ScaleHead(1, initial=-1.0), "strictly between"),
        (lambda: layers.ScaleHead(1, clipnorm=0.0), "clipnorm"),
        (lambda: layers.ScaleHead(1, weight_decay=-1.0), "weight_decay"),
        (
            lambda: layers.ScaleHead(1, learning_rate_multiplier=0.0),
            "learning_rate_multiplier",
        ),
        (lambda: layers.LikelihoodHead("gauss", 1), "'gauss'"),
    ],
)
def test_bad_arguments_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_clipping_refuses_a_scaled_loss(dense):
    keras.config.set_dtype_policy("mixed_float16")
    try:
        with pytest.raises(ValueError, match="mixed_bfloat16"):
            layers.ScaleHead(1, clipnorm=1.0)(dense)
    finally:
        keras.config.set_dtype_policy("float32")


@pytest.mark.parametrize("dimension", ["scalar", "channel"])
@pytest.mark.parametrize("normalize", [None, "layer"])
def test_parameters_of_an_example_average_over_what_is_not_masked(
    dimension, normalize, rng
):
    x = rng.normal(size=(3, 5, 4)).astype("float32")
    x[:, 3:] = 0.0
    head = kl.layers.ScaleHead(2, dimension=dimension, normalize=normalize)
    head.build((3, 5, 4))
    head.parameter_layers[0].kernel.assign(
        rng.normal(size=(4, 1 if dimension == "scalar" else 2))
    )
    inputs = keras.Input((5, 4))
    masked = keras.Model(inputs, head(keras.layers.Masking(0.0)(inputs)))
    _, found = masked.predict(x, verbose=0)
    _, expected = head(x[:, :3])
    np.testing.assert_allclose(found, contracts.as_numpy(expected), rtol=1e-5)


LOCATION_SCALE = [
    c for c in LIKELIHOODS if issubclass(c, likelihoods.LocationScale)
]


@pytest.mark.few(2)
@pytest.mark.parametrize("likelihood", LOCATION_SCALE, ids=lambda c: c.__name__)
def test_least_scale_trains_without_overflow(likelihood, dense):
    """Residuals of a thousand scales, at the smallest scale of a head."""
    head = layers.LikelihoodHead(likelihood, 1)
    model = contracts.small_model(head, dense)
    model.compile(
        keras.optimizers.SGD(1e-12), loss=kl.losses.LikelihoodLoss(likelihood)
    )
    scale = head.parameter_layers[-1]
    scale.bias.assign(np.full(scale.bias.shape, -30.0))
    *_, least = model.predict(dense, verbose=0)
    if likelihood is not likelihoods.RobustRho:
        np.testing.assert_allclose(least, 0.001 / (np.log(2) + 0.001), 1e-3)
    y = np.full((len(dense), 1), 1e3 * least.max(), "float32")
    for target in (y, 1e3 * y):
        assert np.isfinite(model.train_on_batch(dense, target))
    assert all(np.isfinite(w).all() for w in model.get_weights())


def test_a_head_saves_its_constraints():
    head = layers.LikelihoodHead("student_t", 1, constraint={"df": "exp"})
    saved = head.get_config()["constraint"]
    assert {k: constraints.get(v) for k, v in saved.items()} == {
        "df": constraints.Exp(),
        "scale": constraints.ShiftedSoftplus(0.001),
    }
