"""The programs in `known_programs.toml`: wrappers, interpreters and runners with their options.

By this file the host finds the code that a command runs. Each table is parsed only when it is
needed; the result must be the same as that of parsing the whole file.
"""

import tomllib

import pytest

from exthost.launch.known_programs import known_programs, program_name
from exthost.model.package_tables import read_text

DOCUMENT = tomllib.loads(read_text("exthost.launch", "known_programs.toml"))


@pytest.mark.parametrize("table", ["wrappers", "interpreters"])
def test_each_program_has_the_options_of_its_table(table: str) -> None:
    programs = getattr(known_programs(), table)
    rows = {name: row for names, row in DOCUMENT[table].items() for name in names.split()}
    assert set(programs) == set(rows) and len(programs) == len(rows)
    for name, row in rows.items():
        flags = row.get("options", {}).get("flags", "").split()
        assert programs[name].options.flags == set(flags), name
        chdir: frozenset[str] = getattr(programs[name], "chdir", frozenset())
        assert chdir == set(row.get("chdir", "").split()), name


def test_a_runner_of_two_words_has_one_table() -> None:
    options = known_programs().runner_options
    assert set(options) == set(DOCUMENT["runner_options"]) and "uv run" in options
    for name, row in DOCUMENT["runner_options"].items():
        assert options[name].values == set(row["values"].split()), name


def test_runners_have_an_advice() -> None:
    runners = known_programs().runners
    assert runners["go run"] == runners["make"], "both build a program, so the advice is the same"
    assert "docker" in runners
    assert "pytest" in known_programs().modules_that_run_code


def test_the_name_of_a_program_is_found_in_little_time() -> None:
    """Each argument of a command may be the name of a program."""
    assert program_name("/usr/bin/python3.12") == "python"
    assert program_name("1" * 100_000 + "x") == "1" * 100_000 + "x"
