"""`kl.tabular.Regressor` against other methods, by number of training rows.

    KERAS_BACKEND=jax KERAS_LIKELIHOOD_DATA=... \
        python benchmarks/tabular.py --jobs 14 --json tabular.json

For each table and seed, the first 300, 1,000 and 10,000 of the shuffled rows
are for training (nine tenths of the table, if it is a little smaller), and up
to 2,000 others for the test. Every fit is a process of its own, and `seconds`
is its processor time from `fit` to the interval, without imports. A line of
JSON is printed after each fit. CatBoost, NGBoost and MAPIE are included if
they are installed. The CRPS is twice the mean pinball loss of 19 quantiles.
"""

import argparse
import importlib.util
import json
import multiprocessing
import os
import pathlib
import time

import numpy as np
from scipy import stats
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor, kernels
from sklearn.impute import SimpleImputer
from sklearn.linear_model import BayesianRidge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

DEVELOPMENT = ("autompg", "crime_norm", "kin8nm", "soil")
"""Tables for choosing settings; their results are not a report."""
ROWS = (300, 1000, 10_000)
MOST_TEST_ROWS = 2000
GP_ROWS = 1000
COVERAGE = 0.9
LEVELS = np.linspace(0.05, 0.95, 19)
SCORES = ("nll", "crps", "rmse", "coverage", "seconds")


def load(path, rows, seed):
    """Training and test rows: `(x, y), (x, y)`."""
    with np.load(path) as file:
        x, y = (file[name].astype("float64") for name in ("X", "y"))
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = order[:rows], order[rows:][:MOST_TEST_ROWS]
    return (x[train], y[train]), (x[test], y[test])


def ours(train, x, seed):
    import keras_likelihood as kl

    model = kl.tabular.Regressor(random_state=seed).fit(*train)
    mean, interval = model.predict(x), model.interval(x, COVERAGE)
    yield mean, interval
    found = model.predict_distribution(x)
    yield (
        lambda y: found.distribution.nll(y[:, None]),
        np.stack([found.quantile(p)[:, 0] for p in LEVELS]),
    )


def normal(method):
    """A method with a mean and a constant or predicted standard deviation."""

    def run(train, x, seed):
        mean, scale = method(train, x, seed)
        law = stats.norm(mean, np.maximum(scale, 1e-6 * train[1].std()))
        yield mean, law.interval(COVERAGE)
        yield lambda y: -law.logpdf(y), law.ppf(LEVELS[:, None])

    return run


def _scaled(model):
    return make_pipeline(SimpleImputer(), StandardScaler(), model)


def bayesian_ridge(train, x, seed):

    return _scaled(BayesianRidge()).fit(*train).predict(x, return_std=True)


def gaussian_process(train, x, seed):
    """Matern 2.5 with a length per column, fitted to up to 1,000 rows."""
    (inputs, y), columns = train, x.shape[1]
    lengths = np.full(columns if columns <= 30 else 1, columns**0.5)
    matern = kernels.Matern(lengths, (1e-2, 1e4), nu=2.5)
    noise = kernels.WhiteKernel(0.1, (1e-6, 10.0))
    kernel = kernels.ConstantKernel() * matern + noise
    gp = GaussianProcessRegressor(kernel, normalize_y=True)
    _scaled(gp).fit(inputs[:GP_ROWS], y[:GP_ROWS])
    gp.set_params(kernel=gp.kernel_, optimizer=None)
    return _scaled(gp).fit(inputs, y).predict(x, return_std=True)


