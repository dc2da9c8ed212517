"""Likelihoods of vectors against SciPy."""

import keras
import numpy as np
import pytest
from keras import ops
from scipy import stats

import keras_likelihood as kl
from keras_likelihood.ensembles import EnsembleDistribution
from keras_likelihood.likelihoods import MultivariateNormal as Normal
from keras_likelihood.likelihoods import MultivariateStudentT as StudentT
from tests.autodiff import central_differences, gradients
from tests.batches import Repeated
from tests.contracts import as_numpy

KINDS = [("full", None), ("diagonal", None), ("low_rank", 1), ("low_rank", 2)]
every_kind = pytest.mark.parametrize("covariance, rank", KINDS)
D = 4


def case(family, covariance, rank, rng, rows=3):
    """`(y, arrays by name)` in float64."""
    made = family(covariance=covariance, rank=rank)
    values = {"prediction": rng.normal(size=(rows, D))}
    for p in made.parameters:
        shape = made.shape_of(p.name, (rows, D), "element")
        noise = rng.normal(size=(rows, *shape))
        real = p.constraint.low == -np.inf
        values[p.name] = noise if real else p.initial * np.exp(0.3 * noise)
    return made, rng.normal(size=(rows, D)), values


def build(made, values):
    tensors = {k: ops.convert_to_tensor(v) for k, v in values.items()}
    return made(tensors.pop("prediction"), **tensors)


def matrices(covariance, values):
    """Covariances from the definitions, one row at a time."""
    found = []
    for row in range(len(values["scale"])):
        scale = np.diag(values["scale"][row])
        matrix = scale @ scale
        if covariance == "low_rank":
            factor = values["factor"][row].reshape(D, -1)
            matrix = matrix + factor @ factor.T
        elif covariance == "full":
            unit = np.eye(D)
            unit[np.tril_indices(D, -1)] = values["lower"][row]
            matrix = scale @ unit @ unit.T @ scale
        found.append(matrix)
    return found


def oracles(covariance, values):
    rows = zip(values["prediction"], matrices(covariance, values), strict=True)
    if "df" not in values:
        return [stats.multivariate_normal(m, c) for m, c in rows]
    return [
        stats.multivariate_t(m, c, df=df)
        for (m, c), df in zip(rows, values["df"][:, 0], strict=True)
    ]


@every_kind
@pytest.mark.parametrize("family", [Normal, StudentT], ids=lambda f: f.__name__)
def test_nll_matches_scipy(family, covariance, rank, rng, double_precision):
    made, y, values = case(family, covariance, rank, rng)
    distribution = build(made, values)
    found = as_numpy(distribution.nll(y))
    pairs = zip(oracles(covariance, values), y, strict=True)
    expected = [-oracle.logpdf(row) for oracle, row in pairs]
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    matrix = matrices(covariance, values)
    np.testing.assert_allclose(
        # PyTorch multiplies matrices in float32.
        as_numpy(distribution.scale_squared()),
        matrix,
        rtol=1e-6,
        atol=1e-6,
    )
    np.testing.assert_array_equal(
        as_numpy(distribution.mean()), values["prediction"]
    )


def test_float32_agrees_to_1e_5(rng):
    for family in (Normal, StudentT):
        for covariance, rank in KINDS:
            made, y, values = case(family, covariance, rank, rng)
            narrow = {k: v.astype("float32") for k, v in values.items()}
            found = as_numpy(build(made, narrow).nll(y.astype("float32")))
            pairs = zip(oracles(covariance, values), y, strict=True)
            expected = [-oracle.logpdf(row) for oracle, row in pairs]
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("covariance, rank", [("full", None), ("low_rank", 2)])
def test_gradients_match_differences(covariance, rank, rng, double_precision):
    made, y, values = case(StudentT, covariance, rank, rng, rows=1)
    names = list(values)

    def nll(*arrays):
        return build(made, dict(zip(names, arrays, strict=True))).nll(y)

    arrays = list(values.values())
    for mine, slow in zip(
        gradients(nll, *arrays), central_differences(nll, *arrays), strict=True
    ):
        np.testing.assert_allclose(mine, slow, rtol=1e-4, atol=1e-6)


@every_kind
@pytest.mark.parametrize("family", [Normal, StudentT], ids=lambda f: f.__name__)
def test_marginal_and_conditional(
    family, covariance, rank, rng, double_precision
):
    """The joint density is the marginal times the conditional density."""
    made, y, values = case(family, covariance, rank, rng)
    joint = build(made, values)
    first = joint.marginal(2)
    rest = joint.conditional(2, y[:, [2]])
    parts = as_numpy(first.nll(y[:, [2]]))[:, 0]
    parts = parts + as_numpy(rest.nll(y[:, [0, 1, 3]]))
    np.testing.assert_allclose(parts, as_numpy(joint.nll(y)), rtol=1e-5)
    two, last = (
        rest.conditional([0, 1], y[:, :2]),
        joint.conditional([0, 1, 2], y[:, :3]),
    )
    np.testing.assert_allclose(
        as_numpy(two.nll(y[:, [3]])), as_numpy(last.nll(y[:, [3]])), rtol=1e-4
    )


