"""Reads the section `[cluster]`: how the host and processes on other machines (nodes) connect."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from exthost.model.documents.keys import FLAG, POSITIVE_DURATION, TEXT, Key, integer_at_least
from exthost.model.documents.problems import WRONG_VALUE, Place
from exthost.model.documents.readers import read_table
from exthost.model.documents.settings import resolve_path

# Addresses that only this machine can reach.
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """The settings of `[cluster]`.

    address      the Ray cluster: "auto", "local" or HOST:PORT
    host, port   where the host listens for processes on nodes; port 0 is any free port
    certificate  the path of a PEM file, "" if connections are not encrypted
    key          the path of the certificate's key, "" without a certificate
    place        how many seconds a new process on a node may take to connect
    silence      after how many seconds without a message a node counts as lost
    nodes        how many nodes the engine "local" simulates
    """

    address: str = "auto"
    host: str = "127.0.0.1"
    port: int = 0
    certificate: str = ""
    key: str = ""
    place: float = 60.0
    silence: float = 5.0
    nodes: int = 3


DEFAULT_CLUSTER_SETTINGS = ClusterSettings()

CLUSTER_KEYS: Mapping[str, Key] = {
    "address": Key(
        TEXT,
        'The Ray cluster: "auto" for that of this machine, "local" for a new one, or its address.',
        '"10.0.0.1:6379"',
        '"auto"',
    ),
    "listen": Key(
        TEXT,
        "The address of this machine to which nodes connect; port 0 is any free one.",
        '"10.0.0.5:7700"',
        '"127.0.0.1:0"',
    ),
    "certificate": Key(
        TEXT,
        "A file with a certificate (PEM): connections of nodes are encrypted, and only this host "
        "is believed to be the host. One that is signed by itself will do.",
        '"/etc/exthost/cluster.pem"',
        "(no encryption)",
    ),
    "key": Key(
        TEXT, "The file with the certificate's key.", '"/etc/exthost/cluster.key"', "(none)"
    ),
    "insecure": Key(
        FLAG,
        "Whether `listen` may be reachable from other machines, without encryption.",
        "true",
        "false",
    ),
    "place": Key(
        POSITIVE_DURATION, "How long a new process may take to connect.", '"60s"', '"60s"'
    ),
    "silence": Key(
        POSITIVE_DURATION, "How long a node may be silent before it is lost.", '"5s"', '"5s"'
    ),
    "nodes": Key(integer_at_least(1), 'How many nodes the engine "local" simulates.', "3", "3"),
}


def read_cluster_settings(value: Any, place: Place, folder: str | None) -> ClusterSettings | None:
    """Read the section. `folder` is that of the config, for relative paths. If the certificate or
    `listen` is wrong, add a problem at `place` and return None."""
    values = read_table(value, place, CLUSTER_KEYS)
    listen, insecure = values.pop("listen", None), values.pop("insecure", None)
    # None means that a value is wrong; its problem is already reported.
    settings = {name: setting for name, setting in values.items() if setting is not None}
    for name in ("certificate", "key"):
        if name in settings:
            settings[name] = resolve_path(folder, settings[name])
    is_encrypted = "certificate" in settings
    if is_encrypted != ("key" in settings):
        present_key = "certificate" if is_encrypted else "key"
        place.at(present_key).add_problem(
            WRONG_VALUE, "a certificate and its key are wanted together"
        )
        return None
    if listen is None:
        return ClusterSettings(**settings)
    host, _, port = listen.rpartition(":")
    host = host.strip("[]")
    if not host or not port.isdecimal() or int(port) > 65535:
        place.at("listen").add_problem(WRONG_VALUE, f"HOST:PORT is wanted, not {listen!r}")
        return None
    if not is_loopback(host) and not insecure and not is_encrypted:
        place.at("listen").add_problem(
            WRONG_VALUE,
            f"{host} can be reached from other machines, and its traffic is not encrypted; "
            "set certificate and key, or insecure = true if only trusted machines can reach it",
        )
        return None
    return ClusterSettings(host=host, port=int(port), **settings)


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach this address."""
    return host in _LOOPBACK