def boosted_trees(train, x, seed):
    """One scale, from a fifth of the rows that a first fit leaves out."""

    model = HistGradientBoostingRegressor(random_state=seed)
    held_out, rest = np.split(np.arange(len(train[1])), [len(train[1]) // 5])
    first = model.fit(train[0][rest], train[1][rest])
    errors = first.predict(train[0][held_out]) - train[1][held_out]
    return model.fit(*train).predict(x), np.sqrt(np.mean(errors**2))


def _early(train):
    held_out, rest = np.split(np.arange(len(train[1])), [len(train[1]) // 10])
    return [(train[0][rows], train[1][rows]) for rows in (rest, held_out)]


def catboost(train, x, seed):
    """With `RMSEWithUncertainty`; a tenth of the rows stops it."""
    from catboost import CatBoostRegressor

    fitted, held_out = _early(train)
    model = CatBoostRegressor(
        loss_function="RMSEWithUncertainty",
        iterations=2000,
        early_stopping_rounds=50,
        allow_writing_files=False,
        thread_count=1,
        random_seed=seed,
        verbose=False,
    )
    found = model.fit(*fitted, eval_set=held_out).predict(x)
    return found[:, 0], np.sqrt(found[:, 1])


def ngboost(train, x, seed):
    """A tenth of the rows stops it."""
    from ngboost import NGBRegressor

    (fitted, y), held_out = _early(train)
    middle = np.nan_to_num(np.nanmedian(fitted, axis=0))
    fitted, new, x = (
        np.where(np.isnan(v), middle, v) for v in (fitted, held_out[0], x)
    )
    model = NGBRegressor(
        n_estimators=2000,
        early_stopping_rounds=50,
        random_state=seed,
        verbose=False,
    )
    found = model.fit(fitted, y, X_val=new, Y_val=held_out[1]).pred_dist(x)
    return found.loc, found.scale


def mapie(train, x, seed):
    """CV+ around CatBoost: intervals without a distribution."""
    from catboost import CatBoostRegressor
    from mapie.regression import CrossConformalRegressor

    model = CatBoostRegressor(
        allow_writing_files=False,
        thread_count=1,
        random_seed=seed,
        verbose=False,
    )
    conformal = CrossConformalRegressor(
        model, confidence_level=COVERAGE, method="plus", cv=5
    )
    mean, ends = conformal.fit_conformalize(*train).predict_interval(x)
    yield mean, (ends[:, 0, 0], ends[:, 1, 0])


METHODS = {
    "kl.tabular": ours,
    "GP": normal(gaussian_process),
    "CatBoost": normal(catboost),
    "NGBoost": normal(ngboost),
    "MAPIE": mapie,
    "boosted trees": normal(boosted_trees),
    "Bayesian ridge": normal(bayesian_ridge),
}
NEEDS = {"CatBoost": "catboost", "NGBoost": "ngboost", "MAPIE": "mapie"}


def run(job):
    """Scores of one fit, in the units of the target."""
    path, rows, seed, method = job
    train, (x, y) = load(path, rows, seed)
    if method == "kl.tabular":
        import keras_likelihood.tabular  # noqa: F401
    start = time.process_time()
    parts = METHODS[method](train, x, seed)
    mean, (lower, upper) = next(parts)
    scores = {
        "seconds": time.process_time() - start,
        "rmse": np.mean((mean - y) ** 2) ** 0.5,
        "coverage": np.mean((lower <= y) & (y <= upper)),
        "width": np.mean(upper - lower),
    }
    for nll, quantiles in parts:
        gap = y - quantiles
        pinball = np.where(gap < 0, LEVELS[:, None] - 1, LEVELS[:, None]) * gap
        scores |= {"nll": np.mean(nll(y)), "crps": 2 * pinball.mean()}
    scores = {name: float(f"{v:.5g}") for name, v in scores.items()}
    names = {"table": path.stem, "n": rows, "seed": seed, "method": method}
    return names | scores


def jobs(folder, tables, sizes, seeds, methods):
    """What to run: seed by seed, the largest first."""
    found = []
    for path in sorted(folder.glob("*.npz")):
        if tables and path.stem not in tables:
            continue
        with np.load(path) as file:
            most = int(0.9 * len(file["y"]))
        rows = {min(n, most) for n in sizes if most >= n // 2}
        found += [(path, n, s, m) for n in rows for s in seeds for m in methods]
    order = list(METHODS).index
    return sorted(found, key=lambda job: (job[2], -job[1], order(job[3])))


def summary(results):
    """Markdown tables: the mean of each score and its standard error."""
    methods = [m for m in METHODS if any(r["method"] == m for r in results)]
    rows = sorted({(r["n"], r["table"]) for r in results})
    for score in SCORES:
        yield f"\n{score}\n\n| table | rows | {' | '.join(methods)} |"
        yield f"|---|---:|{'---:|' * len(methods)}"
        for n, table in rows:
            cells = []
            for method in methods:
                key = table, n, method
                values = [
                    r[score]
                    for r in results
                    if (r["table"], r["n"], r["method"]) == key and score in r
                ]
                error = np.std(values) / max(len(values) - 1, 1) ** 0.5
                text = f"{np.mean(values):.4g} ± {error:.2g}"
                cells.append(text if values else "–")
            yield f"| {table} | {n} | {' | '.join(cells)} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    data = os.environ.get("KERAS_LIKELIHOOD_DATA", ".")
    folder = pathlib.Path(data, "regression")
    parser.add_argument("--folder", type=pathlib.Path, default=folder)
    parser.add_argument("--tables", nargs="*", help="default: all")
    parser.add_argument("--rows", nargs="*", type=int, default=ROWS)
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds")
    parser.add_argument("--methods", nargs="*", choices=METHODS)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--limit", type=float, help="seconds, then it stops")
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    methods = [
        name
        for name in arguments.methods or METHODS
        if name not in NEEDS or importlib.util.find_spec(NEEDS[name])
    ]
    every = jobs(
        arguments.folder,
        arguments.tables,
        arguments.rows,
        range(arguments.seeds),
        methods,
    )
    # The processes inherit these.
    os.environ.setdefault("KERAS_BACKEND", "jax")
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    os.environ["PYTHONWARNINGS"] = "ignore"
    end = arguments.limit and time.monotonic() + arguments.limit
    results = []
    spawn = multiprocessing.get_context("spawn")
    with spawn.Pool(arguments.jobs, maxtasksperchild=1) as pool:
        found = pool.imap_unordered(run, every)
        for _ in every:
            try:
                left = end and max(end - time.monotonic(), 0.01)
                result = found.next(left)
            except multiprocessing.TimeoutError:
                print(f"stopped after {len(results)} of {len(every)} fits")
                break
            except Exception as error:
                print(json.dumps({"error": repr(error)}), flush=True)
                continue
            results.append(result)
            print(json.dumps(result), flush=True)
            if arguments.json:
                nested = {}
                for r in results:
                    table = nested.setdefault(f"{r['table']} {r['n']}", {})
                    of_method = table.setdefault(r["method"], {})
                    of_method[r["seed"]] = {s: r[s] for s in r if s not in KEYS}
                arguments.json.write_text(json.dumps(nested, indent=1) + "\n")
    print(*summary(results), sep="\n")


KEYS = ("table", "n", "seed", "method")

if __name__ == "__main__":
    main()
