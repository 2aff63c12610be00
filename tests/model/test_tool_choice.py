"""The setting `tools` of an extension, with which the operator chooses and renames its tools.

    tools = { allow = ["get_*"], deny = ["*_all"], rename = { get_one = "first" } }

A tool is available if a pattern of `allow` fits its name, and none of `deny`. A tool that is not
available is hidden, and keeps the reason. A pattern that fits no tool is reported to the operator.
"""

import time

import pytest

from exthost.config import config_from_mapping, spec_from_mapping
from exthost.errors import ConfigError
from exthost.model.documents.setting_keys import ToolSettings
from exthost.model.offer import Tool
from exthost.model.patterns import compile_pattern
from exthost.model.tool_choice import choose_tools, find_unused

OFFERED = [Tool("get_one", "one"), Tool("get_two"), Tool("set_one"), Tool("file_delete")]
SOURCE = {"type": "process", "command": "x"}


def chosen(**settings: object) -> list[str]:
    return list(choose_tools(OFFERED, ToolSettings(**settings)).tools)  # type: ignore[arg-type]


def test_allow_and_deny_choose_by_pattern_and_deny_has_precedence() -> None:
    assert chosen() == [tool.name for tool in OFFERED]
    assert chosen(allow=("get_*",)) == ["get_one", "get_two"]
    assert chosen(allow=("?et_*",), deny=("*_one",)) == ["get_two"]
    assert chosen(allow=()) == []
    hidden = choose_tools(OFFERED, ToolSettings(allow=("get_*",), deny=("get_two",))).hidden
    assert [(item.tool.name, item.reason) for item in hidden] == [
        ("get_two", "tools.deny has 'get_two'"),
        ("set_one", "tools.allow has no pattern for it"),
        ("file_delete", "tools.allow has no pattern for it"),
    ]


def test_a_renamed_tool_keeps_its_original_name_as_an_attribute() -> None:
    settings = ToolSettings(rename=(("get_one", "first"),), describe=(("get_one", "The first."),))
    tool = choose_tools(OFFERED, settings).tools["first"]
    assert (tool.name, tool.original_name, tool.description) == ("first", "get_one", "The first.")


def test_two_tools_can_exchange_their_names() -> None:
    settings = ToolSettings(rename=(("get_one", "get_two"), ("get_two", "get_one")))
    tools = choose_tools(OFFERED, settings).tools
    assert tools["get_one"].original_name == "get_two"
    assert tools["get_two"].original_name == "get_one"


def test_a_tool_is_hidden_if_another_one_is_renamed_to_its_name() -> None:
    choice = choose_tools(OFFERED, ToolSettings(rename=(("file_delete", "get_one"),)))
    assert choice.tools["get_one"].original_name == "file_delete"
    [(tool, reason)] = choice.hidden
    assert tool.name == "get_one" and "file_delete" in reason


def test_patterns_fit_original_names_so_a_renamed_tool_is_still_denied() -> None:
    assert "gone" not in chosen(deny=("file_*",), rename=(("file_delete", "gone"),))


def test_patterns_and_names_that_fit_no_tool_are_found() -> None:
    settings = ToolSettings(
        allow=("get_*", "put_*"), deny=("x",), rename=(("old", "new"),), describe=(("y", "text"),)
    )
    unused = find_unused(OFFERED, settings)
    assert [text.split(",")[0] for text in unused] == [
        "tools.allow has 'put_*'",
        "tools.deny has 'x'",
        "tools.rename has 'old'",
        "tools.describe has 'y'",
    ]


@pytest.mark.parametrize(
    ("tools", "part"),
    [
        ({"rename": {"a": "x", "b": "x"}}, "same name"),
        ({"rename": {"a": "no blanks"}}, "1 to 64"),
        ({"rename": {"a": "ext:x"}}, "1 to 64"),
        ({"rename": {"a": "x" * 65}}, "1 to 64"),
        ({"rename": {"a": ""}}, "1 to 64"),
        ({"allow": "get_*"}, "list"),
        ({"deny": ["*" * 2000]}, "1000 characters"),
        ({"alow": []}, "did you mean `allow`"),
    ],
)
def test_a_wrong_choice_is_an_error_of_the_config(tools: object, part: str) -> None:
    with pytest.raises(ConfigError, match=part):
        spec_from_mapping({"name": "e", "source": SOURCE, "tools": tools})


def test_defaults_and_the_entry_are_merged_key_by_key() -> None:
    document = {
        "defaults": {"tools": {"deny": ["*_delete"]}},
        "extensions": [{"name": "e", "source": SOURCE, "tools": {"allow": ["get_*"]}}],
    }
    [spec] = config_from_mapping(document).specs
    assert spec.tools == ToolSettings(allow=("get_*",), deny=("*_delete",))


@pytest.mark.parametrize("pattern", ["a*" * 400, "*a" * 400 + "b", "?*" * 400, "(a+)+$*", "[!a]*"])
def test_no_pattern_takes_long(pattern: str) -> None:
    """A regular expression could need time that is exponential in the length of the text."""
    began = time.process_time()
    compile_pattern(pattern)("a" * 100_000 + "c")
    assert time.process_time() - began < 20  # in seconds; generous, for a busy machine


def test_only_stars_and_question_marks_are_special() -> None:
    assert compile_pattern("a[bc]*")("a[bc]d") and not compile_pattern("a[bc]*")("abd")
    assert compile_pattern("a?c")("a\nc") and not compile_pattern("A*")("abc")
