"""Tables with outliers of known kinds, for choices that need labels.

    local       from a wider copy of the group that a row belongs to
    global      uniform over a little more than the range of each column
    clustered   a small tight group away from all others
    dependency  each column by itself as usual, together not
    column      one or two columns far out, the others as usual
    rare        a small group like the others, in a place of its own

The first four are those of ADBench (Han and others, 2022); classes that are
rare are what most public sets call outliers. Rows that are no outliers come
from a few groups, each on a plane of fewer dimensions, bent, and with columns
that are skewed or rounded. The detectors' choices that need labels were made
on these tables alone.
"""

import numpy as np

KINDS = "local global clustered dependency column rare".split()


def make_table(kind, seed):
    """Rows `(n, d)` and labels `(n,)`, 1 for outliers."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    n = int(np.exp(rng.uniform(np.log(200), np.log(3000))))
    d = int(np.exp(rng.uniform(np.log(4), np.log(60))))
    m = max(4, round(rng.choice([0.02, 0.05, 0.1, 0.2]) * n))
    groups = _groups(rng, d)
    inliers, outliers = _latent(kind, groups, n - m, m, d, rng)
    x = np.vstack([inliers, outliers])
    if kind == "dependency":
        x[n - m :] = _shuffled(x[: n - m], m, rng)
    x = _bent(x, rng)
    if kind == "global":
        low, high = x[: n - m].min(axis=0), x[: n - m].max(axis=0)
        wide = 0.1 * (high - low)
        x[n - m :] = rng.uniform(low - wide, high + wide, (m, d))
    elif kind == "column":
        _spoil(x[n - m :], x[: n - m].std(axis=0), rng)
    order = rng.permutation(n)
    return x[order], (order >= n - m).astype(int)


def _groups(rng, d):
    """Centers, maps and noise of one to five groups."""
    rank = int(rng.integers(1, max(2, d // 2) + 1))
    apart = rng.uniform(0.5, 4)
    return [
        (
            apart * rng.normal(size=d),
            rng.normal(size=(rank, d)) / np.sqrt(rank),
            rng.uniform(0.1, 0.6),
        )
        for _ in range(int(rng.integers(1, 6)))
    ]


def _draw(group, count, rng, *, wider=1.0):
    center, plane, noise = group
    x = rng.normal(size=(count, len(plane))) @ plane
    x += noise * rng.normal(size=x.shape)
    return center + wider * x


def _latent(kind, groups, count, m, d, rng):
    """Inliers and outliers before columns are bent."""
    shares = rng.dirichlet(np.full(len(groups), 2.0))
    which = rng.choice(len(groups), count, p=shares)
    rows = [_draw(groups[g], 1, rng)[0] for g in which]
    inliers = np.array(rows)
    if kind == "clustered":
        center = rng.uniform(2, 5) * rng.choice([-1, 1], d)
        return inliers, center + 0.2 * rng.normal(size=(m, d))
    if kind == "rare":
        (group,) = _groups(rng, d)[:1]
        return inliers, _draw(group, m, rng)
    wider = rng.uniform(1.5, 4) if kind == "local" else 1.0
    which = rng.choice(len(groups), m, p=shares)
    rows = [_draw(groups[g], 1, rng, wider=wider)[0] for g in which]
    return inliers, np.array(rows)


def _shuffled(inliers, m, rng):
    columns = (rng.choice(column, m) for column in inliers.T)
    return np.column_stack(list(columns))


def _bent(x, rng):
    """Columns through maps that rise, some of them skewed or rounded."""
    x = x.copy()
    for column in x.T:
        kind = rng.integers(0, 5)
        if kind == 0:
            column[:] = np.exp(column / column.std())
        elif kind == 1:
            column[:] = np.sinh(column / column.std())
        elif kind == 2:
            column[:] = np.round(2 * column / column.std())
    return x


def _spoil(x, deviation, rng):
    for row in x:
        columns = rng.choice(len(row), int(rng.integers(1, 3)), replace=False)
        size = rng.uniform(3, 8, len(columns))
        row[columns] += (
            rng.choice([-1, 1], len(columns)) * size * deviation[columns]
        )
