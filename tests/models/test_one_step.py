"""Targets, weights, metrics and heads in one training step."""

import itertools

import keras
import numpy as np
import pytest

import keras_likelihood as kl
from tests import contracts

pytestmark = pytest.mark.usefixtures("step_by_step")


@pytest.fixture
def x(rng):
    return rng.normal(size=(24, 3)).astype("float32")


def compiled(layer, x, loss, **options):
    model = contracts.small_model(layer, x)
    model.compile(keras.optimizers.SGD(0.1), loss=loss, **options)
    return model


def all_finite(model):
    return all(np.isfinite(w).all() for w in model.get_weights())


def evaluated(model, *data, **options):
    return model.evaluate(*data, verbose=0, return_dict=True, **options)


@pytest.mark.parametrize("row", [0, 23])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("method", ["fit", "evaluate", "train_on_batch"])
def test_a_target_that_is_not_finite_changes_nothing(x, row, bad, method):
    y = x[:, :1].copy()
    y[row] = bad
    model = compiled(kl.layers.ScaleHead(1), x, kl.losses.NormalLoss())
    before = model.get_weights()
    options = {} if method == "train_on_batch" else {"verbose": 0}
    with pytest.raises(ValueError, match=f"finite.*{bad} in row {row}"):
        getattr(model, method)(x, y, **options)
    contracts.assert_equal_outputs(model.get_weights(), before, rtol=0)
    weight = np.isfinite(y[:, 0]).astype("float32")
    model.fit(x, y, sample_weight=weight, verbose=0)
    assert all_finite(model)


@pytest.mark.parametrize("batch", [0, 2])
def test_a_stream_with_nan_leaves_finite_weights(x, batch):
    """Only the loss reveals it, and only after the step."""
    y = x[:, :1].copy()
    y[8 * batch] = np.nan
    model = compiled(kl.layers.ScaleHead(1), x, kl.losses.NormalLoss())
    pieces = [(x[i : i + 8], y[i : i + 8]) for i in (0, 8, 16)]
    endless = (piece for piece in itertools.cycle(pieces))
    with pytest.raises(ValueError, match="loss is NaN.*Received"):
        model.fit(endless, steps_per_epoch=3, shuffle=False, verbose=0)
    assert all_finite(model)


CLASSES = {
    "softmax": (lambda **o: kl.losses.SoftmaxLoss(**o), 3),
    "bernoulli": (lambda **o: kl.losses.BernoulliLoss(**o), 1),
    "ordinal": (lambda **o: kl.losses.OrdinalLoss(3, **o), 1),
}


@pytest.mark.few(3)
@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("label", [-1, 255])
def test_labels_that_do_not_count_may_be_any_number(x, rng, name, label):
    """Weights of 0 and `missing` act as if the rows were absent."""
    make, units = CLASSES[name]
    y = rng.integers(0, 2, size=24)
    y[::4] = label
    counts = y != label
    model = compiled(keras.layers.Dense(units), x, make())
    model.fit(x, y, sample_weight=counts.astype("float32"), verbose=0)
    assert all_finite(model)
    model = compiled(
        keras.layers.Dense(units),
        x,
        make(missing=label),
        metrics=["accuracy", kl.metrics.NegativeLogLikelihood()],
    )
    found = evaluated(model, x, y)
    expected = evaluated(model, x[counts], y[counts])
    assert found == pytest.approx(expected, rel=1e-5)
    model.fit(x, y, verbose=0)
    assert all_finite(model)
    with pytest.raises(ValueError, match="`missing`.*Received: 'none'"):
        make(missing="none")


