"""The page of adaptive regularizers shows what the benchmark recorded."""

import pathlib

import pytest

pytestmark = pytest.mark.pages

BENCHMARKS = pathlib.Path(__file__).parents[2] / "benchmarks"


def test_the_table_of_the_page(import_from):
    import_from(BENCHMARKS)
    import page_tables
    import regularization_page

    results = page_tables.stored(regularization_page.LINEAR)
    table = regularization_page.linear_table(results)
    assert page_tables.shown("adaptive_regularization", "linear") == table
    ratios = regularization_page.linear_ratios(results)
    assert len(ratios) == 5
    assert all(ratio < 1.05 for ratio in ratios.values())
