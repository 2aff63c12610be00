"""The MCP clients that have joined a host through relays (`faces.relay`), and how long the host
runs for them.

Every host of the command line accepts clients. The `mcp` package is imported when the first client
comes, in a thread, because the import takes longer than the start of the host.

A host that was started for its clients (`ends_when_unused`) ends when the last client has been gone
for the time of `[gateway] linger`. It reads its config again when a client comes after a change. If
replies of an earlier host of this config are stored, it answers the first requests of a client with
them and imports the package later; otherwise it imports the package at its start.

It does not know how MCP is served; `faces.gateway` does.
"""

import asyncio
import hashlib
import importlib
import importlib.util
import os
import secrets
import socket
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exthost.errors import ConfigError
from exthost.faces.cli.optional_import import import_optional
from exthost.faces.gateway.first_replies import FirstReplies, ReplyStore
from exthost.faces.gateway.relay_connection import RelayConnection
from exthost.host.control.peer_credentials import peer_pid
from exthost.host.control.server import ControlServer
from exthost.host.control.socket_path import config_key
from exthost.host.host import Host
from exthost.model.spec import HostEnvRef, Spec
from exthost.process.state_dirs import replies_file

if TYPE_CHECKING:
    from exthost.faces.gateway.server import Gateway

# A host that was started for a client which has ended before it joined lives this long.
FIRST_CLIENT_SECONDS = 30.0

# How long the replies that were computed at the end of the host may take to be written.
FLUSH_SECONDS = 2.0

# How long the import of the package is delayed for a client that can be answered without it. An
# import at the same time would delay the first replies.
IMPORT_DELAY_SECONDS = 2.0

MakeGateway = Callable[[], "Gateway"]


