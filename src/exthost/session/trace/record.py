"""One record of a trace: a message, a line of stderr, or an event such as the exit of a process.

A trace is a log of everything that the host and its extensions send each other. A message has a
direction, from the host's point of view. Its `data` is the params of a request or a notification,
the result of a reply, or the error of a failure. A record as a dict:

    {"time": 1763235230.1, "extension": "text", "kind": "request", "direction": "sent",
     "id": 1, "method": "shout", "params": {"text": "hi"}}
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from exthost.model.messages import Id

Direction: TypeAlias = Literal["sent", "received", ""]

Kind: TypeAlias = Literal[
    "request", "reply", "failure", "notification",
    "noise", "skipped", "stderr", "spawned", "exited", "state", "dropped",
]  # fmt: skip

MESSAGES: frozenset[str] = frozenset(get_args(Kind)[:4])
"""The kinds that are messages."""

# The name of `data` in `as_dict`, by kind; for all other messages it is "params".
_DATA_NAMES = {"reply": "result", "failure": "error"}


class TraceRecord(NamedTuple):
    """One record.

    time       seconds since 1970
    pid        the process id, 0 if unknown
    size       the size of the frame in bytes
    id         the id of the request, as it was sent
    call       the number of the call, the same for all its messages; None if unknown
    method     the method of the message; for a reply that of its request
    data       the params, result or error of a message; else details of the event
    text       a line of stderr, bytes that are not a message, or what happened
    node       the machine that the process runs on, "" for this machine
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
    node: str = ""

    @property
    def is_message(self) -> bool:
        return self.kind in MESSAGES

    @property
    def weight(self) -> int:
        """What the record counts for in a buffer whose bytes are limited. A line of stderr has no
        frame, and so no size."""
        return self.size + len(self.text)

    def as_dict(self) -> dict[str, Any]:
        """Return the record as a dict for JSON, without fields that have their default."""
        kind = self.kind
        data: dict[str, Any] = {
            "time": round(self.time, 6),
            "extension": self.extension,
            "kind": kind,
        }
        for name in ("direction", "pid", "size", "id", "call", "method", "text", "node"):
            value = getattr(self, name)
            is_default = value is None or value in ("", 0)
            if not is_default or (name == "id" and value == 0):  # 0 is an id as any other
                data[name] = value
        if self.is_message:
            data[_DATA_NAMES.get(kind, "params")] = self.data
        elif self.data is not None:
            data["data"] = self.data
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "TraceRecord":
        """Return the record from which `as_dict` made this dict. Raises ValueError."""
        kind = data.get("kind")
        if kind not in get_args(Kind):
            raise ValueError(f"{kind!r} is not a kind of record")
        values = {name: data[name] for name in cls._fields if name in data and name != "data"}
        for name, types in _FIELD_TYPES.items():
            if name in values and type(values[name]) not in types:
                raise ValueError(f"{name} is {values[name]!r}")
        name = _DATA_NAMES.get(kind, "params") if kind in MESSAGES else "data"
        try:
            return cls(**values, data=data.get(name))
        except TypeError as error:
            raise ValueError(str(error)) from None


# The types that `from_dict` accepts.
_FIELD_TYPES: Mapping[str, tuple[type, ...]] = {
    "time": (int, float),
    "extension": (str,),
    "direction": (str,),
    "pid": (int,),
    "size": (int,),
    "id": (int, str),
    "call": (int,),
    "method": (str,),
    "text": (str,),
    "node": (str,),
}
