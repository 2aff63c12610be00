"""The messages between a host and the agent of a node, as objects of JSON.

An agent is the program that runs on another machine (a node) and starts processes there. Each
process has a number that the host chooses. A message about a process is sent in the stream of that
number, and a message about the connection in stream 0.

    host to agent, stream 0    welcome (the first message)
    agent to host, stream 0    hello (the first message), usage (of its processes, every few
                               seconds), farewell (why it ends)
    host to agent, a process   order (what to start), then signal, kill
    agent to host, a process   wants_folder, then started or failed, then exit

Four numbers belong to each process: its own, whose stream also carries the folder that the agent
fetches, and those of its stdin, stdout and stderr (`stream_numbers`). For example, the first
process has the number 4, and its stdin, stdout and stderr are the streams 5, 6 and 7.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, NamedTuple

from exthost._version import __version__
from exthost.cluster.multiplexer import PROTOCOL_VERSION
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

# A nonce, the random text by which the host recognises an agent, has this many characters. A line
# feed follows it.
NONCE_BYTES = 64

# How many numbers belong to a process: those of its streams follow its own.
NUMBERS_PER_PROCESS = 4

# The beginning of a version of exthost: its major and its minor number.
_VERSION = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})(?![0-9])")

KILL: Mapping[str, Any] = {"kill": True}


def stream_numbers(process: int) -> tuple[int, int, int]:
    """Return the numbers of stdin, stdout and stderr of a process."""
    return process + 1, process + 2, process + 3


class SentFolder(NamedTuple):
    """A folder that a node can fetch from the host.

    root    the path of the folder on the host's machine
    digest  the digest of its content
    """

    root: str
    digest: str


class StateFolder(NamedTuple):
    """The folder in which an extension may keep files. `owner` is the uid that owns it."""

    path: str
    owner: int


class Order(NamedTuple):
    """What an agent must start.

    extension  the name of the extension
    plan       the command, its variables and its sandbox
    inherited  the names of the variables in the plan that are the host's own; the node's value is
               used, if it has one
    variables  variables of the cluster, such as those of GPUs; the plan takes precedence
    folder     a folder to fetch first, None if the node needs no files
    pins       the digests that the files below `root` and the manifest must have
    root       the folder of the extension
    manifest   the path of its manifest, "" if it has none
    state      the state folder, which the node creates if it is missing; None without one
    working_root  the folder on the host's machine whose content the agent's working folder has; ""
                  if the node has the files at the same paths
    """

    extension: str
    plan: LaunchPlan
    inherited: tuple[str, ...] = ()
    variables: Mapping[str, str] = {}
    folder: SentFolder | None = None
    pins: Pins = Pins()
    root: str = ""
    manifest: str = ""
    state: StateFolder | None = None
    working_root: str = ""


def hello() -> dict[str, Any]:
    """Return the first message of an agent."""
    return {"hello": {"version": __version__, "protocol": PROTOCOL_VERSION}}


def is_compatible(message: Mapping[str, Any]) -> bool:
    """Return whether the host can work with an agent that sent this first message: the protocol is
    the same, and the minor versions of exthost differ by at most one."""
    first = message["hello"]
    theirs, ours = _major_and_minor(first["version"]), _major_and_minor(__version__)
    if theirs is None or ours is None:
        return False
    is_near = theirs[0] == ours[0] and abs(theirs[1] - ours[1]) <= 1
    return bool(first["protocol"] == PROTOCOL_VERSION) and is_near


def _major_and_minor(version: Any) -> tuple[int, int] | None:
    """Return the first two numbers of a version; None if it does not begin with them."""
    match = _VERSION.match(version) if isinstance(version, str) else None
    return None if match is None else (int(match[1]), int(match[2]))


def encode_order(order: Order) -> dict[str, Any]:
    """Return an order as a message."""
    return {
        "order": {
            "extension": order.extension,
            "plan": _plan_to_data(order.plan),
            "inherited": order.inherited,
            "variables": dict(order.variables),
            "folder": order.folder,
            "pins": order.pins,
            "root": order.root,
            "manifest": order.manifest,
            "state": order.state,
            "working_root": order.working_root,
        }
    }


def decode_order(message: Mapping[str, Any]) -> Order:
    """Return the order of a message. Raises KeyError, TypeError or ValueError if the message has no
    valid order."""
    data = message["order"]
    return Order(
        data["extension"],
        _plan_from_data(data["plan"]),
        inherited=tuple(data["inherited"]),
        variables=dict(data["variables"]),
        folder=None if data["folder"] is None else SentFolder(*data["folder"]),
        pins=Pins(*data["pins"]),
        root=data["root"],
        manifest=data["manifest"],
        state=None if data["state"] is None else StateFolder(*data["state"]),
        working_root=data.get("working_root", ""),
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


def encode_exit(status: ExitStatus) -> dict[str, Any]:
    """Return how the process ended, as a message."""
    return {"exit": list(status)}


def decode_exit(message: Mapping[str, Any]) -> ExitStatus:
    """Return how the process ended. Raises TypeError or ValueError if the message is invalid."""
    status = ExitStatus(*message["exit"])
    numbers, texts = status[:2], status[2:]
    if not all(number is None or type(number) is int for number in numbers):
        raise TypeError(f"an exit status of {numbers!r:.100}")
    if not all(isinstance(text, str) for text in texts):
        raise TypeError(f"an exit status with the texts {texts!r:.100}")
    return status
