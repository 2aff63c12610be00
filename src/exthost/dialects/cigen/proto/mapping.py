"""cigen's messages and their JSON: protobuf's own mapping, and its errors in our words.

Names are the .proto's (on input camelCase too), enums are their names, bytes are base64, and
defaults are spelt out, so that whoever reads a result need not ask whether a member is there.
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
    """The message in these params: JSON, None for an empty one, or the message itself. Raises
    UsageError for what does not fit."""
    if isinstance(params, kind):
        return params
    members = fields(kind, params)
    # protobuf leaves out whatever is no base64, and sends what the rest happens to mean.
    for place, text in _bytes_in(kind.DESCRIPTOR, members):
        if not _BASE64.fullmatch(text) or len(text.rstrip("=")) % 4 == 1:
            raise unfit(kind.DESCRIPTOR.name, f"{place} must be base64, and is other text")
    try:
        return ParseDict(members, kind())
    except Exception as error:  # besides its own it raises whatever a value makes it trip over
        raise unfit(kind.DESCRIPTOR.name, str(error).split("\n", 1)[0].rstrip(".")) from None


def _bytes_in(kind: Any, members: Any) -> Iterable[tuple[str, str]]:
    """Each text in these members that stands for bytes, and where; `kind` is a descriptor."""
    if not isinstance(members, Mapping) or not _holds_bytes(kind):
        return
    for name, value in members.items():
        if not isinstance(name, str):
            continue
        field = kind.fields_by_name.get(name) or kind.fields_by_camelcase_name.get(name)
        if field is None:
            continue
        leaf, values = field, value if isinstance(value, list) else [value]
        if _is_map(field) and isinstance(value, Mapping):
            leaf, values = field.message_type.fields_by_name["value"], list(value.values())
        for item in values:
            if leaf.type == FieldDescriptor.TYPE_BYTES and isinstance(item, str):
                yield name, item
            elif leaf.message_type is not None:
                yield from (
                    (f"{name}.{place}", at) for place, at in _bytes_in(leaf.message_type, item)
                )


def _is_map(field: Any) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


@lru_cache
def _holds_bytes(kind: Any) -> bool:
    """Whether a message of this kind may hold any. The schema's messages do not hold themselves."""
    return any(
        field.type == FieldDescriptor.TYPE_BYTES
        or (field.message_type is not None and _holds_bytes(field.message_type))
        for field in kind.fields
    )


def fields(kind: type[Message], params: Any) -> dict[str, Any]:
    """The same params as members that can be added to, none of them checked."""
    if params is None:
        return {}
    if isinstance(params, kind):
        return MessageToDict(params, preserving_proto_field_name=True)
    if not isinstance(params, Mapping):
        raise unfit(
            kind.DESCRIPTOR.name, f"an object is needed, and this is {type(params).__name__}"
        )
    return dict(params)


def unfit(name: str, why: str) -> UsageError:
    """These params cannot be sent."""
    return UsageError(
        "X1320",
        f"this cannot be sent as a {name}: {why}",
        help="it was not sent; the fields of each message are in plugin.proto",
    )


def mistyped(message: Message, place: str = "") -> str:
    """Return the first field that was sent as another kind of value than the schema has, or "".

    Protobuf takes such a value for a field that it does not know. It tells a message of another
    type, which decodes without an error otherwise.
    """
    known = message.DESCRIPTOR.fields_by_number
    for unknown in UnknownFieldSet(message):  # type: ignore[attr-defined]
        if unknown.field_number in known:
            return f"{place}{known[unknown.field_number].name}"
    for field, value in message.ListFields():
        if field.message_type is None or _is_map(field):
            continue
        for item in value if isinstance(value, Iterable) else (value,):
            if where := mistyped(item, f"{place}{field.name}."):
                return where
    return ""


def decoded(
    kind: type[Message], frame: Bytes, *, check: Callable[[Message], None] | None = None
) -> dict[str, Any]:
    """The JSON of the message in this frame. Raises ProtocolViolation if there is none. `check`
    may raise, too."""
    data = bytes(frame)
    try:
        message = kind.FromString(data)
    except DecodeError as error:
        raise ProtocolViolation(
            "X0620",
            f"what it wrote is no {kind.DESCRIPTOR.name}: {error}",
            help="does it speak cigen protocol 1, and write nothing else to its stdout?",
            evidence=Evidence(bytes=data[:EVIDENCE_BYTES].decode("utf-8", "backslashreplace")),
        ) from None
    if check is not None:
        check(message)
    return MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
