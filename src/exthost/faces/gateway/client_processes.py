"""Gives each client of the gateway its own processes of the servers that clients cannot share.

The gateway publishes the extensions of a host, here MCP servers, as one MCP server for many
clients. Usually all of them use the same process of an extension.

A server that keeps state for its client cannot be shared: one with `share = false`, or one of
`stateful_servers.toml`. Neither can a server of the handshake era (with sessions) that has sent a
request to its client (for roots, sampling or elicitation), because such a request does not name the
call that it belongs to. A server is known to do so from its first request on, which is remembered
in the state folder. `share = true` insists on sharing.

The first client of such a server uses the process that the host has started, that of the listed
extension. Every other client gets a private extension (`host.private_extensions`): a copy that the
host does not list, and that starts at its first call. All of these processes end with their
clients. Clients on HTTP share every server, because most of them have no session to which a process
could belong.
"""

import asyncio
import logging
import tomllib
from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib import resources
from typing import Any

from mcp.server.session import ServerSession

from exthost.errors import ExthostError
from exthost.events import (
    Bus,
    CallEnded,
    CallStarted,
    ContainmentWeakened,
    Dropped,
    Exited,
    LogLine,
    Noticed,
    ProcessLost,
    Spawned,
)
from exthost.extension.extension import Extension
from exthost.faces.gateway.capabilities import declared_handlers
from exthost.faces.gateway.catalog import is_mcp_server
from exthost.faces.gateway.client_stream import CURRENT_STREAM, ClientStream
from exthost.faces.gateway.exchanges import Exchanges, ask_client, can_answer, no_client_error
from exthost.host.host import Host
from exthost.host.private_extensions import PrivateExtensions
from exthost.model.spec import Spec

_log = logging.getLogger("exthost.faces.gateway")

# The events of private processes that the host shows as those of the listed extension.
_FORWARDED = (
    Spawned, Exited, LogLine, Dropped, ContainmentWeakened, ProcessLost, CallStarted, CallEnded,
)  # fmt: skip

OnNotice = Callable[[ClientStream, Noticed], None]


