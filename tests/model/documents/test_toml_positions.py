"""Finding the line of a key in a TOML file, or, for a missing key, the line of its table.

Errors in a config name the line, and `tomllib` does not report lines. The path of a key is a tuple:
("extensions", 0, "name") is the key `name` in the first `[[extensions]]`.
"""

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exthost.model.documents.toml_positions import KeyPath, find_key_lines, find_line

# Contains whatever a simple search for "key =" would find in the wrong place.
TEXT = '''\
# a comment with [[extensions]] and name = "x" in it
title = "a = 1 # no comment"
long = """
name = "not a key"
[[extensions]]
"""

[[extensions]]
name = "one"
"quoted key" = 1
source = { type = "process", command = "x", env = { A = "1", B = "2" } }

  [extensions.restart]
  strategy = "never"

[[extensions]]
name = 'two'
args = [
    "first", # with, commas [and] brackets
    "]",
    { inner = 1 },
]
limits.call = "1s"

[extensions.config]
deep.er = [[1, 2], [3]]

[overrides.one]
cwd = "."

[overrides."a.b".limits]
call = "2s"
'''


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("title",), 2),
        (("long",), 3),
        (("extensions",), 8),
        (("extensions", 0), 8),
        (("extensions", 0, "name"), 9),
        (("extensions", 0, "quoted key"), 10),
        (("extensions", 0, "source"), 11),
        (("extensions", 0, "source", "env", "B"), 11),
        (("extensions", 0, "restart"), 13),
        (("extensions", 0, "restart", "strategy"), 14),
        (("extensions", 1), 16),
        (("extensions", 1, "name"), 17),
        (("extensions", 1, "args"), 18),
        (("extensions", 1, "args", 0), 19),
        (("extensions", 1, "args", 1), 20),
        (("extensions", 1, "args", 2, "inner"), 21),
        (("extensions", 1, "limits"), 23),
        (("extensions", 1, "limits", "call"), 23),
        (("extensions", 1, "config"), 25),
        (("extensions", 1, "config", "deep", "er", 1, 0), 26),
        (("overrides", "one", "cwd"), 29),
        (("overrides", "a.b", "limits", "call"), 32),
    ],
)
def test_each_key_is_found_on_its_line(path: KeyPath, line: int) -> None:
    tomllib.loads(TEXT)  # raises an exception if the text of this test is not valid TOML
    assert find_key_lines(TEXT)[path] == line


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("extensions", 0, "missing"), 8),
        (("extensions", 1, "limits", "missing", "deeper"), 23),
        (("nowhere",), 0),
        ((), 0),
    ],
)
def test_a_missing_key_has_the_line_of_its_table(path: KeyPath, line: int) -> None:
    assert find_line(find_key_lines(TEXT), path) == line


keys = st.sampled_from(["a", "b", "c-d", "e_f"])
scalars = st.sampled_from(["1", "1.5", "true", '"x"', "'y]'", '"#"', '"\\""', '"""\n=\n"""'])


@st.composite
def documents(draw: st.DrawFn) -> str:
    """Draw valid TOML with arrays of tables, inline tables and values over several lines."""
    values = st.recursive(
        scalars,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3).map(lambda items: f"[\n{', '.join(items)}\n]"),
            st.dictionaries(keys, inner.filter(lambda v: "\n" not in v), max_size=3).map(
                lambda items: "{" + ", ".join(f"{k} = {v}" for k, v in items.items()) + "}"
            ),
        ),
        max_leaves=6,
    )
    tables = draw(st.lists(st.dictionaries(keys, values, max_size=3), max_size=4))
    return "\n".join(
        "[[t]]\n" + "".join(f"{key} = {value}\n" for key, value in table.items())
        for table in tables
    )


def list_key_paths(value: Any, path: KeyPath = ()) -> list[KeyPath]:
    """Return the paths of all keys and list items in a parsed document."""
    paths: list[KeyPath] = [path] if path else []
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, inner in items:
        paths += list_key_paths(inner, (*path, key))
    return paths


@pytest.mark.more
@given(documents())
def test_the_line_finder_finds_the_same_keys_as_tomllib(text: str) -> None:
    assert set(find_key_lines(text)) == set(list_key_paths(tomllib.loads(text)))


def test_a_table_has_the_line_of_its_own_header_also_if_a_subtable_comes_first() -> None:
    lines = find_key_lines("[a.b]\nx = 1\n\n[a]\ny = 2\n")
    assert find_line(lines, ("a",)) == find_line(lines, ("a", "missing")) == 4
    assert find_line(lines, ("a", "b")) == 1


def test_a_multi_line_string_that_does_not_end_is_read_in_linear_time() -> None:
    # With an ambiguous expression, each escape would double the time.
    assert find_key_lines('a = """' + "\\a" * 10_000) is not None
