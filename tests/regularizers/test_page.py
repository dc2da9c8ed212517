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
    runs = results["deep"]["5000"]["runs"]
    accuracy = {name: np.mean(run["accuracy"]) for name, run in runs.items()}
    assert accuracy["D-Ridge"] >= max(accuracy.values()) - 0.005