class ClientService:
    """The clients of one host.

    make_gateway  returns the gateway of the host, after its modules were imported; the gateway is
                  open
    say           prints a message of the host
    reload        reads the config again
    opening       returns the task that opens the host
    list_http_clients  returns name and version of each client with a session on HTTP
    ends_when_unused   whether the host was started for its clients, and ends after the last one
    """

    def __init__(
        self,
        host: Host,
        path: str,
        *,
        make_gateway: MakeGateway,
        say: Callable[[str], None],
        reload: Callable[[], Coroutine[Any, Any, None]],
        opening: "Callable[[], asyncio.Task[Any] | None]",
        list_http_clients: Callable[[], list[Mapping[str, Any]]],
        ends_when_unused: bool,
    ) -> None:
        self._host = host
        self._path = path
        self._make_gateway = make_gateway
        self._say = say
        self._reload = reload
        self._opening = opening
        self._list_http_clients = list_http_clients
        self._ends_when_unused = ends_when_unused
        self._replies = ReplyStore(replies_file(os.environ, config_key(path)))
        self._control: ControlServer | None = None
        self._is_installed = importlib.util.find_spec("mcp") is not None
        self._clients: dict[RelayConnection, asyncio.Task[None]] = {}
        self._loading: asyncio.Task[Gateway] | None = None  # imports the `mcp` package
        self._reloading: asyncio.Task[None] | None = None  # reads the config again
        self._config_state = _file_state(path)  # of the config that the host has read
        self._timer: asyncio.TimerHandle | None = None  # ends the host
        self._is_package_needed = asyncio.Event()  # set when the import must not wait any longer
        self._is_over = asyncio.Event()

    # -- life --------------------------------------------------------------------------------

    def open(self, control: ControlServer) -> None:
        """Accept clients at this control socket."""
        self._control = control
        control.requests.accept_client = self.accept
        control.requests.list_clients = self.list_clients
        control.requests.on_detached = self._start_timer_if_unused
        if self._is_installed:
            self._replies.read()  # before the first client comes, which they may answer
        else:
            control.requests.client_objection = ConfigError(
                "X0165",
                "the gateway is not installed: mcp is missing",
                help="pip install 'exthost[gateway]'",
            )

    async def wait_until_unused(self) -> None:
        """Return when the last client has been gone for the time of `[gateway] linger`."""
        if self._is_installed and self._replies.is_empty:
            self._is_package_needed.set()
            self._load_gateway()
        self._start_timer(max(FIRST_CLIENT_SECONDS, self._host.config.gateway.linger))
        try:
            await self._is_over.wait()
        finally:
            self._cancel_timer()

    def finish(self) -> None:
        """Take no more requests of the clients. Those in progress are answered."""
        for client in self._clients:
            client.finish()

    async def close(self) -> None:
        """Disconnect every client."""
        self._cancel_timer()
        tasks = list(self._clients.values())
        if tasks:
            await asyncio.wait(tasks, timeout=FLUSH_SECONDS)
        others = [task for task in (self._loading, self._reloading) if task is not None]
        for task in (*tasks, *others):
            task.cancel()
        await asyncio.gather(*tasks, *others, return_exceptions=True)

    # -- clients -----------------------------------------------------------------------------

    def accept(
        self, connected: socket.socket, params: Mapping[str, Any], on_end: Callable[[], None]
    ) -> None:
        """Serve MCP to the relay at the other end of this socket."""
        pid = peer_pid(connected) or params.get("pid") or 0
        client = RelayConnection(connected, pid, plain_names=params.get("plain_names") is True)
        client.accept(self._greeting())
        self._cancel_timer()
        loop = asyncio.get_running_loop()
        task = self._clients[client] = loop.create_task(self._serve(client))

        def end(_: "asyncio.Task[None]") -> None:
            del self._clients[client]
            client.abort()
            on_end()
            self._start_timer_if_unused()
            if not task.cancelled() and (error := task.exception()) is not None:
                self._say(f"a client was disconnected: {error!r}")

        task.add_done_callback(end)

    async def _serve(self, client: RelayConnection) -> None:
        """Serve MCP to one client until it disconnects."""
        loading = self._load_gateway()
        if self._ends_when_unused:
            await self._answer_first(client, loading)
        gateway = await asyncio.shield(loading)
        stdio = importlib.import_module("exthost.faces.gateway.stdio")
        await stdio.serve_client(gateway.server, client)
        client.close()
        await client.wait_until_lost()

    async def _answer_first(
        self, client: RelayConnection, loading: "asyncio.Task[Gateway]"
    ) -> None:
        """Answer the first requests of a client from stored replies while the package is not
        imported, and store the replies to them."""
        first_replies = FirstReplies(
            self._replies, self._host, client.plain_names is True, self._is_package_needed.set
        )
        opening = self._opening()
        if opening is not None and not (self._replies.is_empty or loading.done()):
            # The offer of the host is known when it is open.
            await asyncio.wait([opening, loading], return_when="FIRST_COMPLETED")
            first_replies.may_answer = opening.done() and not loading.done()
        client.use_first_replies(first_replies)

    def _load_gateway(self) -> "asyncio.Task[Gateway]":
        """Return the task that imports the gateway and opens it, starting it at the first call."""
        if self._loading is None:
            self._loading = asyncio.get_running_loop().create_task(self._import_gateway())
        return self._loading

    async def _import_gateway(self) -> "Gateway":
        """Import the gateway in a thread, later if the client can be answered without it."""
        if self._ends_when_unused:
            with suppress(TimeoutError):
                async with asyncio.timeout(IMPORT_DELAY_SECONDS):
                    await self._is_package_needed.wait()
        await asyncio.to_thread(
            import_optional,
            "exthost.faces.gateway.stdio",
            code="X0165",
            feature="the gateway",
            extra="gateway",
        )
        return self._make_gateway()

    def list_clients(self) -> list[dict[str, Any]]:
        """Return the clients as data: name, version and pid of each. The pid of a client with a
        session on HTTP is None."""
        infos: list[tuple[Mapping[str, Any], int | None]] = [
            (client.client_info, client.pid) for client in self._clients
        ]
        infos += [(info, None) for info in self._list_http_clients()]
        return [
            {"name": _text(info.get("name")), "version": _text(info.get("version")), "pid": pid}
            for info, pid in infos
        ]

    # -- joining and reloading ---------------------------------------------------------------

    def _greeting(self) -> bytes:
        """Return the line that accepts a relay: whether the config has changed, and digests of the
        variables that the config refers to. The relay compares them with its own variables (see
        `faces.relay.host_link`)."""
        is_stale = _file_state(self._path) != self._config_state
        if is_stale and self._ends_when_unused and self._reloading is None:
            is_stale = False  # because it is reloaded now
            self._reloading = asyncio.get_running_loop().create_task(self._reload_config())
        salt = secrets.token_hex(16).encode()
        fields = [b"joined", b"1" if is_stale else b"0", salt]
        for name in sorted(referenced_variables(ext.spec for ext in self._host.extensions)):
            value = os.environ.get(name)
            digest = "-"
            if value is not None:
                secret = salt + b"\0" + os.fsencode(name) + b"\0" + os.fsencode(value)
                digest = hashlib.sha256(secret).hexdigest()
            fields.append(f"{os.fsencode(name).hex()}={digest}".encode())
        return b"\t".join(fields) + b"\n"

    async def _reload_config(self) -> None:
        state = _file_state(self._path)  # before the reload, which may miss a later change
        try:
            await self._reload()
        finally:
            self._config_state = state
            self._reloading = None

    def note_reload(self) -> None:
        """Note that the host has just read its config."""
        self._config_state = _file_state(self._path)

    # -- the end -----------------------------------------------------------------------------

    def _start_timer(self, seconds: float) -> None:
        self._cancel_timer()
        if seconds != float("inf"):
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(seconds, self._end_if_unused)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def _is_used(self) -> bool:
        """Whether a client or an attached program uses the host. A program is attached if it stays
        connected to the control socket while it sends no request."""
        is_attached = self._control is not None and self._control.has_attached_program
        return bool(self._clients) or is_attached

    def _start_timer_if_unused(self) -> None:
        """Start the time after which the host ends, if it has no client any more."""
        if self._ends_when_unused and not self._is_used:
            self._start_timer(self._host.config.gateway.linger)

    def _end_if_unused(self) -> None:
        if not self._is_used:
            if self._control is not None:  # from now on no client can join: it starts another host
                self._control.requests.ending = True
            self._is_over.set()


def referenced_variables(specs: Iterable[Spec]) -> set[str]:
    """Return the names of the host's variables that these extensions refer to."""
    names: set[str] = set()
    for spec in specs:
        names.update(value for value in spec.env.values() if isinstance(value, HostEnvRef))
        names.update(spec.requires.env)
        for setting in spec.settings:
            names.update(setting.variables)
    return {str(name) for name in names}


def _file_state(path: str) -> tuple[int, int, int] | None:
    """Return values that differ after the file was written."""
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _text(value: Any) -> str:
    """Return a text that a client has sent about itself, cut if it is long; "" if it is not a
    text."""
    return value[:200] if isinstance(value, str) else ""
