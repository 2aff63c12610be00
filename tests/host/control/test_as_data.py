"""Results and events of a dialect as JSON data.

Dialects return objects such as dataclasses. A program that is attached to a host in another process
gets them over a socket, as JSON. What is JSON already, or unknown, is returned unchanged.
"""

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from exthost.host.control.as_data import as_data, event_as_data


@dataclass
class Item:
    name: str
    extra: dict[str, Any] = field(default_factory=dict)


class Pair(NamedTuple):
    first: Any
    second: Any


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (1, 1),
        (None, None),
        ({"a": 1}, {"a": 1}),
        ({1: "a"}, {"1": "a"}),
        ({"a": Item("b")}, {"a": {"name": "b"}}),
        ([Item("b")], [{"name": "b"}]),
        (Item("b", {"c": Item("d")}), {"name": "b", "c": {"name": "d"}}),
        (MappingProxyType({1: (2, 3)}), {"1": [2, 3]}),
        (Pair(1, Item("b")), [1, {"name": "b"}]),
        (Item, Item),  # the class itself, which cannot be converted
    ],
)
def test_a_value_becomes_json_data(value: Any, data: Any) -> None:
    assert as_data(value) == data


def test_a_plain_table_is_not_copied() -> None:
    value = {"a": 1}
    assert as_data(value) is value


def test_an_event_that_is_a_named_tuple_becomes_a_table() -> None:
    assert event_as_data(Pair(1, Item("b"))) == {"first": 1, "second": {"name": "b"}}
    assert event_as_data((1, 2)) == [1, 2]
    assert event_as_data(Item("b")) == {"name": "b"}
