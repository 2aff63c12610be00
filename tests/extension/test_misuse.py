"""The checks of arguments: `context` of `call_tool` (data about the caller, such as its agent),
timeouts, and the class of a facet.

A wrong argument is reported to the caller with the name of the argument.
"""

import json
import math
import sys
from collections import ChainMap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost.errors import UsageError
from exthost.extension.misuse import check_context, check_timeout
from tests.extensions.harness import closed_at_end, error_of, unstarted_extension

CHILD = str(Path(__file__).parents[1] / "extensions" / "mcp_child.py")


def test_a_context_is_any_mapping() -> None:
    for context in ({"a": 1}, ChainMap({"a": 1})):
        assert check_context(context) is context


def test_a_missing_context_is_an_empty_mapping() -> None:
    assert check_context(None) == {}


def test_a_context_that_is_not_a_mapping_is_refused() -> None:
    with pytest.raises(UsageError, match="context must be a mapping") as caught:
        check_context([("a", 1)])
    assert caught.value.code == "X1338"


class Unreadable(Mapping[str, Any]):
    """A mapping that raises when it is read."""

    def __getitem__(self, key: str) -> Any:
        raise RuntimeError("it cannot be read")

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("it cannot be read")

    def __len__(self) -> int:
        return 1


def test_a_context_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(UsageError, match="reading it raised RuntimeError") as caught:
        check_context(Unreadable())
    assert caught.value.code == "X1338"


@pytest.mark.parametrize("timeout", [10**400, -(10**400)])
def test_a_timeout_too_large_for_a_float_keeps_its_sign(timeout: int) -> None:
    assert check_timeout(timeout) == (math.inf if timeout > 0 else -math.inf)


async def test_a_wrong_argument_of_a_method_is_refused_and_nothing_is_sent() -> None:
    command = [sys.executable, "-S", "-E", CHILD, "{}"]
    async with exthost.connect(command, dialect="mcp", name="child") as ext:
        wrong: Any = 5
        for misuse, code in (
            (ext.notify(wrong), "X1335"),
            (ext.run_hook(wrong, {}), "X1335"),
            (ext.run_hook("hook", wrong), "X1338"),
            (ext.call_tool("echo", confirm=wrong), "X1332"),
        ):
            error = await error_of(misuse)
            assert isinstance(error, UsageError) and error.code == code
        received = json.loads((await ext.call_tool("heard")).text)
        methods = [message["method"] for message in received]
        assert wrong not in methods and methods.count("tools/call") == 1


async def test_a_facet_that_is_not_a_class_is_refused() -> None:
    async with closed_at_end(unstarted_extension()) as ext:
        with pytest.raises(UsageError, match="kind must be the class of a facet") as caught:
            ext.facet("inference")  # type: ignore[arg-type]
        assert caught.value.code == "X1338"
