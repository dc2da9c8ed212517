"""The posterior of a last layer, against closed forms."""

import pickle

import keras
import numpy as np
import pytest

import keras_likelihood as kl
from keras_likelihood.laplace import LastLayerLaplace


@pytest.fixture
def table(rng):
    x = rng.normal(size=(80, 4)) + 3.0
    y = x @ [1.0, -2.0, 0.5, 0.0] + 10 + 0.5 * rng.normal(size=80)
    return x.astype("float32"), y.astype("float32")


def linear_regressor(kernel, intercept, scale):
    inputs = keras.Input((len(kernel),))
    layer = keras.layers.Dense(1)
    model = kl.LikelihoodModel(inputs, layer(inputs))
    layer.set_weights([np.reshape(kernel, (-1, 1)), np.array([intercept])])
    model.compile(loss=kl.losses.NormalLoss(scale=float(scale)))
    return model


def test_a_linear_model_has_the_posterior_of_a_bayesian_ridge(table):
    linear = pytest.importorskip("sklearn.linear_model")
    x, y = table
    ridge = linear.BayesianRidge(
        alpha_1=0, alpha_2=0, lambda_1=0, lambda_2=0, tol=1e-8, max_iter=1000
    ).fit(x.astype("float64"), y)
    noise = 1 / ridge.alpha_
    model = linear_regressor(ridge.coef_, ridge.intercept_, noise**0.5)
    fitted = LastLayerLaplace(model).fit(x, y)
    assert fitted.prior_precision_ == pytest.approx(ridge.lambda_, rel=0.01)
    new = np.float32([[3, 3, 3, 3], [9, -4, 0, 2]])
    found = fitted.predict_distribution(new)
    mean, spread = ridge.predict(new, return_std=True)
    # The intercept's own variance is not in scikit-learn's.
    expected = spread**2 - noise + noise / len(x)
    np.testing.assert_allclose(found.mean()[:, 0], mean, 1e-4)
    np.testing.assert_allclose(found.epistemic[:, 0], expected, 0.01)
    np.testing.assert_allclose(found.aleatoric[:, 0], noise, 1e-4)


def test_classes_have_the_posterior_of_a_kronecker_product(rng):
    x = rng.normal(size=(60, 3)).astype("float32")
    kernel, bias = rng.normal(size=(3, 3)), rng.normal(size=3)
    model = keras.Sequential(
        [keras.Input((3,)), keras.layers.Dense(3, activation="softmax")]
    )
    model.layers[-1].set_weights([kernel, bias])
    fitted = LastLayerLaplace(model, prior_precision=2.0, members=1000)
    fitted.fit(x, np.zeros(60, "int64"))
    # The loop that the docstring describes.
    p = model.predict(x, verbose=0).astype("float64")
    hessian = sum(np.diag(row) - np.outer(row, row) for row in p)
    share = (p * (1 - p)).sum(1)
    share /= share.sum()
    centre = share @ x
    moments = (x - centre).T @ (share[:, None] * (x - centre))
    posterior = np.linalg.inv(np.kron(moments, hessian) + 2.0 * np.eye(9))
    new = np.float32([[4.0, -3.0, 2.0]])
    away = np.kron(new - centre, np.eye(3))
    covariance = away @ posterior @ away.T + np.linalg.pinv(hessian)
    values, axes = np.linalg.eigh(covariance)
    normal = rng.normal(size=(200_000, 3)) * np.sqrt(np.maximum(values, 0))
    draws = (new @ kernel + bias)[0] + normal @ axes.T
    odds = np.exp(draws - draws.max(axis=1, keepdims=True))
    expected = (odds / odds.sum(axis=1, keepdims=True)).mean(axis=0)
    found = fitted.predict_distribution(new)
    np.testing.assert_allclose(
        found.class_probabilities()[0], expected, atol=0.01
    )
    assert found.epistemic[0] > 2 * fitted.predict_distribution(x).epistemic[0]