class ClientProcesses:
    """The private processes of all clients. `on_notice` passes a notification of a private process
    on to its client."""

    def __init__(self, host: Host, exchanges: Exchanges, on_notice: OnNotice) -> None:
        self._host = host
        self._extensions = PrivateExtensions(host)
        self._exchanges = exchanges
        self._on_notice = on_notice
        # The ids of servers that have sent requests to their client since the gateway started.
        self._requesting_servers: set[str] = set()
        # By id of a server that is not shared: the client that uses the listed process.
        self._owners: dict[str, ClientStream] = {}
        self._private: dict[tuple[ClientStream, str], Extension] = {}
        self._listed_by_private: dict[Extension, Extension] = {}
        self._closing: set[asyncio.Task[None]] = set()
        # By client, set from outside: its session in the `mcp` package, and what it has declared.
        self.sessions: dict[ClientStream, ServerSession] = {}
        self.capabilities: dict[ClientStream, Mapping[str, Any]] = {}

    def is_shared(self, extension: Extension) -> bool:
        """Return whether clients share the processes of this extension."""
        spec = extension.spec
        if spec.share is not None:
            return spec.share
        if not is_mcp_server(extension):
            return True
        known = spec.known_offer  # what is remembered from earlier runs
        sends_requests = extension.id in self._requesting_servers or (
            known is not None and known.asks_client
        )
        return not sends_requests and not keeps_state(spec)

    def choose(self, listed: Extension) -> Extension:
        """Return the extension that the current client uses in place of the listed one: the listed
        one itself, or a private one."""
        stream = CURRENT_STREAM.get()
        if stream is None or self.is_shared(listed):
            return listed
        if self._owners.setdefault(listed.id, stream) is stream:
            return listed
        private = self._private.get((stream, listed.id))
        if private is not None and self._listed_by_private[private].spec == listed.spec:
            return private
        if private is not None:  # the config has changed
            self._end(self._private.pop((stream, listed.id)))
        private = self._add(listed, stream)
        self._private[stream, listed.id] = private
        return private

    def _add(self, listed: Extension, stream: ClientStream) -> Extension:
        """Return a new private extension for this client."""
        bus = Bus()
        bus.subscribe(_FORWARDED, self._host.events.publish)
        bus.subscribe(Noticed, partial(self._on_notice, stream))
        handlers = {}
        if is_mcp_server(listed):
            for method in declared_handlers(self.capabilities.get(stream, {})):
                handlers[method] = partial(self._ask, stream, listed.id, method)
        private = self._extensions.add(listed, bus, handlers)
        self._listed_by_private[private] = listed
        return private

    async def _ask(self, stream: ClientStream, extension: str, method: str, params: Any) -> Any:
        """Pass a request of a private process on to its client."""
        exchange = self._exchanges.choose(extension, method, params, stream)
        if exchange is not None:
            return await exchange.ask(method, params)
        session = self.sessions.get(stream)
        if session is None or not can_answer(session, method, params):
            raise no_client_error(extension, method)
        return await ask_client(session, method, params, None)

    def note_request(self, extension: str) -> None:
        """Note that the listed process of a server has sent a request to its client: from now on it
        is not shared. If only one client has calls in progress there, that client keeps it."""
        listed = next((ext for ext in self._host.extensions if ext.id == extension), None)
        if listed is None or not self.is_shared(listed) or listed.spec.share:
            return
        self._requesting_servers.add(extension)
        streams = {exchange.stream for exchange in self._exchanges.list_for(extension)}
        if len(streams) == 1 and (stream := streams.pop()) is not None:
            self._owners.setdefault(extension, stream)
        self._extensions.record_request(listed)
        _log.info("%s sends requests to its client, so each client gets a process", extension)

    def owner_session(self, extension: str) -> ServerSession | None:
        """Return the session of the client that uses the listed process of a server alone."""
        owner = self._owners.get(extension)
        return None if owner is None else self.sessions.get(owner)

    async def end_client(self, stream: ClientStream) -> None:
        """End the processes of a client that has disconnected."""
        self.sessions.pop(stream, None)
        self.capabilities.pop(stream, None)
        keys = [key for key in self._private if key[0] is stream]
        ending = [self._close(self._private.pop(key)) for key in keys]
        for id in [id for id, owner in self._owners.items() if owner is stream]:
            del self._owners[id]
            listed = next((ext for ext in self._host.extensions if ext.id == id), None)
            # In these states an extension has not been started, so it has no state of the client.
            if listed is not None and listed.state not in ("discovered", "admitted", "refused"):
                ending.append(self._renew(listed))
        await asyncio.gather(*ending)

    def _end(self, private: Extension) -> None:
        task = asyncio.get_running_loop().create_task(self._close(private))
        self._closing.add(task)  # the loop has only a weak reference to a task
        task.add_done_callback(self._closing.discard)

    async def _close(self, private: Extension) -> None:
        del self._listed_by_private[private]
        await self._extensions.remove(private)

    async def _renew(self, listed: Extension) -> None:
        """End the processes of a listed extension. The next client gets a new process."""
        try:
            await self._extensions.renew(listed)
        except ExthostError as error:
            _log.warning("%s", error)


def keeps_state(spec: Spec) -> bool:
    """Return whether the command of an extension is that of a server that is known to keep state
    for its client."""
    names = _stateful_names()
    for word in spec.argv:
        # The name of a program, or a package such as "@playwright/mcp@1.2" or "browser-use==0.9".
        name = word.rpartition("/")[2] if word.startswith(("/", ".")) else word
        npm_name = name[:1] + name[1:].partition("@")[0]
        python_name = name.partition("==")[0]
        if not names.isdisjoint((name, npm_name, python_name)):
            return True
    return False


@cache
def _stateful_names() -> frozenset[str]:
    text = resources.files(__package__).joinpath("stateful_servers.toml").read_text("utf-8")
    return frozenset(name for table in tomllib.loads(text).values() for name in table["names"])
