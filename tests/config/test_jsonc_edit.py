"""Edits of a JSON text with comments: the meaning changes as intended, and nothing else does."""

from typing import Any

import pytest

from exthost.config.jsonc_edit import remove_member, set_member
from exthost.model.documents import jsonc

VALUE = {"command": "x", "args": ["a", "é"]}

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


def comments(text: str) -> list[str]:
    strict = jsonc.without_comments(text)
    return "".join(a for a, b in zip(text, strict, strict=True) if a != b).split("//")


@pytest.mark.parametrize("text", TEXTS)
def test_a_member_is_set_and_removed_and_comments_stay(text: str) -> None:
    document: dict[str, Any] = jsonc.loads(text)
    expected = {**document, "s": {**document.get("s", {}), "n": VALUE}}
    changed = set_member(text, "s", "n", VALUE)
    assert changed is not None and jsonc.loads(changed) == expected
    assert comments(changed) == comments(text)
    again = set_member(changed, "s", "n", VALUE)
    assert again == changed
    del expected["s"]["n"]
    removed = remove_member(changed, "s", "n")
    assert removed is not None and jsonc.loads(removed) == expected
    if "n" not in document.get("s", {}):
        assert comments(removed) == comments(text)


def test_a_new_text_is_made() -> None:
    made = set_member(" \n", "s", "n", VALUE)
    assert made is not None and jsonc.loads(made) == {"s": {"n": VALUE}} and made.endswith("}\n")


@pytest.mark.parametrize("text", ["[]", "1", '{"s": []}', '{"s": {"a"}}', "{", '{"s"', "// only"])
def test_another_text_is_not_edited(text: str) -> None:
    assert set_member(text, "s", "n", 1) is None
    assert remove_member(text, "s", "n") is None
