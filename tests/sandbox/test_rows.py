"""Each row of `rows.py` names trials or tests, and all of them exist.

A row is an attack that once succeeded. A trial is a test of the sandbox that runs as root and as an
ordinary user; it has a name without a path. Other tests are named "FILE::FUNCTION".
"""

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.sandbox.rows import ROWS, count_by_row
from tests.sandbox.trials import all_trials

PROJECT = Path(__file__).parent.parent.parent


@cache
def functions_in(path: str) -> frozenset[str]:
    tree = ast.parse((PROJECT / path).read_text())
    function_types = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in tree.body if isinstance(node, function_types))


@pytest.mark.parametrize("row", ROWS)
def test_the_names_in_a_row_exist(row: str) -> None:
    assert ROWS[row].shown_by
    for name in ROWS[row].shown_by:
        path, _, function = name.rpartition("::")
        existing_names = functions_in(path) if path else frozenset(all_trials())
        assert function in existing_names, name


def test_trials_are_counted_by_row() -> None:
    trial = ROWS["m1"].shown_by[0]
    assert count_by_row([trial, trial, "no such trial"]) == "m1 2"
