"""Converts cigen's protobuf messages to JSON and back, and translates protobuf's errors.

The JSON is protobuf's own mapping. Fields have the names that they have in the .proto file (input
may be camelCase, too), enum values are names, and bytes are base64. Fields with default values are
included, so that every result has all fields:

    PluginInfo(name="provider/ci", protocol=1)
    {"name": "provider/ci", "protocol": 1, "version": "", "capabilities": [], …}
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from exthost.errors import Evidence, ProtocolViolation, UsageError
from exthost.wire.framing import EVIDENCE_BYTES, Bytes

M = TypeVar("M", bound=Message)

_BASE64 = re.compile(r"[A-Za-z0-9+/_-]*={0,2}")


def to_message(kind: type[M], params: Any) -> M:
    """Return the message for these params: JSON, None for an empty message, or the message itself.
    Raises UsageError for invalid params."""
    if isinstance(params, kind):
        return params
    members = fields(kind, params)
    # protobuf ignores characters that are not base64, and would send other bytes without an error.
    for place, text in _iter_bytes_fields(kind.DESCRIPTOR, members):
        if not _BASE64.fullmatch(text) or len(text.rstrip("=")) % 4 == 1:
            raise invalid_params_error(
                kind.DESCRIPTOR.name, f"{place} must be base64, not other text"
            )
    try:
        return ParseDict(members, kind())
    except Exception as error:  # it raises many types of exceptions, depending on the value
        raise invalid_params_error(
            kind.DESCRIPTOR.name, str(error).split("\n", 1)[0].rstrip(".")
        ) from None


def _iter_bytes_fields(descriptor: Any, members: Any) -> Iterable[tuple[str, str]]:
    """Yield the place and the text of each field of type bytes. `descriptor` is that of the message
    with these fields."""
    if not isinstance(members, Mapping) or not _has_bytes_fields(descriptor):
        return
    for name, value in members.items():
        if not isinstance(name, str):
            continue
        field = descriptor.fields_by_name.get(name) or descriptor.fields_by_camelcase_name.get(name)
        if field is None:
            continue
        if _is_map(field) and isinstance(value, Mapping):
            value_descriptor = field.message_type.fields_by_name["value"]
            values = list(value.values())
        else:
            value_descriptor = field
            values = value if isinstance(value, list) else [value]
        for item in values:
            if value_descriptor.type == FieldDescriptor.TYPE_BYTES and isinstance(item, str):
                yield name, item
            elif value_descriptor.message_type is not None:
                for place, text in _iter_bytes_fields(value_descriptor.message_type, item):
                    yield f"{name}.{place}", text


def _is_map(field: Any) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


@lru_cache
def _has_bytes_fields(descriptor: Any) -> bool:
    """Return whether messages of this type have a field of type bytes, at any depth. No message of
    the schema contains itself, so the recursion ends."""
    return any(
        field.type == FieldDescriptor.TYPE_BYTES
        or (field.message_type is not None and _has_bytes_fields(field.message_type))
        for field in descriptor.fields
    )


def fields(kind: type[Message], params: Any) -> dict[str, Any]:
    """Return params as a new dict. The fields are not checked. Raises UsageError if the params are
    not an object."""
    if params is None:
        return {}
    if isinstance(params, kind):
        return MessageToDict(params, preserving_proto_field_name=True)
    if not isinstance(params, Mapping):
        raise invalid_params_error(
            kind.DESCRIPTOR.name, f"an object is needed, and this is {type(params).__name__}"
        )
    return dict(params)


def invalid_params_error(name: str, reason: str) -> UsageError:
    """Return the error for params that cannot be sent as the message `name`."""
    return UsageError(
        "X1320",
        f"this cannot be sent as a {name}: {reason}",
        help="it was not sent; the fields of each message are in plugin.proto",
    )


def find_mistyped_field(message: Message, place: str = "") -> str:
    """Return the path of the first field whose value has another wire type than in the schema, or
    "".

    Protobuf treats such a value as an unknown field. It reveals a message of another type, which
    protobuf decodes without an error.
    """
    declared = message.DESCRIPTOR.fields_by_number
    for unknown in UnknownFieldSet(message):  # type: ignore[attr-defined]
        if unknown.field_number in declared:
            return f"{place}{declared[unknown.field_number].name}"
    for field, value in message.ListFields():
        if field.message_type is None or _is_map(field):
            continue
        for item in value if isinstance(value, Iterable) else (value,):
            if mistyped_field := find_mistyped_field(item, f"{place}{field.name}."):
                return mistyped_field
    return ""


def decode_message(
    kind: type[Message], frame: Bytes, *, check: Callable[[Message], None] | None = None
) -> dict[str, Any]:
    """Return the JSON of the message in this frame. Raises ProtocolViolation if the frame cannot be
    decoded. `check` is called with the message, and may raise, too."""
    data = bytes(frame)
    try:
        message = kind.FromString(data)
    except DecodeError as error:
        raise ProtocolViolation(
            "X0620",
            f"its output is not a {kind.DESCRIPTOR.name}: {error}",
            help="does it speak cigen protocol 1, and write nothing else to its stdout?",
            evidence=Evidence(bytes=data[:EVIDENCE_BYTES].decode("utf-8", "backslashreplace")),
        ) from None
    if check is not None:
        check(message)
    return MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