@every_kind
@pytest.mark.parametrize("family", [Normal, StudentT], ids=lambda f: f.__name__)
def test_samples_have_the_scale(family, covariance, rank, rng):
    made, _, values = case(family, covariance, rank, rng, rows=1)
    if "df" in values:
        values["df"] = np.full((1, 1), 9.0)
    narrow = {k: v.astype("float32") for k, v in values.items()}
    draw = as_numpy(build(made, narrow).sample(20000, seed=1))
    assert draw.shape == (20000, 1, D)
    expected = matrices(covariance, values)[0]
    expected = expected * (9 / 7 if "df" in values else 1)
    sd = np.sqrt(np.diag(expected))
    found = np.cov(draw[:, 0].T) / np.outer(sd, sd)
    np.testing.assert_allclose(found, expected / np.outer(sd, sd), atol=0.06)


def test_what_makes_no_sense_is_refused():
    for options, message in [
        ({"covariance": "round"}, "must be one of.*'round'"),
        ({"covariance": "low_rank"}, "`rank` must be a whole number from 1"),
        (
            {"covariance": "full", "rank": 2},
            "`rank` must be None.* Received: 2",
        ),
    ]:
        with pytest.raises(ValueError, match=message):
            Normal(**options)
    full = Normal(covariance="full")
    with pytest.raises(ValueError, match="`units` must be at least 2"):
        kl.layers.LikelihoodHead(full, 1)(np.zeros((2, 3), "float32"))
    zeros = np.zeros((2, 3), "float32")
    made = full(zeros)
    with pytest.raises(ValueError, match=r"the shape \(2, 3\). Received"):
        made.nll(np.zeros((2, 1), "float32"))
    with pytest.raises(ValueError, match="from 0 to 2. Received: 3"):
        made.marginal(3)
    for index in ([1, 1], [0, 1, 2]):
        with pytest.raises(ValueError, match="but not all"):
            made.conditional(index, zeros)
    with pytest.raises(ValueError, match=r"shape \(2, 1\). Received"):
        made.conditional(0, zeros)
    with pytest.raises(NotImplementedError, match="no `cdf`"):
        made.cdf(zeros)
    with pytest.raises(ValueError, match="'scalar', 'element'"):
        kl.layers.LikelihoodHead(full, 2, dimension="channel")(zeros)


def test_the_loss_learns_a_covariance(rng):
    """A global covariance converges to the covariance of the data."""
    root = np.array([[1.0, 0, 0], [0.8, 0.6, 0], [-0.5, 0.5, 0.7]])
    y = (rng.normal(size=(400, 3)) @ root.T).astype("float32")
    x = np.zeros((400, 1), "float32")
    loss = kl.losses.MultivariateNormalLoss()
    inputs = keras.Input((1,))
    model = kl.LikelihoodModel(inputs, keras.layers.Dense(3)(inputs))
    model.compile(keras.optimizers.Adam(0.1), loss=loss)
    model.fit(Repeated(60, x, y), verbose=0)
    found = model.predict_distribution(x[:1], verbose=0)
    np.testing.assert_allclose(
        as_numpy(found.scale_squared())[0], np.cov(y.T), atol=0.07
    )
    twin = keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(
            kl.losses.MultivariateStudentTLoss("low_rank", 2, df=3.0)
        )
    )
    assert twin.likelihood is StudentT(covariance="low_rank", rank=2)
    assert twin.parameter_values()["df"] == 3


def test_the_member_of_a_sample_is_independent_of_its_noise():
    low_rank = Normal(covariance="low_rank", rank=1)
    far = np.float32([[-100, -100, 100, 100]])
    pooled = EnsembleDistribution(low_rank, components=2)(
        np.zeros((1, 2), "float32"),
        member=far,
        scale=np.full((1, 4), 0.01, "float32"),
        factor=np.ones((1, 4), "float32"),
    )
    drawn = as_numpy(pooled.sample(4000, seed=1))[:, 0, 0]
    member = np.sign(drawn)
    noise = drawn - 100 * member
    assert np.std(noise) == pytest.approx(1.0, abs=0.1)
    assert abs(np.corrcoef(member, noise)[0, 1]) < 0.1
