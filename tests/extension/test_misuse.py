"""The check of the argument `context` of `call_tool`: data about the caller, such as its agent.

A wrong argument is reported to the caller with the name of the argument.
"""

from collections import ChainMap

import pytest

from exthost.errors import UsageError
from exthost.extension.misuse import check_context


def test_a_context_is_any_mapping() -> None:
    for context in ({"a": 1}, ChainMap({"a": 1})):
        assert check_context(context) is context


def test_a_missing_context_is_an_empty_mapping() -> None:
    assert check_context(None) == {}


def test_a_context_that_is_not_a_mapping_is_refused() -> None:
    with pytest.raises(UsageError, match="context must be a mapping") as caught:
        check_context([("a", 1)])
    assert caught.value.code == "X1338"
