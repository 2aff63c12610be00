"""The names under which tools are registered, and the search for the nearest known name.

The tool `get` of the extension `weather` is registered as `ext_weather_get`. APIs of models allow
only letters, digits, _ and - in a name, and 64 of them: other characters are replaced, and a longer
name is cut and ends in six digits of a hash.
"""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exthost.model.names import nearest, prefixed_description, registered_name, registered_prefix

# Each row has an extension id and a tool name, which `id_times` and `tool_times` repeat, and of the
# registered name its length in `bytes`, and the whole (`name`) or the end (`ends`).
VECTORS = Path(__file__).parents[1] / "vectors" / "names.toml"
ROWS: list[dict[str, Any]] = tomllib.loads(VECTORS.read_text(encoding="utf-8"))["name"]

MAX_NAME_BYTES = 64

# Includes lone surrogates, which tool names written by Node can contain.
any_text = st.text(st.characters(), max_size=120)
long_text = st.text("ab._é", min_size=60, max_size=90)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['id']}-{row['tool']}"[:24])
def test_each_row_of_the_vectors_has_the_expected_name(row: dict[str, Any]) -> None:
    extension = row["id"] * row.get("id_times", 1)
    tool = row["tool"] * row.get("tool_times", 1)
    name = registered_name(extension, tool)
    assert name == row.get("name", name)
    assert name.endswith(row.get("ends", ""))
    assert len(name.encode()) == row["bytes"]


def test_every_vector_has_an_expectation() -> None:
    assert all("name" in row or "ends" in row for row in ROWS)


@given(any_text, any_text)
def test_any_name_is_short_and_safe_and_always_the_same(extension: str, tool: str) -> None:
    name = registered_name(extension, tool)
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name)
    assert name == registered_name(extension, tool)
    assert name.startswith("ext_")


@given(st.integers(0, 70), st.integers(0, 70))
def test_a_name_is_cut_exactly_when_it_would_be_over_64_bytes(id_len: int, tool_len: int) -> None:
    name = registered_name("i" * id_len, "t" * tool_len)
    uncut_name = f"ext_{'i' * id_len}_{'t' * tool_len}"
    if len(uncut_name) <= MAX_NAME_BYTES:
        assert name == uncut_name
    else:
        assert re.fullmatch(r"ext_i*_?t*_[0-9a-f]{6}", name)
        assert len(name) == MAX_NAME_BYTES


# Always the same examples: a cut name ends in six digits of a hash, which can collide by chance.
@settings(derandomize=True)
@given(st.lists(st.tuples(long_text, any_text), min_size=2, max_size=20, unique=True))
def test_different_tools_with_cut_names_get_different_names(pairs: list[tuple[str, str]]) -> None:
    assert len({registered_name(*pair) for pair in pairs}) == len(pairs)


def test_cut_names_that_differ_only_in_replaced_characters_stay_apart() -> None:
    with_dot, with_underscore = registered_name("e", "a.b" * 30), registered_name("e", "a_b" * 30)
    assert with_dot != with_underscore
    assert with_dot[:-6] == with_underscore[:-6]  # without the digits of the hash


def test_cut_names_depend_on_where_the_id_ends() -> None:
    assert registered_name("x" * 60 + "y", "z") != registered_name("x" * 60, "yz")


def test_short_names_that_differ_only_in_replaced_characters_collide_as_documented() -> None:
    assert registered_name("e", "a.b") == registered_name("e", "a_b")


def test_a_description_names_the_extension_of_a_tool_with_the_original_id() -> None:
    assert prefixed_description("my.ext", "Reads a file.") == "[ext:my.ext] Reads a file."


@pytest.mark.parametrize(
    ("wrong", "known", "expected"),
    [
        ("max_retrys", ["max_retries", "max_delay", "window"], "max_retries"),
        ("max-delay", ["max_retries", "max_delay"], "max_delay"),
        ("Timeout", ["timeout", "window"], "timeout"),
        ("WINDOW", ["Window"], "Window"),
        ("call", ["Call", "call"], "call"),
        ("zzz", ["max_retries", "window"], None),
        ("--timeout", ["--lifetime", "--config"], None),
        ("--tiemout", ["--timeout", "--lifetime"], "--timeout"),
        ("net", ["network", "filesystem"], "network"),
        ("retries", ["max_retries", "window"], "max_retries"),
        ("tools", ["models", "rooms"], None),
        ("env", ["name", "enabled"], None),
        ("anything", [], None),
        ("", ["window"], None),
    ],
)
def test_the_nearest_known_name_is_found(
    wrong: str, known: list[str], expected: str | None
) -> None:
    assert nearest(wrong, known) == expected
    assert nearest(wrong, iter(known)) == expected


@given(st.text(max_size=20), st.lists(st.text(max_size=20), max_size=8))
def test_the_nearest_name_is_always_one_of_the_candidates(name: str, known: list[str]) -> None:
    nearest_name = nearest(name, known)
    assert nearest_name is None or nearest_name in known
    if name in known:
        assert nearest_name == name


@given(any_text | long_text, any_text | long_text)
def test_every_registered_name_begins_with_the_prefix_of_its_extension(id: str, tool: str) -> None:
    assert registered_name(id, tool).startswith(registered_prefix(id))


def test_the_nearest_of_thousands_of_names_is_found_in_little_time() -> None:
    """A model may call a tool that does not exist, and the host must not stop meanwhile."""
    verbs = ("get", "list", "create", "update", "delete", "search", "read", "write")
    known = [f"ext_server{n % 40}_{verb}_page_{n}" for n in range(2500) for verb in verbs]
    assert nearest("ext_server7_crate_page_1007", known) == "ext_server7_create_page_1007"
