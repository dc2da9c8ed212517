"""Studies of the paper store every seed, and their tables have its error."""

import json
import pathlib
import re

import numpy as np
import pytest

pytestmark = [pytest.mark.one_backend, pytest.mark.pages]

DOCS = pathlib.Path(__file__).parents[1] / "docs"


def data_of(name):
    return json.loads((DOCS / "paper" / f"{name}.json").read_text())["data"]


def check(table, every):
    """The rows and errors of a table are computed from `(seeds, columns)`."""
    assert list(table["rows"]) == list(every)
    for name, seeds in every.items():
        seeds = np.array(seeds)
        np.testing.assert_allclose(table["rows"][name], seeds.mean(axis=0))
        error = seeds.std(axis=0, ddof=1) / np.sqrt(len(seeds))
        np.testing.assert_allclose(table["errors"][name], error)


def test_stored_seeds_make_the_tables():
    found = data_of("layer_width")
    check(found["tables"]["cal"], found["each_seed"])
    found = data_of("temperatures")
    check(found["tables"]["aupr"], found["each_seed"])
    found = data_of("adaptive_regularization")
    for name in ("panels", "shares"):
        check(found["tables"][name], found["each_seed"][name])
    found = data_of("robust_classification")
    for study, every in found["each_seed"].items():
        table = found["tables"][study]
        for name, values in every.items():
            assert len(values) == found["seeds"]
            expected = [np.mean(values), np.min(values)]
            np.testing.assert_allclose(table["rows"][name], expected)
    found = data_of("robust_pca")
    for name, every in found["each_set"].items():
        middle, high = np.quantile(list(every.values()), [0.5, 0.9], axis=1)
        expected = [middle[0], high[0], middle[1], high[1]]
        row = found["tables"]["angles"]["rows"][name]
        np.testing.assert_allclose(row, expected, atol=1e-4)


def test_stored_seeds_make_the_tables_of_regressors():
    found = data_of("regressors")
    methods = {"predicted": 2, "ours": 7}
    for depth, sets in found["each_seed"].items():
        for place, measure in enumerate(("CAL", "MSE", "NLL")):
            table = found["tables"][f"{depth}_{measure}"]
            for name, every in sets.items():
                for method, i in methods.items():
                    values = np.array(every[method])[:, place]
                    assert len(values) == found["seeds"]
                    assert table["rows"][name][i] == pytest.approx(
                        values.mean()
                    )


def test_stored_sets_make_the_medians_of_robust_regression():
    found = data_of("robust_regression")
    for name, kinds in found["each_set"].items():
        expected = [np.median(values) for values in kinds.values()]
        row = found["tables"]["errors"]["rows"][name]
        np.testing.assert_allclose(row[: len(expected)], expected)


@pytest.mark.parametrize("depth", ["linear", "deep"])
def test_stored_seeds_make_the_tables_of_literal_regressors(depth):
    found = data_of("literal_regressors")
    for place, measure in enumerate(found["measures"]):
        table = found["tables"][f"{depth}_{measure}"]
        for name, models in found["each_seed"][depth].items():
            values = np.array(list(models.values()))[:, :, place]
            assert values.shape[1] == found["seeds"]
            np.testing.assert_allclose(table["rows"][name], values.mean(axis=1))


def test_protocol_tells_the_number_of_seeds():
    page = (DOCS / "protocol.md").read_text()
    told = re.findall(
        r"^\| `benchmarks/paper/(\w+)\.py` .*\| (\d+) (seeds?|sets|draws)\b",
        page,
        flags=re.MULTILINE,
    )
    assert len(told) >= 8
    for name, number, unit in told:
        if not (DOCS / "paper" / f"{name}.json").exists():
            continue  # Not run, as the page states.
        found = data_of(name)
        key = "sets" if unit == "sets" else "seeds"
        assert found[key] == int(number), name


