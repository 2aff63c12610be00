"""Reads the section `[cluster]`: how the host and processes on other machines (nodes) connect.

On each node runs an agent, a process of exthost that starts the processes of extensions there. The
agents connect to the host. With `pool.engine = "ray"`, Ray chooses the nodes and starts the agents;
the engine "local" simulates nodes on this machine.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from exthost.model.documents.keys import (
    FLAG,
    JSON_TABLE,
    POSITIVE_DURATION,
    TEXT,
    Key,
    integer_at_least,
)
from exthost.model.documents.problems import WRONG_VALUE, Place
from exthost.model.documents.readers import quote_text, read_table
from exthost.model.documents.settings import resolve_path
from exthost.model.empty_mapping import empty_mapping

# A name, an IPv4 address, or an IPv6 address in brackets.
_HOST = r"(?P<host>[^\s\[\]/@:]+|\[[0-9A-Fa-f:.]+(?:%[\w.-]+)?\])"
_HOST_AND_PORT = re.compile(_HOST + r":(?P<port>[0-9]{1,5})")
_HOST_ALONE = re.compile(_HOST + r"|(?P<ipv6>[0-9A-Fa-f:.]+)")
_MAX_PORT = 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """The settings of `[cluster]`.

    address      the Ray cluster: "auto", "local" for a new one, HOST:PORT or ray://HOST:PORT
    host, port   where the host listens for agents; port 0 is any free port
    advertise    the address that agents connect to, "" for that where the host listens
    certificates the folder with the certificates, "" for that in the state folder of each machine
    is_encrypted whether connections are encrypted
    place        how many seconds a process may wait for its resources, and an agent to connect
    silence      after how many seconds without a message a node counts as lost
    nodes        how many nodes the engine "local" simulates
    runtime_env  the runtime environment of agents on a Ray cluster
    working_root the folder on this machine that `working_dir` of `runtime_env` is a copy of; "" if
                 there is no `working_dir`
    """

    address: str = "auto"
    host: str = "127.0.0.1"
    port: int = 0
    advertise: str = ""
    certificates: str = ""
    is_encrypted: bool = False
    place: float = 60.0
    silence: float = 5.0
    nodes: int = 3
    runtime_env: Mapping[str, Any] = field(default_factory=empty_mapping)
    working_root: str = ""


DEFAULT_CLUSTER_SETTINGS = ClusterSettings()

CLUSTER_KEYS: Mapping[str, Key] = {
    "address": Key(
        TEXT,
        'The Ray cluster: "auto" for that of this machine, "local" for a new one, or its address: '
        "HOST:PORT, or ray://HOST:PORT for Ray's client.",
        '"10.0.0.1:6379"',
        '"auto"',
    ),
    "listen": Key(
        TEXT,
        "The address of this machine to which nodes connect; port 0 is any free one.",
        '"10.0.0.5:7700"',
        '"127.0.0.1:0"',
    ),
    "advertise": Key(
        TEXT,
        "The address that nodes connect to, if it is not that of `listen`: of a NAT or a Service. "
        "Without a port, it is the port of `listen`.",
        '"exthost.example.org:7700"',
        "(that of `listen`)",
    ),
    "certificates": Key(
        TEXT,
        "The folder with the certificates of the host and the nodes, which `exthost cluster init` "
        "makes. It has the same path on the nodes.",
        '"/etc/exthost/cluster"',
        "(`cluster` in the state folder, if `listen` can be reached from other machines)",
    ),
    "insecure": Key(
        FLAG,
        "Whether connections from other machines may be unencrypted.",
        "true",
        "false",
    ),
    "place": Key(
        POSITIVE_DURATION,
        "How long a start may wait for its resources, and for the agent of its node.",
        '"60s"',
        '"60s"',
    ),
    "silence": Key(
        POSITIVE_DURATION, "How long a node may be silent before it is lost.", '"5s"', '"5s"'
    ),
    "nodes": Key(integer_at_least(1), 'How many nodes the engine "local" simulates.', "3", "3"),
    "runtime_env": Key(
        JSON_TABLE,
        "The runtime environment that Ray makes for the processes on its nodes, as in Ray's "
        "documentation: `working_dir`, `pip`, `env_vars` and others.",
        '{ working_dir = "programs" }',
        "{ }",
    ),
}


def read_cluster_settings(value: Any, place: Place, folder: str | None) -> ClusterSettings | None:
    """Read the section. `folder` is that of the config, for relative paths. If an address is wrong,
    add a problem at `place` and return None."""
    values = read_table(value, place, CLUSTER_KEYS)
    listen, insecure = values.pop("listen", None), values.pop("insecure", None)
    # None means that a value is wrong; its problem is already reported.
    settings = {name: setting for name, setting in values.items() if setting is not None}
    if "certificates" in settings:
        settings["certificates"] = resolve_path(folder, settings["certificates"])
        settings["is_encrypted"] = True
    _read_runtime_env(settings, place.at("runtime_env"), folder)
    advertise = settings.get("advertise")
    if advertise and (problem := _advertise_problem(advertise)):
        place.at("advertise").add_problem(WRONG_VALUE, problem)
        return None
    if listen is None:
        return ClusterSettings(**settings)
    match = _HOST_AND_PORT.fullmatch(listen)
    if match is None or int(match["port"]) > _MAX_PORT or _is_invalid_ipv6(match["host"]):
        hint = f"; write it as [{listen}]:PORT" if is_ipv6(listen) else ""
        place.at("listen").add_problem(
            WRONG_VALUE, f"HOST:PORT is wanted, not {quote_text(listen)}{hint}"
        )
        return None
    host = match["host"].strip("[]")
    if is_any(host) and not advertise:
        place.at("listen").add_problem(
            WRONG_VALUE, f"{host} is every address of this machine; set advertise to one of them"
        )
        return None
    if not is_loopback(host) and not insecure:
        settings["is_encrypted"] = True
    return ClusterSettings(host=host, port=int(match["port"]), **settings)


def _advertise_problem(advertise: str) -> str:
    """Return what is wrong with the address that nodes connect to; "" if nothing is."""
    match = _HOST_AND_PORT.fullmatch(advertise)
    if match is not None and not 0 < int(match["port"]) <= _MAX_PORT:
        match = None
    elif match is None:
        match = _HOST_ALONE.fullmatch(advertise)
    if match is None or _is_invalid_ipv6(match["host"] or advertise):
        return f"HOST or HOST:PORT is wanted, not {quote_text(advertise)}"
    host = (match["host"] or advertise).strip("[]")
    return f"no node can connect to {host}, which is every address of a machine" * is_any(host)


def _read_runtime_env(settings: dict[str, Any], place: Place, folder: str | None) -> None:
    """Make the path of `working_dir` absolute, and set the folder that it stands for."""
    runtime_env = settings.get("runtime_env", {})
    for name in ("image_uri", "container"):
        if name in runtime_env:
            place.at(name).add_problem(WRONG_VALUE, "name the image in pool.image instead")
    working_dir = runtime_env.get("working_dir")
    if not isinstance(working_dir, str):
        return  # if it is not a text, Ray reports it
    if "://" in working_dir:  # a zip file that the nodes download
        settings["working_root"] = folder or ""
    else:
        path = resolve_path(folder, working_dir)
        settings["working_root"] = path
        settings["runtime_env"] = {**runtime_env, "working_dir": path}


def is_any(host: str) -> bool:
    """Return whether this stands for all addresses of the machine. A host can listen there, but
    nothing can connect to such an address."""
    return host in ("*", "0") or _has_property(host, "is_unspecified")


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach this address."""
    return host.lower() == "localhost" or _has_property(host, "is_loopback")


def _is_invalid_ipv6(host: str) -> bool:
    """Return whether a host is written as an IPv6 address, with brackets or without, and is not
    one."""
    return (":" in host or host.startswith("[")) and not is_ipv6(host.strip("[]"))


def is_ipv6(host: str) -> bool:
    """Return whether this is an IPv6 address, without brackets and without a port."""
    return ":" in host and _has_property(host, "compressed")


def _has_property(host: str, name: str) -> bool:
    """Return whether a host is an IP address with this property."""
    import ipaddress  # most configs have no addresses of a cluster

    try:
        return bool(getattr(ipaddress.ip_address(host), name))
    except ValueError:  # it is a name
        return False
