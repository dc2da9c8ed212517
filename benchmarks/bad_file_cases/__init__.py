"""Files and options that must not end a command badly: see `bad_files.py`.

Every case is made from good files by seeded changes, so the corpus is the
same on every run.
"""

from bad_file_cases.damage import damaged, false_headers
from bad_file_cases.good import Case, good_files
from bad_file_cases.models import wrong_models
from bad_file_cases.options import wrong_options, wrong_outputs
from bad_file_cases.tables import wrong_arrays, wrong_csv

__all__ = ["Case", "all_cases", "good_files"]


def all_cases() -> list[Case]:
    """The corpus, in one order."""
    makers = (
        damaged,
        false_headers,
        wrong_arrays,
        wrong_csv,
        wrong_models,
        wrong_options,
        wrong_outputs,
    )
    return [case for maker in makers for case in maker()]
