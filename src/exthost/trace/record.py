"""One record of a trace: a message, a line of stderr, or an event in an extension's life. Pure.

Messages have a direction, from the host's point of view. `data` is what the message says: the
params of a request or a notification, the result of a reply, the error of a failure.
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from exthost.messages import Id

__all__ = ["MESSAGES", "Direction", "Kind", "TraceRecord"]

Direction: TypeAlias = Literal["sent", "received", ""]

Kind: TypeAlias = Literal[
    "request", "reply", "failure", "notification",
    "noise", "skipped", "stderr", "spawned", "exited", "state", "dropped",
]  # fmt: skip

MESSAGES: frozenset[str] = frozenset(get_args(Kind)[:4])
"""The kinds that are messages."""

# The name of `data`, by kind.
_DATA = {"reply": "result", "failure": "error"}


class TraceRecord(NamedTuple):
    """One record.

    time       seconds since 1970
    pid        the process, 0 if there is none
    size       of the frame, in bytes
    id         of the request, as it is on the wire
    call       the number of the call that it belongs to, if it is known: one number for all
               messages of a call
    method     of the message, and for a reply that of its request
    data       what the message says
    text       a line of stderr, what is no message, or what happened
    """

    time: float
    extension: str
    kind: Kind
    direction: Direction = ""
    pid: int = 0
    size: int = 0
    id: Id | None = None
    call: int | None = None
    method: str = ""
    data: Any = None
    text: str = ""

    @property
    def is_message(self) -> bool:
        return self.kind in MESSAGES

    def as_dict(self) -> dict[str, Any]:
        """Return the record as data, without members that say nothing."""
        kind = self.kind
        data: dict[str, Any] = {
            "time": round(self.time, 6),
            "extension": self.extension,
            "kind": kind,
        }
        for name in ("direction", "pid", "size", "id", "call", "method", "text"):
            value = getattr(self, name)
            if (value is not None and value not in ("", 0)) or (name == "id" and value == 0):
                data[name] = value
        if self.is_message:
            data[_DATA.get(kind, "params")] = self.data
        elif self.data is not None:
            data["data"] = self.data
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "TraceRecord":
        """Return the record that `as_dict` made this of. Raises ValueError."""
        kind = data.get("kind")
        if kind not in get_args(Kind):
            raise ValueError(f"{kind!r} is no kind of record")
        values = {name: data[name] for name in cls._fields if name in data and name != "data"}
        for name, types in _TYPES.items():
            if name in values and type(values[name]) not in types:
                raise ValueError(f"{name} is {values[name]!r}")
        name = _DATA.get(kind, "params") if kind in MESSAGES else "data"
        try:
            return cls(**values, data=data.get(name))
        except TypeError as error:
            raise ValueError(str(error)) from None


_TYPES: Mapping[str, tuple[type, ...]] = {
    "time": (int, float),
    "extension": (str,),
    "direction": (str,),
    "pid": (int,),
    "size": (int,),
    "id": (int, str),
    "call": (int,),
    "method": (str,),
    "text": (str,),
}
