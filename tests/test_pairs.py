"""Features that work separately work together."""

import functools
import itertools
import pathlib

import keras
import numpy as np
import pytest

import keras_likelihood as kl
from tests import feature_pairs as features
from tests.contracts import EAGERLY, as_numpy, assert_equal_outputs

PAGE = pathlib.Path(__file__).parents[1] / "docs" / "combinations.md"

TOLERANCE = {"float32": 1e-4, "mixed_float16": 5e-3, "mixed_bfloat16": 3e-2}


@pytest.fixture
def precision():
    """Sets a policy, and restores the previous one after the test."""
    before = keras.config.dtype_policy()
    yield keras.config.set_dtype_policy
    keras.config.set_dtype_policy(before)


def chosen():
    """All cases on TensorFlow, a third of them on other backends."""
    if keras.backend.backend() == "tensorflow":
        return features.CASES
    return a_third()


def a_third():
    # The start changes, because values repeat after some cases.
    return [c for i, c in enumerate(features.CASES) if (i + i // 3) % 3 == 0]


def described(case):
    return "-".join([case.family.name, *case[1:-1]]).replace(" ", "_")


def nll_of(model, case):
    model.run_eagerly = EAGERLY
    distribution = model.predict_distribution(
        features.make_x(case), batch_size=features.ROWS, verbose=0
    )
    return as_numpy(distribution.nll(features.make_y(case)))


def assert_finite(*values):
    for value in keras.tree.flatten(values):
        assert np.isfinite(as_numpy(value)).all()


# Strengths need rows that can be held out. Otherwise a warning says so.
@pytest.mark.few(10)
@pytest.mark.filterwarnings("ignore:The scales of the regularizers of")
@pytest.mark.parametrize("case", chosen(), ids=described)
def test_features_hold_together(case, precision, tmp_path):
    if case.data == "tf.data":
        pytest.importorskip("tensorflow")
    precision(case.precision)
    model = features.compiled(case)
    before = as_numpy(model.get_weights())
    history = model.fit(**features.feed_training(case), verbose=0)
    assert_finite(history.history, model.get_weights())
    if case.precision != "mixed_float16":
        # Loss scaling leaves out the first steps.
        pairs = zip(before, model.get_weights(), strict=True)
        assert any(not np.array_equal(a, b) for a, b in pairs)

    model.run_eagerly = EAGERLY and not (
        case.is_compiled and case.run == "plain"
    )
    found = model.evaluate(
        **features.feed_evaluation(case), verbose=0, return_dict=True
    )
    nll = nll_of(model, case)
    loss, mean = features.averages(case, nll)
    close = {"rtol": TOLERANCE[case.precision], "atol": 1e-3}
    np.testing.assert_allclose(found["nll"], mean, **close)
    if case.model != "ensemble":
        # The loss of an ensemble is the mean loss of its members.
        penalty = sum(float(as_numpy(value)) for value in model.losses)
        np.testing.assert_allclose(found["loss"], loss + penalty, **close)

    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(nll_of(loaded, case), nll, **close)


@pytest.mark.parametrize(
    "case",
    [
        features.plain_case(first, second, turn=turn)
        for first, second, _ in features.REFUSED
        for turn in range(len(features.FAMILIES.get(first, "_")))
    ],
    ids=described,
)
def test_other_pairs_are_refused(case):
    with pytest.raises(ValueError, match="Received: ") as refusal:
        model = features.compiled(case)
        model.fit(**features.feed_training(case), verbose=0)
    assert "\n" not in str(refusal.value)


def table_after(heading):
    """Rows of the first table below a heading of the page."""
    page = PAGE.read_text(encoding="utf-8").split(heading)[1]
    table = page[page.index("|---") :].split("\n\n")[0]
    return [line.strip("| ").split(" | ") for line in table.splitlines()[1:]]


def test_the_page_lists_what_is_crossed_and_what_is_refused():
    listed = table_after("# What works together")
    known = [[f, ", ".join(v)] for f, v in features.FACTORS.items()]
    assert listed == known
    refused = table_after("## What is refused")
    assert refused == [list(row) for row in features.REFUSED]


def test_every_pair_is_in_a_case():
    met = {
        frozenset(pair)
        for case in features.CASES
        for pair in itertools.combinations(case[:-1], 2)
    }
    missing = [
        pair
        for a, b in itertools.combinations(features.FACTORS.values(), 2)
        for pair in itertools.product(a, b)
        if frozenset(pair) not in met
    ]
    assert sorted(map(sorted, missing)) == sorted(
        sorted(row[:2]) for row in features.REFUSED
    )
    names = {case.family.name for case in features.CASES}
    assert names == {case.family.name for case in features.all_families()}
    labels = [c for c in features.CASES if c[:2] == ("classes", "data")]
    losses = {features.make_loss(case).name for case in labels}
    assert losses == {"softmax_loss", "noisy_labels_loss"}


def test_every_value_is_in_the_third_of_the_cases():
    for factor, values in features.FACTORS.items():
        assert {getattr(case, factor) for case in a_third()} == set(values)


def weights_of(model):
    return [as_numpy(w) for w in model.get_weights()]


@pytest.mark.few(14)
@pytest.mark.parametrize(
    "case", features.all_families(), ids=lambda case: case.family.name
)
def test_a_missing_target_is_refused_before_training(case):
    model = features.compiled(case._replace(run="eager"))
    before = weights_of(model)
    for row in (0, features.ROWS - 1):
        y = features.make_y(case).astype("float32")
        y[row] = np.nan
        with pytest.raises(ValueError, match="Received: "):
            model.fit(features.make_x(case), y, features.BATCH, verbose=0)
        assert_equal_outputs(before, weights_of(model))


LABELS = {
    "softmax": (features.plain_case("classes"), [-1, 255]),
    "softmax_nan": (features.plain_case("classes"), [np.nan, -1]),
    "noisy_labels": (features.plain_case("classes", "data", turn=4), [-1, 255]),
    "bernoulli": (features.plain_case("binary or ordered"), [-1, 255, np.nan]),
    "ordinal": (
        features.plain_case("binary or ordered", turn=1),
        [-1, 255, np.nan],
    ),
}
"""Every loss of classes, with labels that are none."""


@pytest.mark.few(5)
@pytest.mark.parametrize("where", ["rows", "steps", "masks"])
@pytest.mark.parametrize("loss", LABELS)
def test_a_label_that_does_not_count_may_be_any_number(loss, where):
    """The training equals one with any allowed label in its place."""
    case, labels = LABELS[loss]
    weights = "no weights" if where == "rows" else "masks"
    case = case._replace(run="eager", weights=weights)
    x, clean = features.make_x(case), features.make_y(case)
    counts = x.any(axis=-1)
    if where != "masks":
        x = x + 1.0
        counts[::3] = False
    ignored = clean.astype("float32" if np.nan in labels else clean.dtype)
    ignored[~counts] = np.resize(labels, ignored[~counts].shape)
    weight = None if where == "masks" else counts.astype("float32")
    found = []
    for y in (clean, ignored):
        keras.utils.set_random_seed(0)
        model = features.compiled(case)
        y = kl.indexed(y) if case.source == "data" else y
        model.fit(x, y, sample_weight=weight, verbose=0)
        found.append(weights_of(model))
    assert_finite(found)
    assert_equal_outputs(*found, rtol=1e-5, atol=1e-6)


MISMATCHED = {
    "student_t": kl.losses.RobustRhoLoss,
    "softmax": kl.losses.NormalLoss,
    "gamma": kl.losses.NormalLoss,
    "log_normal": kl.losses.NormalLoss,
    "poisson": kl.losses.NormalLoss,
    "normal": kl.losses.BernoulliLoss,
    "quantiles([0.2,0.7])": functools.partial(
        kl.losses.QuantilesLoss, [0.1, 0.9]
    ),
    "ordinal(4)": functools.partial(kl.losses.OrdinalLoss, 5),
}
"""Likelihoods of heads, each with a loss of another one: the parameters have
other names, or the prediction has another range."""


@pytest.mark.few(12)
@pytest.mark.parametrize("name", MISMATCHED)
@pytest.mark.parametrize("kind", ["functional", "subclassed", "ensemble"])
def test_a_head_needs_the_loss_of_its_likelihood(name, kind):
    case = next(c for c in features.all_families() if c.family.name == name)
    case = case._replace(model=kind)
    model = features.make_model(case)
    before = weights_of(model)
    with pytest.raises(ValueError, match="Received: "):
        model.compile("sgd", loss=MISMATCHED[name](), run_eagerly=EAGERLY)
        units = 1 if name.startswith("quantiles") else case.family.units
        y = np.zeros((features.ROWS, units), "float32")
        model.fit(features.make_x(case), y, verbose=0)
    assert_equal_outputs(before, weights_of(model))