@pytest.fixture(
    params=["scale", "temperature", "sigmoid", "robust_rho", "two_targets"]
)
def trained(request, table):
    """A network with a predicted or learned parameter, and its rows."""
    x, y = table
    keras.utils.set_random_seed(0)
    inputs = keras.Input((4,))
    hidden = keras.layers.Dense(6, activation="tanh")(inputs)
    heads = {
        "scale": lambda: kl.layers.ScaleHead(1),
        "two_targets": lambda: kl.layers.ScaleHead(2, dimension="scalar"),
        "temperature": lambda: kl.layers.TemperatureHead(3),
        "sigmoid": lambda: keras.layers.Dense(1, activation="sigmoid"),
        "robust_rho": lambda: keras.layers.Dense(1),
    }
    outputs = heads[request.param]()(hidden)
    if request.param == "sigmoid":
        model = keras.Model(inputs, outputs)
        model.compile(loss="binary_crossentropy")
        y = (y > 10).astype("int64")
        model.fit(x, y, verbose=0)
        return model, x, y
    model = kl.LikelihoodModel(inputs, outputs)
    if request.param in ("scale", "two_targets"):
        y = np.stack([y, -5 * y], 1) if request.param == "two_targets" else y
        model.adapt(y)
        model.compile(loss=kl.losses.NormalLoss())
    elif request.param == "robust_rho":
        model.compile(loss=kl.losses.RobustRhoLoss())
    else:
        y = (y > 10).astype("int64") + (x[:, 0] > 3)
        model.compile(loss=kl.losses.SoftmaxLoss())
    model.fit(x, y, verbose=0)
    return model, x, y


def test_far_inputs_are_uncertain_and_the_prediction_stays(trained):
    model, x, y = trained
    fitted = LastLayerLaplace(model, prior_precision=1.0).fit(x, y)
    found = fitted.predict_distribution(x[:5])
    assert np.isfinite(found.nll(y[:5])).all()
    shape = model.output_shape
    shape = shape[0] if isinstance(shape, list) else shape
    posterior = fitted._posteriors[0]
    inside = np.tile(posterior.centre, (1, 1))
    near, far = (
        posterior.variances(at, 1.0).min() for at in (inside, inside + 30)
    )
    assert far > 2 * near
    if hasattr(found, "class_probabilities"):
        return
    prediction = np.asarray(model.predict(x[:5], verbose=0)[0])
    if isinstance(model.output, tuple):
        np.testing.assert_allclose(found.mean(), prediction, 1e-4, 1e-4)


def test_weights_batches_and_files_give_the_same(trained):
    model, x, y = trained
    weight = np.where(np.arange(len(x)) < 20, 2.0, 1.0)
    whole = LastLayerLaplace(model).fit(x, y, sample_weight=weight)
    twice = np.concatenate([np.arange(20), np.arange(len(x))])
    repeated = LastLayerLaplace(model).fit(x[twice], y[twice])
    batches = [
        (x[i : i + 16], y[i : i + 16], weight[i : i + 16])
        for i in range(0, len(x), 16)
    ]
    streamed = LastLayerLaplace(model).fit(batches)
    expected = whole.predict_distribution(x[:4] + 5).epistemic
    for other in (repeated, streamed, pickle.loads(pickle.dumps(whole))):
        found = other.predict_distribution(x[:4] + 5).epistemic
        np.testing.assert_allclose(found, expected, 0.02, 1e-5)


def test_models_without_a_linear_end_are_refused(rng):
    x = rng.normal(size=(8, 4)).astype("float32")
    inputs = keras.Input((4,))
    plain = keras.Model(inputs, keras.layers.Dense(1)(inputs))
    plain.compile(loss="mse")
    with pytest.raises(
        ValueError, match="Received: no likelihood and .None, 4"
    ):
        LastLayerLaplace(plain).fit(x, x[:, 0])
    head = kl.layers.LikelihoodHead("poisson", 1)
    rates = kl.LikelihoodModel(inputs, head(inputs))
    rates.compile(loss=kl.losses.PoissonLoss())
    with pytest.raises(ValueError, match="Received: poisson"):
        LastLayerLaplace(rates).fit(x, x[:, 0])
    with pytest.raises(ValueError, match="`prior_precision` must be a number"):
        LastLayerLaplace(plain, prior_precision=0.0)
    with pytest.raises(ValueError, match="Call `fit` first"):
        LastLayerLaplace(plain).predict_distribution(x)


def test_an_activation_after_the_last_layer_is_refused(rng):
    x = rng.normal(size=(60, 3)).astype("float32")
    inputs = keras.Input((3,))
    outputs = keras.layers.Dense(1, "relu")(inputs)
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile(loss=kl.losses.NormalLoss(scale=1.0))
    with pytest.raises(ValueError, match="linear in the features"):
        LastLayerLaplace(model).fit(x, np.zeros(60))