def test_table_shows_standard_errors(beside):
    import tables

    table = {
        "columns": ["a", "b"],
        "rows": {"x": [1.0, 0.5], "y": [2.0, 0.25]},
        "errors": {"x": [0.125, None], "y": [0.25, None]},
        "digits": 2,
    }
    text = tables.place(table, {}, "least in column")
    assert "| x | **1.00 ± 0.12** | 0.50 |" in text
    assert "| y | 2.00 ± 0.25 | **0.25** |" in text
    text = tables.place(table, {}, "turned")
    assert "| a | 1.00 ± 0.12 | 2.00 ± 0.25 |" in text


def test_means_have_errors_if_there_are_repeats(beside):
    import results

    made = results.mean_and_error({"x": [[1.0, 2.0], [3.0, 2.0]]})
    assert made == {"rows": {"x": [2.0, 2.0]}, "errors": {"x": [1.0, 0.0]}}
    assert "errors" not in results.mean_and_error({"x": [[1.0, 2.0]]})


def test_runs_continue(beside, tmp_path, monkeypatch):
    import results
    import runs

    path = tmp_path / "runs.jsonl"
    first = runs.Runs(path)
    first.add(seed=0, error=1.5)
    again = runs.Runs(path)
    assert again.find(seed=0)["error"] == 1.5
    assert again.find(seed=1) is None
    again.add(seed=1, error=2.5)
    assert runs.Runs(path).lines == again.lines
    seconds = [line["made"]["seconds"] for line in again.lines]
    total = again.circumstances()
    assert total["seconds"] == pytest.approx(sum(seconds))
    assert total["backend"] == results.circumstances_now()["backend"]


def test_command_is_told_without_the_file_of_runs(
    beside, tmp_path, monkeypatch
):
    import results

    monkeypatch.setattr(results, "FOLDER", tmp_path)
    words = ["/x/vae.py", "--runs", "/y/runs.jsonl", "--size", "32"]
    monkeypatch.setattr("sys.argv", words)
    path = results.record("vae", {}, circumstances={"seconds": 7})
    study = json.loads(path.read_text())
    assert study["command"] == "python benchmarks/paper/vae.py --size 32"
    assert study["seconds"] == 7


def test_differences_of_many_pairs(beside):
    import counting

    rng = np.random.default_rng(0)
    first = rng.normal(size=50)
    second = first + 1 + 0.5 * rng.normal(size=50)
    mean, low, high = counting.difference(first, second)
    assert low < mean < high
    # The interval is close to the interval of a normal mean.
    error = np.std(first - second) / np.sqrt(50)
    assert high - low == pytest.approx(2 * 1.96 * error, rel=0.1)
    assert counting.clearly_below(first, second)
    assert not counting.clearly_below(second, first)
    told = counting.format_difference([3.0, 5.0], [2.0, 2.0], digits=1)
    assert told == "+2.0 (-10.7 to +14.7)"
    # A smoke test has one repeat.
    assert counting.difference([3.0], [2.0])[0] == 1.0
    assert not counting.clearly_below([1.0], [2.0])


def test_average_precision(beside):
    metrics = pytest.importorskip("sklearn.metrics")
    import temperatures

    rng = np.random.default_rng(0)
    for digits in (0, 1, 8):
        bad = rng.uniform(size=300) < 0.1
        score = rng.normal(size=300).round(digits)
        expected = metrics.average_precision_score(bad, score)
        found = temperatures.average_precision(bad, score)
        assert found == pytest.approx(expected)


def test_few_seeds_of_temperatures_are_told(beside):
    from facts import facts

    table = {
        "columns": [
            "predicted temperature",
            "data temperature",
            "loss of a plain network",
        ],
        "rows": {"wrong label": [0.5, 0.25, 0.0]},
    }
    data = {"seeds": 1, "tables": {"aupr": table}}
    told = facts("temperatures", data, {}, None)["doubt"]
    assert told.startswith("With 1 of the 5 seeds")
    data["seeds"] = 5
    data["each_seed"] = {"wrong label": [[0.5, 0.25, 0.0]] * 5}
    told = facts("temperatures", data, {}, None)["doubt"]
    assert "wrong label +0.25 (+0.25 to +0.25)" in told
