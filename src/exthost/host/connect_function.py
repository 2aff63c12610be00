"""`exthost.connect`: run one command as an extension, without a host, a config or a manifest.

    async with exthost.connect(["python3", "ext.py"]) as ext:
        await ext.call_tool("echo", {})

A dialect is the protocol that an extension speaks on its stdin and stdout, such as MCP.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias, Unpack

from exthost.config.extension_settings import ExtensionSettings
from exthost.events import Bus
from exthost.host.connection import Connection, connection_spec
from exthost.host.detection import DetectedConnection
from exthost.session.inbound import Handler

# The two objects that `connect` returns: for a dialect that is named, and for one to be detected.
AnyConnection: TypeAlias = Connection | DetectedConnection


def connect(
    command: Sequence[str],
    *,
    dialect: str | None = None,
    handlers: Mapping[str, Handler] | None = None,
    events: Bus | None = None,
    **settings: Unpack[ExtensionSettings],
) -> AnyConnection:
    """Run `command` as an extension for as long as the `async with` block lasts.

    Without a dialect, the dialects are tried in turn, each with a new process of `command`, until
    one handshake succeeds; the search ends after 30 seconds. `handlers` answer requests of the
    extension to the host, by method. `events` is the bus on which events are published. `settings`
    are the keys of an `[[extensions]]` entry of a config: config, env, cwd, limits, restart …

    Raises ConfigError for invalid settings; entering the block raises SpawnFailed or
    HandshakeFailed if the program does not start or does not speak the dialect.
    """
    return make_connection(command, dialect, settings, handlers=handlers, events=events)


def make_connection(
    command: Sequence[str],
    dialect: str | None,
    settings: ExtensionSettings,
    *,
    handlers: Mapping[str, Handler] | None = None,
    events: Bus | None = None,
    shared: bool = False,
) -> AnyConnection:
    """Return the connection for `connect`, which is opened with `async with`. `shared`: the
    extension is called from several threads, as `sync_connect` allows."""
    spec = connection_spec(command, dialect, settings)
    connection_class = DetectedConnection if dialect is None else Connection
    return connection_class(spec, events=events, handlers=handlers, shared=shared)
