"""Principal components are robust to outliers."""

import numpy as np
import pytest
from scipy.linalg import subspace_angles
from sklearn.decomposition import PCA

from keras_likelihood.robust import RobustPCA

pytestmark = pytest.mark.one_backend


def contaminated(seed, share, kind="spread", n=200, d=6, q=2):
    """Rows near a subspace, the subspace and which rows are outliers."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(d, q)))[0].T
    x = (rng.normal(size=(n, q)) * [3, 2]) @ basis
    x += 0.2 * rng.normal(size=(n, d)) + rng.normal(size=d)
    out = np.arange(n) < round(share * n)
    if kind == "spread":
        x[out] += 8 * rng.normal(size=(out.sum(), d))
    else:
        x[out] += 15 * rng.normal(size=d) / np.sqrt(d)
    return x, basis, out


def angle(model, basis):
    return subspace_angles(model.components_.T, basis.T).max()


@pytest.mark.parametrize("kind", ["spread", "cluster"])
@pytest.mark.parametrize("share", [0.1, 0.3])
def test_outliers_do_not_matter(share, kind):
    """The error is similar to that of PCA without the outliers."""
    for seed in range(3):
        x, basis, out = contaminated(seed, share, kind)
        model = RobustPCA(2).fit(x)
        assert angle(model, basis) < 2 * angle(PCA(2).fit(x[~out]), basis)
        assert angle(PCA(2).fit(x), basis) > 5 * angle(model, basis)
        assert np.median(model.scale_[out]) > 5 * model.scale_[~out].max()


@pytest.mark.parametrize("shape", [(40, 5), (6, 9)])
def test_infinite_restraint_is_pca(rng, shape):
    x = rng.normal(size=shape) * np.arange(1, shape[1] + 1)
    model = RobustPCA(3, restraint=np.inf).fit(x)
    plain = PCA(3).fit(x)
    np.testing.assert_allclose(model.mean_, plain.mean_)
    np.testing.assert_allclose(model.components_, plain.components_)
    for name in ("explained_variance_", "explained_variance_ratio_"):
        np.testing.assert_allclose(getattr(model, name), getattr(plain, name))


def test_fixed_point():
    """The result is the weighted PCA with its own weights."""
    x, *_ = contaminated(0, 0.2)
    model = RobustPCA(2).fit(x)
    weight = (model.floor_ / model.scale_) ** 2
    mean = np.average(x, axis=0, weights=weight)
    np.testing.assert_allclose(model.mean_, mean, atol=1e-4)
    values, vectors = np.linalg.eigh(np.cov(x.T, aweights=weight))
    assert subspace_angles(vectors[:, -2:], model.components_.T).max() < 1e-4
    ratio = model.explained_variance_ / values[:-3:-1]
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-4)
    distance = np.linalg.norm(
        x - model.inverse_transform(model.transform(x)), axis=1
    )
    expected = np.maximum(model.floor_, distance / np.sqrt(4 + 1))
    np.testing.assert_allclose(model.scale_, expected)


def test_units_place_and_order_do_not_matter(rng):
    x, *_ = contaminated(1, 0.2)
    model = RobustPCA(2).fit(x)
    moved = RobustPCA(2).fit(100 * x + 7)
    np.testing.assert_allclose(moved.components_, model.components_, atol=1e-4)
    np.testing.assert_allclose(moved.scale_, 100 * model.scale_, rtol=1e-3)
    order = rng.permutation(len(x))
    shuffled = RobustPCA(2).fit(x[order])
    np.testing.assert_allclose(shuffled.scale_, model.scale_[order], rtol=1e-6)


def test_all_components_and_names(rng):
    x = rng.normal(size=(30, 3))
    model = RobustPCA(3).fit(x)
    np.testing.assert_allclose(model.inverse_transform(model.transform(x)), x)
    assert np.ptp(model.scale_) == 0
    assert list(model.get_feature_names_out())[0] == "robustpca0"


def test_errors(rng):
    x = rng.normal(size=(9, 4))
    for bad in (0, 5, 1.5):
        with pytest.raises(ValueError, match=f"from 1 to .*Received: {bad}"):
            RobustPCA(bad).fit(x)
    with pytest.raises(ValueError, match="`restraint` must be > 0"):
        RobustPCA(2, restraint=0).fit(x)
    with pytest.raises(ValueError, match="features"):
        RobustPCA(2).fit(x).transform(x[:, :3])
