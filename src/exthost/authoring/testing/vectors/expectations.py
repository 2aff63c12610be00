"""Compares results with what a vector expects: an offer, an error, a meaning or a value."""

import importlib
import logging
from typing import Any

from exthost.authoring.testing.vector_notation import parse_message_pattern
from exthost.authoring.testing.vectors.vector import Vector
from exthost.dialects.meanings import Log, Progress, Unusable
from exthost.errors import ExthostError
from exthost.model.messages import Notification
from exthost.model.offer import Offer, Tool


def assert_offer(vector: Vector, offer: Any) -> None:
    """Assert that a handshake ended with the offer (tools, hooks, capabilities) of the vector."""
    assert type(offer) is Offer, f"it came to {offer!r} and not to an Offer"
    fields = vector.json("offer")
    extra = fields.pop("extra", None)
    tools = tuple(Tool(**tool) for tool in fields.pop("tools", ()))
    lists = {key: tuple(value) for key, value in fields.items() if isinstance(value, list)}
    expected = Offer(**{**fields, **lists, "tools": tools})
    assert offer == expected, f"it offers {offer}, and should offer {expected}"
    assert extra is None or dict(offer.extra) == extra, f"its extra is {offer.extra}"


def assert_error(vector: Vector, error: ExthostError) -> None:
    """Assert that the error has the kind, code and message that the vector expects."""
    fields = vector.fields
    assert (error.kind, error.code) == (fields["error"], fields["code"]), error
    assert fields["says"] in error.message, error.message


def describe_meaning(vector: Vector) -> str:
    """Return what the vector's notification means to the host, as vectors write it."""
    notification = parse_message_pattern(vector.fields["notification"]).build()
    assert isinstance(notification, Notification)
    reader = vector.dialect.notifications.get(notification.method)
    meaning = reader(notification.params) if reader is not None else None
    if isinstance(meaning, Unusable):
        return f"Unusable {meaning.why}"
    if isinstance(meaning, Progress):
        return f"Progress {list(meaning)}"
    if isinstance(meaning, Log):
        return f"Log {logging.getLevelName(meaning.level)} {meaning.text}"
    return "" if meaning is None else type(meaning).__name__


def compute_value(vector: Vector) -> Any:
    """Call the vector's function with its bytes, and return the result."""
    fields = vector.fields
    module, _, name = fields["function"].partition(":")
    data = bytes.fromhex(fields["given_hex"]) if "given_hex" in fields else fields["given"].encode()
    return getattr(importlib.import_module(module), name)(data)
