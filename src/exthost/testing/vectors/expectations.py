"""What a vector expects: an offer, an error, the meaning of a notification, a value."""

import importlib
import logging
from typing import Any

from exthost.dialects.meanings import Log, Progress, Unusable
from exthost.errors import ExthostError
from exthost.messages import Notification
from exthost.offer import Offer, Tool
from exthost.testing.vector_notation import parse_message
from exthost.testing.vectors.vector import Vector

__all__ = ["assert_error", "assert_offer", "meaning", "value"]


def assert_offer(vector: Vector, offer: Any) -> None:
    assert type(offer) is Offer, f"it came to {offer!r} and not to an Offer"
    stated = vector.json("offer")
    extra = stated.pop("extra", None)
    tools = tuple(Tool(**tool) for tool in stated.pop("tools", ()))
    lists = {key: tuple(value) for key, value in stated.items() if isinstance(value, list)}
    expected = Offer(**{**stated, **lists, "tools": tools})
    assert offer == expected, f"it offers {offer}, and should offer {expected}"
    assert extra is None or dict(offer.extra) == extra, f"its extra is {offer.extra}"


def assert_error(vector: Vector, error: ExthostError) -> None:
    row = vector.row
    assert (error.kind, error.code) == (row["error"], row["code"]), error
    assert row["says"] in error.message, error.message


def meaning(vector: Vector) -> str:
    """What a notice is to the host, as the vector writes it down."""
    notice = parse_message(vector.row["notification"]).message()
    assert isinstance(notice, Notification)
    read = vector.dialect.notifications.get(notice.method)
    meant = read(notice.params) if read is not None else None
    if isinstance(meant, Unusable):
        return f"Unusable {meant.why}"
    if isinstance(meant, Progress):
        return f"Progress {list(meant)}"
    if isinstance(meant, Log):
        return f"Log {logging.getLevelName(meant.level)} {meant.text}"
    return "" if meant is None else type(meant).__name__


def value(vector: Vector) -> Any:
    """What the vector's function makes of its bytes."""
    row = vector.row
    module, _, name = row["function"].partition(":")
    data = bytes.fromhex(row["given_hex"]) if "given_hex" in row else row["given"].encode()
    return getattr(importlib.import_module(module), name)(data)
