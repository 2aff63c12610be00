"""Wrong arguments of callers are reported with the name of the argument."""

from collections import ChainMap

import pytest

from exthost.errors import UsageError
from exthost.extension.misuse import check_context


def test_a_context_is_any_mapping() -> None:
    for context in ({"a": 1}, ChainMap({"a": 1})):
        assert check_context(context) is context


def test_without_a_context_it_is_empty() -> None:
    assert check_context(None) == {}


def test_a_context_that_is_not_a_mapping_is_refused() -> None:
    with pytest.raises(UsageError, match="context must be a mapping") as caught:
        check_context([("a", 1)])
    assert caught.value.code == "X1338"
