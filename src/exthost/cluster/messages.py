"""The messages on the life connection, one JSON object a line. Pure.

Every connection starts with a nonce, which the host gave to the placer or sent in the order. Then,
on the life connection:

    host to node    order (once), signal, kill, beat
    node to host    started or failed (once), beat, exit (once, the last)

A side that is silent for longer than the order's `silence` seconds is lost: the node ends the
process then, and the host reports it as gone.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, NamedTuple

from exthost._version import __version__
from exthost.launch_plan import Ceiling, ExpectedPath, LaunchPlan, ResourceLimit, Wrapper
from exthost.process.environment import Variables
from exthost.process.exit_status import ExitStatus
from exthost.spec import Pins

__all__ = [
    "BEAT",
    "BEAT_SECONDS",
    "KILL",
    "MAX_LINE_BYTES",
    "NONCE_BYTES",
    "Lines",
    "Order",
    "OtherVersion",
    "SentFolder",
    "StateFolder",
    "decode_exit",
    "decode_order",
    "encode",
    "encode_exit",
    "encode_order",
]

# A nonce is this many characters, and a line feed follows it.
NONCE_BYTES = 64

# An order has the variables and the code of the wrapper; everything else is short.
MAX_LINE_BYTES = 8 * 1024 * 1024

# How often each side shows that it is alive.
BEAT_SECONDS = 1.0


class SentFolder(NamedTuple):
    """A folder of the host's machine, and the digest of its content. `nonce` is that of the
    connection on which it can be fetched."""

    root: str
    digest: str
    nonce: str = ""


class StateFolder(NamedTuple):
    """The folder in which an extension may keep files, and the user it belongs to."""

    path: str
    owner: int


class Order(NamedTuple):
    """What a node process is to start. `streams` are the nonces of stdin, stdout and stderr.
    `folder` is to be fetched first, and `state` is to be there. The files of `root`, its folder,
    and `manifest` must match the `pins`."""

    extension: str
    plan: LaunchPlan
    streams: tuple[str, str, str]
    silence: float
    folder: SentFolder | None = None
    pins: Pins = Pins()
    root: str = ""
    manifest: str = ""
    state: StateFolder | None = None


class OtherVersion(ValueError):
    """The order is that of another version of this package, which is the argument."""


class Lines:
    """Cuts the bytes of a connection into messages."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        """Return the messages that are complete. Raises ValueError for what is not a message."""
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        if len(self._buffer) > MAX_LINE_BYTES:
            raise ValueError("a line of the life connection is too long")
        messages = [json.loads(line) for line in lines]
        if not all(isinstance(message, dict) for message in messages):
            raise ValueError("a line of the life connection is not an object")
        return messages


def encode(message: Mapping[str, Any]) -> bytes:
    """Return a message as a line."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


BEAT = encode({"beat": True})
KILL = encode({"kill": True})


def encode_order(order: Order) -> bytes:
    """Return an order as a line."""
    return encode(
        {
            "version": __version__,
            "order": {
                "extension": order.extension,
                "plan": _plan_to_data(order.plan),
                "streams": order.streams,
                "silence": order.silence,
                "folder": order.folder,
                "pins": order.pins,
                "root": order.root,
                "manifest": order.manifest,
                "state": order.state,
            },
        }
    )


def decode_order(message: Mapping[str, Any]) -> Order:
    """Return the order of a message. Raises OtherVersion, or KeyError, TypeError or ValueError if
    it has none."""
    if message["version"] != __version__:
        raise OtherVersion(message["version"])
    data = message["order"]
    stdin, stdout, stderr = data["streams"]
    return Order(
        data["extension"],
        _plan_from_data(data["plan"]),
        (stdin, stdout, stderr),
        float(data["silence"]),
        folder=None if data["folder"] is None else SentFolder(*data["folder"]),
        pins=Pins(*data["pins"]),
        root=data["root"],
        manifest=data["manifest"],
        state=None if data["state"] is None else StateFolder(*data["state"]),
    )


def _plan_to_data(plan: LaunchPlan) -> dict[str, Any]:
    wrapper = plan.wrapper
    return {
        "argv": plan.argv,
        "cwd": plan.cwd,
        "env": dict(plan.env),
        "before": plan.before,
        "ceiling": plan.ceiling,
        "wrapper": None
        if wrapper is None
        else {
            "options": wrapper.options,
            "init": b64encode(wrapper.init).decode(),
            "limits": wrapper.limits,
            "filter": b64encode(wrapper.filter).decode(),
            "private_mounts": wrapper.private_mounts,
            "paths": wrapper.paths,
        },
    }


def _plan_from_data(data: Mapping[str, Any]) -> LaunchPlan:
    wrapper = data["wrapper"]
    return LaunchPlan(
        argv=tuple(data["argv"]),
        cwd=data["cwd"],
        env=Variables(data["env"]),
        before=tuple(data["before"]),
        ceiling=Ceiling(*data["ceiling"]),
        wrapper=None
        if wrapper is None
        else Wrapper(
            options=tuple(wrapper["options"]),
            init=b64decode(wrapper["init"]),
            limits=tuple(ResourceLimit(*limit) for limit in wrapper["limits"]),
            filter=b64decode(wrapper["filter"]),
            private_mounts=tuple(wrapper["private_mounts"]),
            paths=tuple(ExpectedPath(*path) for path in wrapper["paths"]),
        ),
    )


def encode_exit(status: ExitStatus) -> bytes:
    """Return how the process ended, as a line."""
    return encode({"exit": list(status)})


def decode_exit(message: Mapping[str, Any]) -> ExitStatus:
    """Return how the process ended. Raises TypeError or ValueError for nonsense."""
    return ExitStatus(*message["exit"])
