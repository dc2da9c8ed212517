"""The page of learned regularization shows what the benchmarks recorded."""

import json
import pathlib

import numpy as np

BENCHMARKS = pathlib.Path(__file__).parents[2] / "benchmarks"


def test_tables_of_the_page(import_from):
    import_from(BENCHMARKS)
    import page_tables
    import regularization_page

    results = json.loads(regularization_page.RESULTS.read_text())
    made = regularization_page.tables(results)
    assert made
    for name, table in made.items():
        shown = page_tables.shown("adaptive_regularization", name)
        assert shown == table.strip()
    # What the page says of D-Ridge in a residual network.
    for found in results["deep"].values():
        runs = found["runs"].items()
        accuracy = {name: np.mean(run["accuracy"]) for name, run in runs}
        assert accuracy["D-Ridge"] >= max(accuracy.values()) - 0.005
    text = (page_tables.DOCS / "adaptive_regularization.md").read_text()
    for seconds in results["seconds of an epoch"].values():
        plain, ours = (np.mean(seconds[key]) for key in ("plain", "D-Ridge"))
        for number in (plain, ours, ours / plain):
            assert f" {number:.2f} " in text
    small = results["seconds of an epoch"]["5000"]
    ratios = np.divide(small["D-Ridge"], small["plain"])
    error = ratios.std(ddof=1) / np.sqrt(len(ratios))
    assert f"standard error of {error:.2f}." in text
    # And on real tables.
    ratios = regularization_page.linear_ratios(results["linear"])
    for name in ("digits", "breast_cancer"):
        assert ratios[name]["DRidge"][0] < 1.15
    bounds = {"DRidge": 1.02, "DLasso": 1.03, "MultiLasso": 1.05}
    normal = [r for r in ratios.values() if "DLasso" in r]
    assert len(normal) == 10
    for by_method in normal:
        for method, bound in bounds.items():
            assert by_method[method][0] < bound
    # Networks: level or better for a normal target, near it for digits.
    nll = {
        name: {method: np.mean(s["nll"]) for method, s in methods.items()}
        for name, methods in results["networks"]["scores"].items()
    }
    assert nll["kin8nm"]["D-Ridge"] < nll["kin8nm"]["L2 by grid"]
    assert nll["crime_norm"]["D-Ridge"] < 1.02 * nll["crime_norm"]["L2 by grid"]
    digits = nll["digits"]["D-Ridge"] / nll["digits"]["L2 by grid"]
    assert digits < 1.15
    page = page_tables.DOCS / "adaptive_regularization.md"
    words = " ".join(page.read_text().split())
    assert words.count(f"{digits:.1f} times the NLL of") == 2
    # The share of weights that are on.
    sparse = results["sparse"]
    assert sorted(sparse) == ["0.05", "0.1", "0.2", "0.5"]
    for row in sparse.values():
        mean = {name: np.mean(ratios) for name, ratios in row.items()}
        assert mean["MultiLasso, NormalLoss"] <= 1.25
        assert mean["DLasso, joint"] > 10
        assert mean["MultiLasso, joint"] < 2.5
    half = sparse["0.5"]
    joint, ours = half["MultiLasso, joint"], half["MultiLasso, NormalLoss"]
    assert abs(np.mean(joint) - np.mean(ours)) < 0.05