@pytest.mark.parametrize("how", ["masked", "weights", "ignored"])
def test_positions_of_sequences_that_do_not_count(rng, how):
    x = rng.normal(size=(8, 5, 2)).astype("float32")
    y = rng.integers(0, 3, size=(8, 5))
    y[:, 3:] = 255
    weight = (y < 255).astype("float32") if how == "weights" else None
    inputs = keras.Input((5, 2))
    hidden = inputs
    if how == "masked":
        x[:, 3:] = 0.0
        hidden = keras.layers.Masking()(inputs)
    loss = kl.losses.SoftmaxLoss(missing=255 if how == "ignored" else None)
    model = kl.LikelihoodModel(inputs, keras.layers.Dense(3)(hidden))
    model.compile(
        "sgd", loss=loss, metrics=["accuracy"], weighted_metrics=["accuracy"]
    )
    model.fit(x, y, sample_weight=weight, verbose=0)
    assert all_finite(model)
    found = evaluated(model, x, y, sample_weight=weight)
    distribution = model.predict_distribution(x, verbose=0)
    p = contracts.as_numpy(distribution.class_probabilities())[:, :3]
    right = (p.argmax(-1) == y[:, :3]).mean()
    assert found["weighted_accuracy"] == pytest.approx(right, abs=1e-6)
    nll = -np.log(np.take_along_axis(p, y[:, :3, None], -1)).mean()
    # Keras divides by the number of all weights, including zeros.
    share = 3 / 5 if how == "weights" else 1.0
    assert found["loss"] == pytest.approx(nll * share, rel=1e-4)


def test_weights_are_not_changed_by_a_mask(rng):
    weight = np.full((4, 5), 2.0, "float32")
    inputs = keras.Input((5, 2))
    hidden = keras.layers.Masking()(inputs)
    model = kl.LikelihoodModel(inputs, kl.layers.ScaleHead(1)(hidden))
    model.compile("sgd", loss=kl.losses.NormalLoss())
    x = rng.normal(size=(4, 5, 2)).astype("float32")
    x[:, 2:] = 0.0
    y = x[..., :1]
    plain = evaluated(model, x, y)["loss"]
    double = evaluated(model, x, y, sample_weight=weight)["loss"]
    assert double == pytest.approx(2 * plain, rel=1e-5)
    assert (weight == 2).all()


def test_keras_metrics_of_answers_get_probabilities(x, rng):
    y = rng.integers(0, 2, size=(24, 1)).astype("float32")
    made = {
        "auc": lambda: keras.metrics.AUC(name="auc"),
        "entropy": lambda: keras.metrics.BinaryCrossentropy(name="entropy"),
    }
    model = compiled(
        kl.layers.LikelihoodHead("bernoulli", 1),
        x,
        kl.losses.BernoulliLoss(),
        metrics=[
            "accuracy",
            *(make() for make in made.values()),
            keras.metrics.BinaryCrossentropy(from_logits=True, name="logits"),
        ],
    )
    found = evaluated(model, x, y)
    p = contracts.as_numpy(model.predict_distribution(x, verbose=0).mean())
    assert found["accuracy"] == pytest.approx(((p > 0.5) == y).mean())
    for name, make in made.items():
        metric = make()
        metric.update_state(y, p)
        assert found[name] == pytest.approx(float(metric.result()), rel=1e-5)
    for name in ("entropy", "logits"):
        assert found[name] == pytest.approx(found["loss"], rel=1e-4)


def test_keras_metrics_of_classes_get_the_learned_temperature(x, rng):
    y = rng.integers(0, 3, size=24)
    model = compiled(
        keras.layers.Dense(3),
        x,
        kl.losses.SoftmaxLoss(),
        metrics=[
            "acc",
            keras.metrics.SparseCategoricalCrossentropy(name="entropy"),
            keras.metrics.SparseCategoricalCrossentropy(
                from_logits=True, name="logits"
            ),
        ],
    )
    history = model.fit(x, y, epochs=3, batch_size=24, verbose=0).history
    assert history["entropy"] == pytest.approx(history["loss"], rel=1e-4)
    assert history["logits"] == pytest.approx(history["loss"], rel=1e-4)
    assert history["temperature"][-1] != 1


