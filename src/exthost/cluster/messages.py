"""The messages on the control connection between the host and a node process, as lines of JSON.

A node process is the program that runs on another machine (a node) and starts extensions there.

    host to node    order (what to start), then signal, kill, beat (a heartbeat)
    node to host    started or failed, then beat, and at the end exit

Every connection starts with a nonce, a random text by which the host recognises the connection. The
node process gets the nonce of the control connection from the placer (what started it), and the
nonces of the other connections in the order.

After `exit` the host may send another order. If none comes within IDLE_SECONDS, the node process
ends.

Each side sends a heartbeat regularly. If one side sends nothing for longer than the order's
`silence` seconds, the other side assumes that it is lost: the node then kills the extension, and
the host reports that the process has ended.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, NamedTuple

from exthost._version import __version__
from exthost.model.launch_plan import (
    Ceiling,
    ExpectedPath,
    InaccessibleFolder,
    LaunchPlan,
    ResourceLimit,
    Wrapper,
)
from exthost.model.spec import Pins
from exthost.process.environment import Variables
from exthost.process.exit_status import ExitStatus

# A nonce is this many characters, and a line feed follows it.
NONCE_BYTES = 64

# The longest message is an order, which has all variables and the code of the sandbox.
MAX_LINE_BYTES = 8 * 1024 * 1024

# How often each side sends a heartbeat.
HEARTBEAT_SECONDS = 1.0

# How long a node process waits for another order when its extension has ended.
IDLE_SECONDS = 10.0


class SentFolder(NamedTuple):
    """A folder that a node can fetch from the host.

    root    the path of the folder on the host's machine
    digest  the digest of its content
    nonce   the nonce of the connection on which the host sends the folder
    """

    root: str
    digest: str
    nonce: str = ""


class StateFolder(NamedTuple):
    """The folder in which an extension may keep files. `owner` is the uid that owns it."""

    path: str
    owner: int


class Order(NamedTuple):
    """What a node process must start.

    extension  the name of the extension
    plan       the command, its variables and its sandbox
    streams    the nonces of the connections for stdin, stdout and stderr
    silence    after how many seconds without a message the node assumes that the host is lost
    folder     a folder to fetch first, None if the node needs no files
    pins       the digests that the files below `root` and the manifest must have
    root       the folder of the extension
    manifest   the path of its manifest, "" if it has none
    state      the state folder, which the node creates if it is missing; None without one
    """

    extension: str
    plan: LaunchPlan
    streams: tuple[str, str, str]
    silence: float
    folder: SentFolder | None = None
    pins: Pins = Pins()
    root: str = ""
    manifest: str = ""
    state: StateFolder | None = None


class VersionMismatch(ValueError):
    """The host that sent the order has another version of exthost. The argument is that version."""


class LineDecoder:
    """Splits the bytes of a connection into lines, and decodes each as a message."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        """Return the messages that are complete now. Raises ValueError for an invalid line."""
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        if len(self._buffer) > MAX_LINE_BYTES:
            raise ValueError("a line of the control connection is too long")
        messages = [json.loads(line) for line in lines]
        if not all(isinstance(message, dict) for message in messages):
            raise ValueError("a line of the control connection is not an object")
        return messages


def encode(message: Mapping[str, Any]) -> bytes:
    """Return a message as a line."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


HEARTBEAT = encode({"beat": True})
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
    """Return the order of a message. Raises VersionMismatch, or KeyError, TypeError or ValueError
    if the message has no valid order."""
    if message["version"] != __version__:
        raise VersionMismatch(message["version"])
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
            "inaccessible_folders": wrapper.inaccessible_folders,
            "uid": wrapper.uid,
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
            inaccessible_folders=tuple(
                InaccessibleFolder(path, tuple(visible))
                for path, visible in wrapper["inaccessible_folders"]
            ),
            uid=wrapper["uid"],
        ),
    )


def encode_exit(status: ExitStatus) -> bytes:
    """Return how the process ended, as a line."""
    return encode({"exit": list(status)})


def decode_exit(message: Mapping[str, Any]) -> ExitStatus:
    """Return how the process ended. Raises TypeError or ValueError if the message is invalid."""
    return ExitStatus(*message["exit"])
