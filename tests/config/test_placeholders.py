"""Placeholders such as `${KEY}` and `${workspaceFolder}` in the configs of other programs.

Editors list their MCP servers in JSON files with such placeholders, and exthost fills them in. A
value of a variable or header that is only a reference, such as `"TOKEN": "${TOKEN}"`, is kept: it
becomes a reference to a variable of the host, so that the secret itself is not in the config.
"""

from typing import Any

import pytest

from exthost.config.placeholders import fill_placeholders, find_placeholder

ENVIRON = {"HOME": "/home/a", "KEY": "k", "EMPTY": "", "API_KEY": "secret"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${KEY}", "k"),
        ("a ${env:KEY} b", "a k b"),
        ("${MISSING}", "${MISSING}"),
        ("${KEY:-text}", "k"),
        ("${EMPTY:-text}", "text"),
        ("${MISSING:-text}", "text"),
        ("${MISSING:-}", ""),
        ("${input:api-key}", "secret"),
        ("${input:other}", "${input:other}"),
        ("${workspaceFolder}/x", "/config/x"),
        ("${workspaceRoot}", "/config"),
        ("${cwd}", "/config"),
        ("${userHome}", "/home/a"),
        ("${pathSeparator}", "/"),
        ("a${/}b", "a/b"),
        ("$KEY", "$KEY"),
    ],
)
def test_a_placeholder_is_replaced_if_its_value_is_known(text: str, expected: str) -> None:
    assert fill_placeholders(text, ENVIRON, "/config") == expected
    assert fill_placeholders([text, 1], ENVIRON, "/config") == [expected, 1]
    assert fill_placeholders({"a": {"b": text}}, ENVIRON, "/config") == {"a": {"b": expected}}


def test_the_folder_of_a_config_without_a_file_is_not_known() -> None:
    assert fill_placeholders("${workspaceFolder}", ENVIRON, None) == "${workspaceFolder}"


@pytest.mark.parametrize("table", ["env", "environment", "headers", "http_headers"])
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("${KEY}", "${KEY}"),
        ("${env:KEY}", "${env:KEY}"),
        ("${input:api-key}", "${input:api-key}"),
        ("Bearer ${KEY}", "Bearer k"),
        ("${KEY:-x}", "k"),
        ("${env:cwd}", "${env:cwd}"),
        (1, 1),
    ],
)
def test_a_reference_to_a_secret_is_kept(table: str, value: Any, expected: Any) -> None:
    assert fill_placeholders({table: {"A": value}}, ENVIRON, None) == {table: {"A": expected}}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("${workspaceFolder}", "/config"),
        ("${workspaceRoot}", "/config"),
        ("${cwd}", "/config"),
        ("${userHome}", "/home/a"),
        ("${pathSeparator}", "/"),
    ],
)
def test_a_placeholder_that_is_not_a_variable_is_filled_in_a_variable(
    value: str, expected: str
) -> None:
    filled = fill_placeholders({"env": {"A": value}}, ENVIRON, "/config")
    assert filled == {"env": {"A": expected}}


def test_a_list_of_variables_is_filled() -> None:
    assert fill_placeholders({"env": ["${KEY}"]}, ENVIRON, None) == {"env": ["k"]}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("a", None),
        ("x ${KEY}", "KEY"),
        ("${input:api-key}", "API_KEY"),
        ("${EXTENSION_ROOT}${KEY}", "KEY"),
        ("${AGENT_VERSION}", None),
        ("${/}", None),
    ],
)
def test_the_variable_of_the_first_placeholder_is_found(text: str, name: str | None) -> None:
    """Placeholders that manifests use, such as `${EXTENSION_ROOT}`, name no variable."""
    assert find_placeholder(text) == name