def test_accuracy_of_ordered_classes(x, rng):
    y = rng.integers(0, 3, size=24)
    loss = kl.losses.OrdinalLoss(3)
    model = compiled(keras.layers.Dense(1), x, loss, metrics=["accuracy"])
    p = model.predict_distribution(x, verbose=0).class_probabilities()
    expected = (contracts.as_numpy(p)[:, 0].argmax(-1) == y).mean()
    assert evaluated(model, x, y)["accuracy"] == pytest.approx(expected)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "head, loss, message",
    [
        ("student_t", "robust_rho", r"\['shape', 'scale'\].*'student_t'"),
        ("softmax", "normal", r"\['scale'\].*'softmax', with \['temp"),
    ],
)
@pytest.mark.parametrize("kind", ["one", "dict"])
def test_a_head_of_another_likelihood_is_an_error(head, loss, message, kind):
    inputs = keras.Input((3,))
    output = kl.layers.LikelihoodHead(head, 2)(inputs)
    loss = kl.losses.LikelihoodLoss(loss)
    if kind == "dict":
        output, loss = {"y": output}, {"y": loss}
    model = kl.LikelihoodModel(inputs, output)
    with pytest.raises(ValueError, match=message):
        model.compile("sgd", loss=loss)


def test_a_head_of_a_likelihood_with_the_same_parameters_fits(x):
    model = compiled(kl.layers.ScaleHead(1), x, kl.losses.LaplaceLoss())
    y = x[:, :1]
    model.fit(x, y, verbose=0)
    found = model.predict_distribution(x)
    away = np.abs(y - found.prediction) / found.scale
    nll = np.mean(away + np.log(2 * found.scale))
    assert model.evaluate(x, y, verbose=0) == pytest.approx(nll, rel=1e-5)


def test_a_learned_parameter_shows_in_the_history_alone(x):
    """`evaluate` returns one number, and nothing is named `val_scale`."""
    model = compiled(keras.layers.Dense(1), x, "student_t")
    history = model.fit(x, x[:, :1], validation_split=0.25, verbose=0).history
    assert set(history) == {"loss", "val_loss", "df", "scale"}
    scale = model.loss.parameter_values()["scale"]
    assert history["scale"][-1] == pytest.approx(scale)
    assert isinstance(model.evaluate(x, x[:, :1], verbose=0), float)


def test_a_list_of_outputs(x, tmp_path):
    inputs = keras.Input((3,))
    outputs = [
        kl.layers.ScaleHead(1, name="a")(inputs),
        keras.layers.Dense(1, name="b")(inputs),
    ]
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile(
        "sgd",
        loss=["normal", "mse"],
        loss_weights=[0.5, 2.0],
        metrics=[[kl.metrics.IntervalCoverage()], ["mae"]],
    )
    y = [x[:, :1], x[:, 1:2]]
    found = evaluated(model, x, y)
    total = 0.5 * found["a_loss"] + 2 * found["b_loss"]
    assert found["loss"] == pytest.approx(total, rel=1e-5)
    assert {"a_interval_coverage", "b_mae"} <= set(found)
    (_, scale), plain = model.predict(x, verbose=0)
    assert scale.shape == plain.shape == (24, 1)
    model.save(tmp_path / "m.keras")
    again = keras.saving.load_model(tmp_path / "m.keras")
    assert evaluated(again, x, y) == pytest.approx(found, rel=1e-5)


def test_one_distribution_per_output_and_step(x):
    """The loss and all metrics share it."""
    made = []

    class Counted(kl.likelihoods.Normal):
        def __init__(self, *args, **kwargs):
            made.append(1)
            super().__init__(*args, **kwargs)

    model = compiled(
        kl.layers.LikelihoodHead(Counted, 1),
        x,
        kl.losses.LikelihoodLoss(Counted),
        metrics=["mse", kl.metrics.IntervalCoverage(), kl.metrics.Sharpness()],
    )
    model.train_on_batch(x, x[:, :1])
    made.clear()
    model.compute_loss(x, x[:, :1], model(x))
    assert len(made) == 1


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="PyTorch only")
def test_an_optimizer_of_pytorch_gets_what_the_loss_learns(x):
    import torch

    model = compiled(keras.layers.Dense(1), x, kl.losses.NormalLoss())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    before = model.loss.parameter_values()["scale"]
    loss = model.compute_loss(x, keras.ops.array(x[:, :1]), model(x))
    loss.backward()
    optimizer.step()
    assert model.loss.parameter_values()["scale"] != before
