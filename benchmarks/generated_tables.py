"""Tables with outliers of known kinds, for choices that need labels.

    local       from a wider copy of the group that a row belongs to
    global      uniform over a little more than the range of each column
    clustered   a small tight group away from all others
    dependency  each column by itself as usual, together not
    column      one or two columns far out, the others as usual
    rare        a small group like the others, in a place of its own

The first four are from ADBench (Han and others, 2022). In most public sets, the
outliers are rare classes. Inliers come from a few groups, each on a curved
surface of lower dimension, with skewed or rounded columns. Choices for the
detectors that need labels were made only on these tables.

A table may have a shape that is harder (`make_table(kind, seed, shape)`):

    few         40 to 150 rows
    wide        100 to 300 columns
    binary      most columns are 0 or 1
    onehot      most columns are one-hot codes of categories
    duplicated  most rows are there several times
    heavy       most columns have tails of a Student's t of 1.5 degrees
    sparse      most columns are zero in most rows
    constant    some columns are constant, some all but one row
"""

import numpy as np

KINDS = "local global clustered dependency column rare".split()
SHAPES = "few wide binary onehot duplicated heavy sparse constant".split()


def make_table(kind, seed, shape=None):
    """Rows `(n, d)` and labels `(n,)`, 1 for outliers."""
    words = [seed, KINDS.index(kind)]
    if shape is not None:
        words.append(1 + SHAPES.index(shape))
    rng = np.random.default_rng(words)
    rows, columns = (200, 3000), (4, 60)
    if shape == "few":
        rows = (40, 150)
    elif shape == "wide":
        rows, columns = (150, 1500), (100, 300)
    n = int(np.exp(rng.uniform(*np.log(rows))))
    d = int(np.exp(rng.uniform(*np.log(columns))))
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
    x = _shaped(x, m, shape, rng)
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


def _shaped(x, m, shape, rng):
    """The table with columns or rows that make it harder."""
    n, d = x.shape
    most = rng.random(d) < 0.8
    centred = (x - np.median(x, axis=0)) / x.std(axis=0)
    if shape == "binary":
        cut = np.quantile(centred, rng.uniform(0.3, 0.98, d))
        x = np.where(most, centred > cut, x)
    elif shape == "onehot":
        x = np.hstack([x[:, ~most], *(_codes(c, rng) for c in x[:, most].T)])
    elif shape == "duplicated":
        # A twin of an outlier is an outlier: these are the last `m` rows.
        first = np.where(np.arange(n) < n - m, 0, n - m)
        twin = np.maximum(np.arange(n) - rng.integers(1, 6, n), first)
        x = np.where(rng.random((n, 1)) < 0.7, x[twin], x)
    elif shape == "heavy":
        order = np.argsort(np.argsort(x, axis=0), axis=0)
        tails = np.sort(rng.standard_t(1.5, (n, d)), axis=0)
        x = np.where(most, np.take_along_axis(tails, order, axis=0), x)
    elif shape == "sparse":
        cut = np.quantile(x, 0.85, axis=0)
        x = np.where(most, np.maximum(x - cut, 0), x)
    elif shape == "constant":
        x = np.where(rng.random(d) < 0.3, 7.0, x)
        odd = rng.random(d) < 0.2
        x[:, odd] = 1.0
        x[rng.integers(n), odd] = 2.0
    return x


def _codes(column, rng):
    levels = int(rng.integers(3, 8))
    cuts = np.quantile(column, np.sort(rng.random(levels - 1)))
    return np.eye(levels)[np.searchsorted(cuts, column)]


def _spoil(x, deviation, rng):
    for row in x:
        columns = rng.choice(len(row), int(rng.integers(1, 3)), replace=False)
        size = rng.uniform(3, 8, len(columns))
        row[columns] += (
            rng.choice([-1, 1], len(columns)) * size * deviation[columns]
        )
