"""Edits of a JSON text with comments: the meaning changes as intended, and nothing else does.

Editors keep their MCP servers in such files, and `exthost gateway install` adds one. In the calls,
"s" is a member of the document, an object such as "mcpServers", and "n" is a member of "s".
"""

from typing import Any

import pytest

from exthost.config.jsonc_edit import remove_member, set_member
from exthost.model.documents import jsonc

VALUE = {"command": "x", "args": ["a", "é"]}

# Texts with and without "s" and "n", in different layouts, some with comments and trailing commas.
TEXTS = [
    "{}",
    "{\n}\n",
    '{"s": {}}',
    '{"s": {"a": 1}}',
    '{"s": {"a": {"b": [1, {}]}}, "t": 2}',
    '{\n  // first\n  "s": {\n    "a": 1 // one\n    // last\n  }\n}\n',
    '{\n\t"s": {\n\t\t"a": {"x": [1,],},\n\t\t/* "n": 2, */\n\t},\n}\n',
    '{"text": "// not a comment, }", "s": {"a": "}"}}',
    '{"other": {"s": {"n": 1}}}',
    '{"s": {"n": {"old": true}, "a": 1}}',
    '{"s": {"a": 1, "n": 2 /* two */}}',
    '{"s": {"n": 2,}}',
    '\n\n{\r\n  "s": {\r\n    "a": 1\r\n  }\r\n}\r\n',
]


def read_comments(text: str) -> list[str]:
    """Return the comments of a text, as pieces between the characters //."""
    without_comments = jsonc.without_comments(text)
    pairs = zip(text, without_comments, strict=True)
    return "".join(before for before, after in pairs if before != after).split("//")


@pytest.mark.parametrize("text", TEXTS)
def test_a_member_is_set_and_removed_and_comments_stay(text: str) -> None:
    document: dict[str, Any] = jsonc.loads(text)
    expected = {**document, "s": {**document.get("s", {}), "n": VALUE}}
    changed = set_member(text, "s", "n", VALUE)
    assert changed is not None and jsonc.loads(changed) == expected
    assert read_comments(changed) == read_comments(text)
    assert set_member(changed, "s", "n", VALUE) == changed  # a second time changes nothing
    del expected["s"]["n"]
    removed = remove_member(changed, "s", "n")
    assert removed is not None and jsonc.loads(removed) == expected
    if "n" not in document.get("s", {}):
        assert read_comments(removed) == read_comments(text)


def test_an_empty_text_becomes_a_document() -> None:
    text = set_member(" \n", "s", "n", VALUE)
    assert text is not None and jsonc.loads(text) == {"s": {"n": VALUE}} and text.endswith("}\n")


@pytest.mark.parametrize("text", ["[]", "1", '{"s": []}', '{"s": {"a"}}', "{", '{"s"', "// only"])
def test_a_text_without_such_an_object_is_not_edited(text: str) -> None:
    assert set_member(text, "s", "n", 1) is None
    assert remove_member(text, "s", "n") is None
