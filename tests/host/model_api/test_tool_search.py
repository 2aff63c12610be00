"""`host.tools.search("read a file")` returns the tools that fit the words best, the best first.

The names, descriptions and parameters of tools are searched with the full-text index of SQLite. The
result is again a mapping of tools, with `as_openai()` and so on.
"""

import threading
import time
from typing import Any

import pytest

from exthost.errors import UsageError
from exthost.host.model_api.registered_tools import RegisteredTools
from exthost.host.model_api.tool_search import ToolSearch, query_words
from exthost.model.names import registered_name
from exthost.model.offer import RegisteredTool


def tool(extension: str, name: str, about: str = "", **properties: str) -> RegisteredTool:
    """Return a tool. `properties` are its parameters, with their descriptions."""
    schema = {
        "type": "object",
        "properties": {key: {"description": text} for key, text in properties.items()},
    }
    return RegisteredTool(
        name=registered_name(extension, name),
        description=f"[ext:{extension}] {about}",
        input_schema=schema,
        tool=name,
        extension=extension,
        provider=extension,
    )


def mapping(*tools: RegisteredTool) -> RegisteredTools:
    return RegisteredTools({tool.name: tool for tool in tools})


TOOLS = mapping(
    tool("fs", "read_file", "Read the complete contents of a file.", path="The path"),
    tool("fs", "writeFile", "Write a file.", path="The path", content="New contents"),
    tool("git", "commit", "Record changes to the repository.", message="The log message"),
    tool("mail", "send", "Send a message to somebody.", recipient="An address"),
    tool("日記", "検索", "日記を検索する"),
)


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("read a file", "ext_fs_read_file"),
        ("please write to a file", "ext_fs_writeFile"),
        ("committing to repositories", "ext_git_commit"),
        ("recipient", "ext_mail_send"),
        ("git", "ext_git_commit"),
        ("検索", "ext______"),  # in a registered name, _ replaces other characters than ASCII
    ],
)
def test_the_best_tool_is_the_first(query: str, first: str) -> None:
    assert next(iter(TOOLS.search(query))) == first


def test_a_search_returns_the_same_kind_of_mapping() -> None:
    assert TOOLS.search("file", limit=10**30) == TOOLS.search("file", limit=len(TOOLS))
    tools = TOOLS.search("file", limit=1)
    assert isinstance(tools, RegisteredTools) and len(tools) == 1
    assert [item["function"]["name"] for item in tools.as_openai()] == list(tools)
    assert [item["name"] for item in tools.as_anthropic()] == list(tools)
    assert list(TOOLS.select("ext_git_*").search("commit")) == ["ext_git_commit"]


def test_select_keeps_the_order_of_its_patterns() -> None:
    assert list(TOOLS.select("mail:*", "ext_fs_*", "*")) == [
        "ext_mail_send",
        "ext_fs_read_file",
        "ext_fs_writeFile",
        "ext_git_commit",
        "ext______",
    ]
    assert not TOOLS.select() and not TOOLS.select("nothing")


@pytest.mark.parametrize("query", ["", "the of and", '" OR name:*', "(((", "NEAR(", "*", "\0"])
def test_no_query_is_an_error_of_sqlite(query: str) -> None:
    """The text of a query could be read as the query language of SQLite."""
    assert len(TOOLS.search(query)) <= len(TOOLS)


@pytest.mark.parametrize("arguments", [("x", 0), ("x", True), ("x", 1.5), (None, 8), (b"x", 8)])
def test_a_wrong_search_is_an_error(arguments: Any) -> None:
    with pytest.raises(UsageError):
        TOOLS.search(*arguments)


@pytest.mark.more
def test_ten_thousand_tools_and_a_query_of_a_megabyte_are_searched() -> None:
    many = mapping(
        *(tool(f"e{n % 30}", f"tool_{n}", "Do something else. " * 20) for n in range(10_000))
    )
    query = "tool 4711 " + "something " * 100_000
    began = time.process_time()
    assert next(iter(many.search(query))) == "ext_e1_tool_4711"
    assert time.process_time() - began < 60  # in seconds; generous, for a busy machine


def test_a_query_is_cut_to_40_different_words() -> None:
    assert len(query_words("tool 4711 " + "something " * 1000)) == 3
    assert len(query_words("w1 " * 9 + " ".join(map(str, range(9999))))) == 40


def test_the_index_follows_the_tools_and_any_thread_may_search() -> None:
    search = ToolSearch()
    tools = {"ext_a_red": tool("a", "red")}
    changed_tools = {"ext_a_two": tool("a", "two")}
    assert list(search.find(tools, "red", 8)) == ["ext_a_red"]
    assert list(search.find(changed_tools, "red", 8)) == []
    results: list[list[str]] = []
    thread = threading.Thread(
        target=lambda: results.append(list(search.find(changed_tools, "two", 8)))
    )
    thread.start()
    thread.join()
    assert results == [["ext_a_two"]]
