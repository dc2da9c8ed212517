"""Robust principal components.

    python benchmarks/paper/robust_pca.py

Points near a line in the plane, with outliers: principal components against
those with a learned scale for each example. The table repeats it in ten
dimensions.
"""

import numpy as np
from results import parser, pyplot, record
from scipy.linalg import subspace_angles
from sklearn.decomposition import PCA

from keras_likelihood.robust import RobustPCA

METHODS = {"PCA": PCA, "PCA with learned scales": RobustPCA}


def make_study(seed, dimensions, components, share, examples=200):
    """Points near a random subspace, its basis, and who is an outlier."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((dimensions, components)))[0]
    x = 3 * rng.standard_normal((examples, components)) @ basis.T
    x += 0.3 * rng.standard_normal(x.shape)
    outliers = round(share * examples)
    away = rng.standard_normal(dimensions)
    away -= basis @ (basis.T @ away)
    x[:outliers] += 12 * away / np.linalg.norm(away)
    return x, basis, np.arange(examples) < outliers


def angle(components, basis):
    """Largest angle between two subspaces, in degrees."""
    return np.degrees(subspace_angles(components.T, basis).max())


def draw():
    plt = pyplot()
    x, basis, outlier = make_study(1, 2, 1, 0.2)
    robust = RobustPCA(1).fit(x)
    figure, axis = plt.subplots(figsize=(6, 4.5))
    shown = axis.scatter(*x.T, c=np.log10(robust.scale_), s=14, cmap="viridis")
    figure.colorbar(shown, label="log10 of the learned scale")
    reach = np.array([-9.0, 9.0])[:, None]
    axis.plot(*(reach * basis.T).T, color="0.5", lw=4, label="truth")
    for name, make in METHODS.items():
        model = make(n_components=1).fit(x)
        axis.plot(*(model.mean_ + reach * model.components_).T, label=name)
    axis.set_aspect("equal", adjustable="datalim")
    axis.legend()
    return figure


def standard_errors(angles, draws=2000):
    """Those of the medians, by a bootstrap over the data sets."""
    rng = np.random.default_rng(0)
    sets = rng.integers(len(angles), size=(draws, len(angles)))
    return np.median(angles[sets], axis=1).std(axis=0)


def main():
    options = parser(__doc__).parse_args()
    sets = 2 if options.quick else 50
    every = {}
    for share in (0.0, 0.1, 0.2, 0.3):
        studies = [make_study(seed, 10, 2, share)[:2] for seed in range(sets)]
        every[f"{share:.0%} outliers"] = np.array(
            [
                [
                    angle(make(n_components=2).fit(x).components_, basis)
                    for make in METHODS.values()
                ]
                for x, basis in studies
            ]
        )
    table = {
        "columns": list(METHODS),
        "rows": {n: list(np.median(a, axis=0)) for n, a in every.items()},
        "errors": {name: list(standard_errors(a)) for name, a in every.items()},
    }
    data = {"sets": sets, "tables": {"angles": table}}
    # By method and set: five digits are enough.
    data["each_set"] = {
        name: dict(zip(METHODS, a.T.round(5).tolist(), strict=True))
        for name, a in every.items()
    }
    record("robust_pca", data, {"plane": draw()}, quick=options.quick)


if __name__ == "__main__":
    main()
