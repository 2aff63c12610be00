"""cigen's messages and their JSON: protobuf's own mapping, and its errors in our words.

Names are the .proto's (on input camelCase too), enums are their names, bytes are base64, and
defaults are spelt out, so that whoever reads a result need not ask whether a member is there.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import DecodeError, Message

from exthost.errors import Evidence, ProtocolViolation, UsageError
from exthost.wire.framing import EVIDENCE_BYTES, Bytes

M = TypeVar("M", bound=Message)


def to_message(kind: type[M], params: Any) -> M:
    """The message in these params: JSON, None for an empty one, or the message itself. Raises
    UsageError for what does not fit."""
    if isinstance(params, kind):
        return params
    given = fields(kind, params)
    try:
        return ParseDict(given, kind())
    except Exception as error:  # besides its own it raises whatever a value makes it trip over
        raise unfit(kind.DESCRIPTOR.name, str(error).split("\n", 1)[0]) from None


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


def decoded(kind: type[Message], frame: Bytes) -> dict[str, Any]:
    """The JSON of the message in this frame. Raises ProtocolViolation if there is none."""
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
    return MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
