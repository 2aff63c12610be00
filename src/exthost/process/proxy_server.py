"""The proxy of one sandboxed process: the program that connects it to the hosts of its
`permissions.network`, and to no other.

The sandboxed process has its own network, which contains only a listening socket. "Our init", the
program of the host that starts in the sandbox first (`launch/sandbox/init.c`), opens that socket,
and sends it here over a Unix socket before the program is executed. This process accepts its
connections, reads what the client wants (HTTP CONNECT, plain HTTP or SOCKS5), and connects from
outside the sandbox. It resolves a name once, checks each address, and connects to an address that
it has checked.

    main(CHANNEL, POLICY, SPLICER)   CHANNEL is the descriptor of the Unix socket, POLICY that of a
                                     file with the rules as JSON (see `network_proxy`), SPLICER that
                                     of the socket to the splicer, or -1

The process ends when its stdin is closed, which happens if the host dies. It reports connections on
stdout, a line of JSON each time: `{"reached": {TARGET: COUNT}, "refused": [[TARGET, REASON, FIX,
COUNT]]}`. It runs in an isolated interpreter, with the parts of the package that it needs.

One thread serves all connections with `epoll`; asyncio would take longer to import than everything
else here. Only names are resolved in other threads, and large transfers are moved by another
process (`splicer`).

If the host itself reaches the internet only through an HTTP proxy (the variables `https_proxy` and
`http_proxy`), this process connects through that proxy, which is called the upstream proxy here.
"""

import array
import errno
import ipaddress
import json
import os
import queue
import resource
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, NamedTuple, TypeAlias

from exthost.model import network_rules
from exthost.model.network_rules import Address, BadHost, Host, NetworkRules, UpstreamProxy
from exthost.process.splicer import SpliceOutcome, Splicer
from exthost.wire import proxy_requests
from exthost.wire.proxy_requests import BadRequest, HttpRequest

# How many connections there are at a time. More wait in the queue of the listening socket.
MAX_CONNECTIONS = 1000
_DESCRIPTORS_PER_CONNECTION = 2
_OWN_DESCRIPTORS = 64

# How long a client may take to send its request, and how long each address may take to answer.
HEAD_SECONDS = 10.0
CONNECT_SECONDS = 10.0
# How long a name may take to resolve. Resolvers give up earlier, by their own settings.
_RESOLVE_SECONDS = 30.0
_RESOLVER_THREADS = 8

# How many bytes are copied at a time.
_COPY_BYTES = 64 * 1024
# After how many bytes one direction of a connection is handed over to the splicer. Most connections
# transfer less.
LARGE_TRANSFER_BYTES = 256 * 1024

# The send buffer of the connection to the client, which is on this machine. With more data on the
# way, the data would leave the cache of the processor before the client reads it.
_CLIENT_BUFFER_BYTES = 256 * 1024

# When the proxy asks a server that sends nothing whether it still exists, and how often.
_KEEPALIVE_SECONDS = 60
_KEEPALIVE_PROBES = 5

# How long a client may go on sending after the server has ended the connection.
_DROP_SECONDS = 2.0

# How often the deadlines of connections are compared with the clock.
_EXPIRE_SECONDS = 0.25

# How often connections are reported, and how many different targets a report has. The other targets
# of a report are counted together, under this name.
_REPORT_SECONDS = 0.05
_MAX_TARGETS = 200
OTHER_TARGETS = "(others)"


class _Wait(NamedTuple):
    """What the generator of a connection waits for when it yields.

    fd       a descriptor; -1 to wait for the resolver
    event    select.EPOLLIN or select.EPOLLOUT, the readiness of the descriptor; 0 for the resolver
    seconds  how long to wait at most
    """

    fd: int
    event: int
    seconds: float


# The steps of a connection: a generator that yields what it waits for, and gets the result.
_Steps: TypeAlias = Generator[_Wait, Any, None]


class _Refusal(Exception):
    """A connection that the rules do not allow. `fix` is the entry that would allow it."""

    def __init__(self, target: str, reason: str, fix: str = "") -> None:
        super().__init__(reason)
        self.target, self.reason, self.fix = target, reason, fix


class _Failure(Exception):
    """An allowed connection that could not be made. `status` is the HTTP status for the client."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


class ReadinessLoop:
    """Calls functions when descriptors are ready."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._readers: dict[int, Callable[[], None]] = {}
        self._writers: dict[int, Callable[[], None]] = {}
        self._added: set[int] = set()  # since the last wait

    def close(self) -> None:
        self._epoll.close()

    def set_reader(self, fd: int, reader: Callable[[], None] | None) -> None:
        self._change(fd, self._readers, reader)

    def set_writer(self, fd: int, writer: Callable[[], None] | None) -> None:
        self._change(fd, self._writers, writer)

    def _change(
        self,
        fd: int,
        callbacks: dict[int, Callable[[], None]],
        callback: Callable[[], None] | None,
    ) -> None:
        """Set or remove a callback, and update what epoll waits for."""
        if callback is None and fd not in callbacks:
            return
        before = self._mask(fd)
        if callback is None:
            del callbacks[fd]
        else:
            callbacks[fd] = callback
        after = self._mask(fd)
        if after == before:
            return
        if not before:
            self._epoll.register(fd, after)
            self._added.add(fd)
        elif after:
            self._epoll.modify(fd, after)
        else:
            self._epoll.unregister(fd)

    def _mask(self, fd: int) -> int:
        return (select.EPOLLIN if fd in self._readers else 0) | (
            select.EPOLLOUT if fd in self._writers else 0
        )

    def run_once(self, seconds: float | None) -> None:
        """Wait for a descriptor, and call the functions of those that are ready."""
        self._added.clear()
        for fd, events in self._epoll.poll(seconds):
            # A function that was just called may have closed this descriptor, and opened a socket
            # that got the same number. The event is not one of that socket.
            if fd in self._added:
                continue
            if events & ~select.EPOLLOUT and (reader := self._readers.get(fd)) is not None:
                reader()
            if events & ~select.EPOLLIN and (writer := self._writers.get(fd)) is not None:
                writer()


def look_up(name: str, port: int) -> Any:
    """Return what `getaddrinfo` returns for a name."""
    return socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)


class _LookUp(NamedTuple):
    """A name to resolve. `callback` gets the result of `look_up`, or the error."""

    name: str
    port: int
    callback: Callable[[Any], None]


class Resolver:
    """Resolves names in other threads, because `getaddrinfo` blocks. The callbacks are called in
    the thread of the loop."""

    def __init__(self, loop: ReadinessLoop) -> None:
        self._wanted = queue.SimpleQueue[_LookUp | None]()  # None ends a thread
        self._done = deque[tuple[_LookUp, Any]]()  # each with its result
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)  # written after each result
        self._threads = 0
        self._idle = 0  # the threads without work, less the names that no thread has taken yet
        loop.set_reader(self._wake, self._deliver)

    def close(self) -> None:
        for _ in range(self._threads):
            self._wanted.put(None)
        os.close(self._wake)

    def resolve(self, name: str, port: int, callback: Callable[[Any], None]) -> None:
        """Resolve a name. `callback` gets the result of `socket.getaddrinfo`, or the error."""
        if self._idle <= 0 and self._threads < _RESOLVER_THREADS:
            self._threads += 1
            self._idle += 1
            threading.Thread(target=self._work, daemon=True).start()
        self._idle -= 1
        self._wanted.put(_LookUp(name, port, callback))

    def _work(self) -> None:
        """Resolve names. Runs in each of the other threads."""
        while (wanted := self._wanted.get()) is not None:
            result: Any
            try:
                result = look_up(wanted.name, wanted.port)
            except (OSError, UnicodeError) as error:
                result = error
            self._done.append((wanted, result))
            os.eventfd_write(self._wake, 1)

    def _deliver(self) -> None:
        """Call the callbacks of the names that are resolved."""
        try:
            os.eventfd_read(self._wake)
        except BlockingIOError:
            return
        while self._done:
            resolved, result = self._done.popleft()
            self._idle += 1
            resolved.callback(result)


class Direction:
    """Moves the bytes of one direction of a connection.

    pending    bytes of the source that were read already
    remaining  how many bytes the target gets at most; None for all. Later bytes are read and
               dropped
    on_end     is called when the direction has ended: with True after the end of the source, with
               False after an error
    on_drop    None, or for an upload: its target may reply and close the connection before it has
               read everything. What the source sends then is read and dropped, because the source
               would lose the reply if the proxy closed the connection with unread data. `on_drop`
               is called before that, to limit its time
    """

    __slots__ = (
        "_copied",
        "_loop",
        "_may_splice",
        "_number",
        "_on_drop",
        "_on_end",
        "_pending",
        "_remaining",
        "_source",
        "_splicer",
        "_target",
        "_target_has_ended",
        "is_open",
    )

    def __init__(
        self,
        loop: ReadinessLoop,
        splicer: Splicer,
        source: socket.socket,
        target: socket.socket,
        pending: bytes,
        remaining: int | None,
        on_end: Callable[[bool], None],
        *,
        on_drop: Callable[[], None] | None = None,
    ) -> None:
        self._loop, self._splicer = loop, splicer
        self._on_drop = on_drop
        self._source, self._target = source, target
        self._pending = memoryview(pending)
        self._remaining = remaining
        self._on_end = on_end
        self._copied = 0
        self._may_splice = remaining is None
        self._number = 0  # what `Splicer.take` returned, while the splicer moves the bytes
        self._target_has_ended = False
        self.is_open = True

    def start(self) -> None:
        if self._pending:
            self._pending = self._pending[: self._take(len(self._pending))]
        self._flush()

    def _take(self, count: int) -> int:
        """Return how many of these bytes the target gets."""
        if self._remaining is None:
            return count
        count = min(count, self._remaining)
        self._remaining -= count
        return count

    def _read(self) -> None:
        """Read from the source once, and pass the bytes on."""
        try:
            data = self._source.recv(_COPY_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._on_end(False)
            return
        if not data:
            self.finish()
            return
        self._copied += len(data)
        self._pending = memoryview(data)[: self._take(len(data))]
        self._flush()

    def _flush(self) -> None:
        """Write what was read. Read on if that is all, otherwise wait until the target has room."""
        try:
            while self._pending:
                self._pending = self._pending[self._target.send(self._pending) :]
        except (BlockingIOError, InterruptedError):
            self._loop.set_reader(self._source.fileno(), None)
            self._loop.set_writer(self._target.fileno(), self._flush)
            return
        except OSError:
            if self._on_drop is not None:
                self.drop_rest()
            else:
                self._on_end(False)
            return
        self._loop.set_writer(self._target.fileno(), None)
        if self._copied < LARGE_TRANSFER_BYTES or not self._hand_over():
            self._loop.set_reader(self._source.fileno(), self._read)

    def _hand_over(self) -> bool:
        """Let the splicer move what follows. Return False if it cannot."""
        if not self._may_splice:
            return False
        source, target = self._source.fileno(), self._target.fileno()
        self._number = self._splicer.take(source, target, self._on_spliced)
        if self._number:
            self._loop.set_reader(source, None)
        return bool(self._number)

    def _on_spliced(self, outcome: SpliceOutcome) -> None:
        """Handle the answer of the splicer."""
        self._number = 0
        if outcome == SpliceOutcome.ENDED:
            self.finish()
        elif outcome == SpliceOutcome.FAILED and self._on_drop and _was_reset(self._target):
            self.drop_rest()
        elif outcome == SpliceOutcome.FAILED:
            self._on_end(False)
        else:
            self._may_splice = False
            self._loop.set_reader(self._source.fileno(), self._read)

    @property
    def is_interrupted(self) -> bool:
        """Whether the target has ended before it had what the source has sent."""
        if self._target_has_ended or self._pending:
            return True
        try:
            return bool(self._source.recv(1, socket.MSG_PEEK))
        except OSError:  # there is nothing to read, or the source has ended
            return False

    def drop_rest(self) -> None:
        """Read on until the end of the source, and drop the bytes."""
        assert self._on_drop is not None
        self._on_drop()
        self._target_has_ended = True
        self._pending, self._remaining, self._may_splice = memoryview(b""), 0, False
        if not self._number:  # otherwise the splicer notices, and answers
            self._loop.set_writer(self._target.fileno(), None)
            self._loop.set_reader(self._source.fileno(), self._read)

    def finish(self) -> None:
        """Pass the end of the source on to the target."""
        self.is_open = False
        self._loop.set_reader(self._source.fileno(), None)
        try:
            self._target.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        self._on_end(True)

    def close(self) -> None:
        """Stop moving bytes. The splicer has copies of the sockets, so they are shut down."""
        if self._number:
            self._splicer.forget(self._number)
            self._number = 0
            for end in (self._source, self._target):
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass  # it has ended


class ProxyConnection:
    """One connection of the client.

    First, the generator `_serve` reads the request and connects to the target. Whenever it yields,
    `resume` lets the server do other work until what it waits for is there. Then two `Direction`s
    relay the bytes.
    """

    def __init__(self, server: "ProxyServer", client: socket.socket) -> None:
        self._server = server
        self._loop = server.loop
        self._client = client
        self._upstream: socket.socket | None = None
        self._directions: tuple[Direction, ...] = ()
        # What is relayed to the target once the steps are done: the bytes that were read already,
        # and how many bytes there are at most.
        self._body: tuple[bytes, int | None] | None = None
        self._early = b""  # what the target sent directly after the reply of the upstream proxy
        self._is_socks = False
        self._waits_for = -1  # a descriptor
        self._resolutions = 0  # a counter, by which a late result of the resolver is recognised
        self._steps: _Steps | None = self._serve()
        self._has_limited_drop = False
        self.has_request = False
        self.deadline = 0.0
        self.is_closed = False

    def resume(self, value: Any = None) -> None:
        """Go on until the next wait. `value` is what was waited for: True if a descriptor is ready,
        False if the time is up, or the result of the resolver."""
        if self.is_closed or self._steps is None:
            return
        if self._waits_for >= 0:
            self._loop.set_reader(self._waits_for, None)
            self._loop.set_writer(self._waits_for, None)
            self._waits_for = -1
        try:
            fd, event, seconds = self._steps.send(value)
        except StopIteration:
            self._steps = None
            self._server.stop_waiting(self)
            if self._body is None:
                self.close()
            else:
                self._relay(*self._body)
            return
        except OSError:
            self.close()
            return
        self.deadline = time.monotonic() + seconds
        if fd >= 0:
            self._waits_for = fd
            change = self._loop.set_reader if event == select.EPOLLIN else self._loop.set_writer
            change(fd, self._on_ready)

    def _on_ready(self) -> None:
        self.resume(True)

    def expire(self) -> None:
        """Handle that the deadline is over."""
        if self._steps is None:
            self.close()
        else:
            self.resume(False)

    def close(self) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        if self._steps is not None:
            self._steps.close()
        for direction in self._directions:
            direction.close()
        for end in (self._client, self._upstream):
            if end is not None:
                self._loop.set_reader(end.fileno(), None)
                self._loop.set_writer(end.fileno(), None)
                end.close()
        self._server.forget(self)

    # The steps of a connection. Each `yield` waits for a descriptor, or for the resolver.

    def _serve(self) -> _Steps:
        """Connect the client, or send it the reason why that is not possible."""
        try:
            yield from self._connect_client()
        except BadRequest as error:
            yield from self._reply(f"400 {error}", error.reply)
        except _Refusal as refusal:
            self._server.report_refused(refusal)
            hint = f'; add "{refusal.fix}" to permissions.network' if refusal.fix else ""
            text = f"403 exthost refused {refusal.target}: {refusal.reason}{hint}"
            yield from self._reply(text, proxy_requests.SOCKS_FORBIDDEN)
        except _Failure as failure:
            yield from self._reply(
                f"{failure.status} {failure.reason}", proxy_requests.SOCKS_UNREACHABLE
            )

    def _connect_client(self) -> Generator[_Wait, Any, None]:
        """Read the request, check it by the rules, and connect to its target."""
        deadline = time.monotonic() + HEAD_SECONDS
        data = yield from self._receive(self._client, b"", deadline)
        request: HttpRequest | None = None
        if data[:1] == bytes((proxy_requests.SOCKS_VERSION,)):
            self._is_socks = True
            host, port, rest = yield from self._read_socks(data, deadline)
        else:
            while (request := proxy_requests.parse_http(data)) is None:
                data = yield from self._receive(self._client, data, deadline)
            host, port = _split_authority(request)
            rest = request.rest
        self.has_request = True
        target = network_rules.format_target(host, port)
        rules = self._server.rules
        if rules.find_entry(host, port) is None:
            raise _Refusal(target, "it is not in permissions.network", target)
        is_plain = request is not None and not request.is_tunnel
        if request is not None:
            for name, value in self._server.headers.get((str(host), port), ()):
                request = request.with_header(name, value)
        proxy = self._server.upstream_proxy(host, port, is_plain)
        # `rest` are bytes that the client sent after its request: they are relayed to the target.
        if proxy is not None:
            addresses = yield from self._resolve(proxy.host, proxy.port)
            self._upstream = yield from self._connect(addresses, proxy.port, "the HTTP proxy")
            rest = yield from self._ask_proxy(proxy, target, request, rest)
        else:
            addresses = yield from self._resolve(host, port)
            allowed = [item for item in addresses if rules.allows_address(host, item, port)]
            if not allowed:
                shown = network_rules.format_target(addresses[0], port)
                reason = f"it resolves to {addresses[0]}, which is not a public address"
                raise _Refusal(target, reason, shown)
            self._upstream = yield from self._connect(allowed, port, target)
            self._refuse_this_machine(host, port, target)
            if is_plain:
                assert request is not None
                yield from self._send(self._upstream, request.origin_head())
        self._server.report_reached(target)
        if self._is_socks:
            self._client.send(proxy_requests.socks_reply(proxy_requests.SOCKS_DONE))
        elif not is_plain:
            self._client.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
        remaining = request.body_bytes if is_plain and request is not None else None
        self._body = rest, remaining

    def _relay(self, rest: bytes, remaining: int | None) -> None:
        """Relay bytes between the client and the target, which are connected now."""
        assert self._upstream is not None
        client, upstream, splicer = self._client, self._upstream, self._server.splicer
        self._directions = (
            Direction(
                *(self._loop, splicer, client, upstream, rest, remaining, self._on_end),
                on_drop=self._limit_drop,
            ),
            Direction(self._loop, splicer, upstream, client, self._early, None, self._on_reply_end),
        )
        for direction in self._directions:
            if not self.is_closed:
                direction.start()

    def _limit_drop(self) -> None:
        """Close the connection soon: the server has ended it, and the client still sends."""
        if not self._has_limited_drop:
            self._has_limited_drop = True
            self.deadline = time.monotonic() + _DROP_SECONDS
            self._server.wait_again(self)

    def _on_end(self, ended_well: bool) -> None:
        """Close the connection after an error, or when both directions have ended."""
        # The target of a plain HTTP request ends its direction after the reply, as it is asked to.
        if not ended_well or not any(direction.is_open for direction in self._directions):
            self.close()

    def _on_reply_end(self, ended_well: bool) -> None:
        """Close the connection as `_on_end` does. If the server has reset it while the client still
        sends, the reply that came before must reach the client."""
        upload, reply = self._directions
        if ended_well or not reply.is_open or not upload.is_interrupted:
            self._on_end(ended_well)
            return
        upload.drop_rest()
        reply.finish()

    def _read_socks(
        self, data: bytes, deadline: float
    ) -> Generator[_Wait, Any, tuple[Host, int, bytes]]:
        """Return the host and port of a SOCKS request, and the bytes after it."""
        while (greeting := proxy_requests.parse_socks_greeting(data)) is None:
            data = yield from self._receive(self._client, data, deadline)
        accepts, data = greeting
        if not accepts:
            self._client.send(proxy_requests.SOCKS_NO_METHOD)
            raise ConnectionError("the client insists on authentication")
        self._client.send(proxy_requests.SOCKS_NO_AUTHENTICATION)
        while (request := proxy_requests.parse_socks(data)) is None:
            data = yield from self._receive(self._client, data, deadline)
        try:
            port = network_rules.parse_port(str(request.port))  # not 0, which no entry can name
            return network_rules.parse_host(request.host), port, request.rest
        except BadHost as error:
            raise BadRequest(str(error)) from None

    def _ask_proxy(
        self, proxy: UpstreamProxy, target: str, request: HttpRequest | None, rest: bytes
    ) -> Generator[_Wait, Any, bytes]:
        """Send the request to the upstream proxy. Return the bytes of the client that follow."""
        assert self._upstream is not None
        if request is not None and not request.is_tunnel:
            if request.body_bytes is None:
                # Its end would not be known, and what follows could be a request for another host.
                raise _Failure("411", "a request through the HTTP proxy needs a Content-Length")
            yield from self._send(self._upstream, request.proxy_head(proxy.authorization))
            return rest
        lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
        if proxy.authorization:
            lines.append(f"Proxy-Authorization: {proxy.authorization}")
        yield from self._send(self._upstream, ("\r\n".join(lines) + "\r\n\r\n").encode())
        data, deadline = b"", time.monotonic() + _RESOLVE_SECONDS
        try:
            while (status := proxy_requests.parse_status(data)) is None:
                data = yield from self._receive(self._upstream, data, deadline)
        except BadRequest as error:
            raise _Failure("502", f"the HTTP proxy: {error}") from None
        if status[0] // 100 != 2:
            raise _Failure("502", f"the HTTP proxy refused {target} with status {status[0]}")
        self._early = status[1]  # some servers speak first
        return rest

    def _receive(
        self, source: socket.socket, data: bytes, deadline: float
    ) -> Generator[_Wait, Any, bytes]:
        """Return `data` with the next bytes. Raises ConnectionError at the end of the source, or if
        nothing comes in time."""
        while True:
            try:
                more = source.recv(_COPY_BYTES)
            except BlockingIOError:
                pass
            else:
                if not more:
                    raise ConnectionError("it was closed")
                return data + more
            if not (yield _Wait(source.fileno(), select.EPOLLIN, deadline - time.monotonic())):
                raise ConnectionError("nothing came in time")

    def _send(self, target: socket.socket, data: bytes) -> Generator[_Wait, Any, None]:
        while data:
            try:
                data = data[target.send(data) :]
            except BlockingIOError:
                if not (yield _Wait(target.fileno(), select.EPOLLOUT, CONNECT_SECONDS)):
                    raise ConnectionError("nothing was read in time") from None

    def _resolve(self, host: Host, port: int) -> Generator[_Wait, Any, list[Address]]:
        """Return the addresses of a host. Raises _Failure if it has none."""
        host = network_rules.parse_host(host) if isinstance(host, str) else host
        if not isinstance(host, str):
            return [host]
        if host == network_rules.LOCALHOST:
            return list(network_rules.LOCALHOST_ADDRESSES)
        self._resolutions += 1
        number = self._resolutions

        def resume(result: Any) -> None:
            if number == self._resolutions:  # otherwise it came too late
                self.resume(result)

        self._server.resolver.resolve(host, port, resume)
        result = yield _Wait(-1, 0, _RESOLVE_SECONDS)
        self._resolutions += 1
        if not isinstance(result, list) or not result:
            problem = result.strerror if isinstance(result, OSError) else "it took too long"
            raise _Failure("502", f"{host} could not be resolved: {problem}")
        addresses = (network_rules.parse_host(item[4][0].partition("%")[0]) for item in result)
        return [item for item in dict.fromkeys(addresses) if not isinstance(item, str)]

    def _connect(
        self, addresses: list[Address], port: int, target: str
    ) -> Generator[_Wait, Any, socket.socket]:
        """Return a socket that is connected to the first address that accepts."""
        problem = "there is no address"
        for address in addresses:
            family = socket.AF_INET if address.version == 4 else socket.AF_INET6
            try:
                upstream = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            except OSError as error:
                problem = str(error.strerror)
                continue
            self._upstream = upstream
            code = upstream.connect_ex((str(address), port))
            if code == errno.EINPROGRESS:
                is_ready = yield _Wait(upstream.fileno(), select.EPOLLOUT, CONNECT_SECONDS)
                code = (
                    upstream.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                    if is_ready
                    else errno.ETIMEDOUT
                )
            if not code:
                upstream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                # The client cannot notice a server that disappears: it asks only the proxy.
                upstream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                upstream.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_SECONDS)
                upstream.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEPALIVE_SECONDS)
                upstream.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _KEEPALIVE_PROBES)
                return upstream
            problem = os.strerror(code)
            self._upstream = None
            upstream.close()
        raise _Failure("502", f"{target} cannot be reached: {problem}")

    def _refuse_this_machine(self, host: Host, port: int, target: str) -> None:
        """Raise _Refusal if the connection leads to this machine by one of its own addresses, which
        can be public ones, and the list does not have that address."""
        assert self._upstream is not None
        peer = self._upstream.getpeername()[0]
        if self._upstream.getsockname()[0] != peer:
            return
        address = ipaddress.ip_address(peer.partition("%")[0])
        if not self._server.rules.has_address(host, address, port):
            reason = f"it resolves to {address}, which is an address of this machine"
            raise _Refusal(target, reason, network_rules.format_target(address, port))

    def _reply(self, status: str, socks_code: int) -> _Steps:
        """Send an error. The reason is in the first line, because most programs show only that."""
        if self._is_socks:
            yield from self._send(self._client, proxy_requests.socks_reply(socks_code))
        else:
            text = status.encode("ascii", "replace").replace(b"\r", b" ").replace(b"\n", b" ")
            body = text[4:] + b"\n"
            head = (
                b"HTTP/1.1 " + text + b"\r\nContent-Type: text/plain\r\n"
                b"Connection: close\r\nContent-Length: " + str(len(body)).encode() + b"\r\n\r\n"
            )
            yield from self._send(self._client, head + body)
        self._client.shutdown(socket.SHUT_WR)
        # Wait until the client closes its end. If this end were closed while it has unread data,
        # the kernel would discard the reply.
        deadline = time.monotonic() + HEAD_SECONDS
        while (seconds := deadline - time.monotonic()) > 0:
            yield _Wait(self._client.fileno(), select.EPOLLIN, seconds)
            if not self._client.recv(_COPY_BYTES):
                return


def _was_reset(end: socket.socket) -> bool:
    """Return whether the other end of a connection has reset it."""
    poll = select.poll()
    poll.register(end, 0)  # an error and the end of both directions are always reported
    return bool(poll.poll(0))


def _split_authority(request: HttpRequest) -> tuple[Host, int]:
    try:
        host, port = network_rules.split_port(request.authority)
        parsed = network_rules.parse_host(host)
        return parsed, network_rules.parse_port(port) if port else 80
    except BadHost as error:
        raise BadRequest(f"the host of the request: {error}") from None


def _read_upstream_proxy(policy: dict[str, Any], name: str) -> UpstreamProxy | None:
    return UpstreamProxy(*policy[name]) if policy.get(name) else None


class ProxyServer:
    """Accepts connections, and reports them."""

    def __init__(self, policy: dict[str, Any], channel: int, splicer: int = -1) -> None:
        self.rules = NetworkRules(policy["entries"])
        self._https_proxy = _read_upstream_proxy(policy, "https_proxy")
        self._http_proxy = _read_upstream_proxy(policy, "http_proxy")
        self._no_proxy = policy.get("no_proxy", "")
        # The headers that plain requests get, by host and port.
        self.headers: dict[tuple[str, int], list[tuple[str, str]]] = {}
        for host, port, name, value in policy.get("headers", ()):
            self.headers.setdefault((host, port), []).append((name, value))
        self.loop = ReadinessLoop()
        self.resolver = Resolver(self.loop)
        self.splicer = Splicer(self.loop, splicer)
        self._channel = socket.socket(fileno=channel)
        self._channel.setblocking(False)
        self._listener: socket.socket | None = None
        self._connections: set[ProxyConnection] = set()
        # Those that wait for their request, a name or a server, the oldest first.
        self._waiting: dict[ProxyConnection, None] = {}
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = MAX_CONNECTIONS * _DESCRIPTORS_PER_CONNECTION + _OWN_DESCRIPTORS
        files = max(soft, min(wanted, hard)) if hard != resource.RLIM_INFINITY else wanted
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
        self._max_connections = max(
            8, min(MAX_CONNECTIONS, (files - _OWN_DESCRIPTORS) // _DESCRIPTORS_PER_CONNECTION)
        )
        self._reached: dict[str, int] = {}
        self._refused: dict[tuple[str, str, str], int] = {}
        self._unsent = b""
        self._reported_at = self._expired_at = 0.0

    def upstream_proxy(self, host: Host, port: int, is_plain: bool) -> UpstreamProxy | None:
        """Return the upstream proxy for a host; None to connect directly. `is_plain` is whether the
        client sent a plain HTTP request, which needs no tunnel."""
        is_local = host == network_rules.LOCALHOST or (
            not isinstance(host, str) and not network_rules.is_public(host)
        )
        if is_local or network_rules.is_excluded(host, port, self._no_proxy):
            return None
        return self._http_proxy if is_plain else self._https_proxy

    def report_reached(self, target: str) -> None:
        has_room = target in self._reached or len(self._reached) < _MAX_TARGETS
        key = target if has_room else OTHER_TARGETS
        self._reached[key] = self._reached.get(key, 0) + 1

    def report_refused(self, refusal: _Refusal) -> None:
        key = refusal.target, refusal.reason, refusal.fix
        if key not in self._refused and len(self._refused) >= _MAX_TARGETS:
            key = OTHER_TARGETS, "", ""
        self._refused[key] = self._refused.get(key, 0) + 1

    def stop_waiting(self, connection: ProxyConnection) -> None:
        """Handle that a connection is relayed from now on, without a deadline."""
        self._waiting.pop(connection, None)

    def wait_again(self, connection: ProxyConnection) -> None:
        """Handle that a connection that is relayed has a deadline again."""
        self._waiting[connection] = None

    def forget(self, connection: ProxyConnection) -> None:
        """Remove a closed connection, and accept others: there is room now."""
        self._connections.discard(connection)
        self._waiting.pop(connection, None)
        if self._listener is not None:
            self.loop.set_reader(self._listener.fileno(), self._accept)

    def serve(self) -> None:
        """Serve until stdin is closed."""
        os.set_blocking(0, False)
        os.set_blocking(1, False)
        self.loop.set_reader(0, self._read_stdin)
        self.loop.set_reader(self._channel.fileno(), self._take_listener)
        while True:
            seconds = None
            if self._reached or self._refused or self._unsent:
                seconds = max(0.0, self._reported_at + _REPORT_SECONDS - time.monotonic())
            elif self._waiting:
                seconds = _EXPIRE_SECONDS
            self.loop.run_once(seconds)
            now = time.monotonic()
            if now >= self._expired_at + _EXPIRE_SECONDS:
                self._expired_at = now
                self._expire(now)
            if now >= self._reported_at + _REPORT_SECONDS:
                self._report(now)

    def close(self) -> None:
        """Close the descriptors of the server. Its process just ends instead."""
        self.resolver.close()
        self.splicer.close()
        self.loop.close()
        self._channel.close()
        if self._listener is not None:
            self._listener.close()

    def _read_stdin(self) -> None:
        """End the process at the end of stdin, after its last reports: the host has closed stdin,
        or has ended."""
        try:
            if os.read(0, 4096):
                return
        except BlockingIOError:
            return
        for _ in range(2):  # the rest of the last report, and what has happened since
            self._report(time.monotonic())
        os._exit(0)

    def _take_listener(self) -> None:
        """Receive the listening socket of the sandbox."""
        # The message stays in the socket, for the proxy that is started if this one is killed.
        descriptors = array.array("i", (-1,))
        space = socket.CMSG_SPACE(descriptors.itemsize)
        data, ancillary, _, _ = self._channel.recvmsg(1, space, socket.MSG_PEEK)
        self.loop.set_reader(self._channel.fileno(), None)
        if not data or not ancillary:
            return  # the sandbox could not be made
        descriptors.frombytes(ancillary[0][2][: descriptors.itemsize])
        self._listener = socket.socket(fileno=descriptors[-1])
        self._listener.setblocking(False)
        self.loop.set_reader(self._listener.fileno(), self._accept)
        try:
            os.write(1, b"\n")  # from now on there may be reports: the host waits for the last ones
        except OSError:  # the host has ended
            pass

    def _accept(self) -> None:
        """Accept one connection, if there is room."""
        assert self._listener is not None
        if len(self._connections) >= self._max_connections:
            # The oldest one that has sent no request makes room. If there is none, clients wait.
            silent = next((item for item in self._waiting if not item.has_request), None)
            if silent is None:
                self.loop.set_reader(self._listener.fileno(), None)
                return
            silent.close()
        try:
            client, _ = self._listener.accept()
        except OSError:
            return
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _CLIENT_BUFFER_BYTES)
        connection = ProxyConnection(self, client)
        self._connections.add(connection)
        self._waiting[connection] = None
        connection.resume()

    def _expire(self, now: float) -> None:
        """Resume the connections that have waited too long; what they wait for then fails."""
        for connection in [item for item in self._waiting if now >= item.deadline]:
            connection.expire()

    def _report(self, now: float) -> None:
        """Write what was reached and refused since the last report, as far as the pipe has room."""
        if not self._unsent and (self._reached or self._refused):
            refused = [[*key, count] for key, count in self._refused.items()]
            line = json.dumps({"reached": self._reached, "refused": refused}) + "\n"
            self._unsent = line.encode()
            self._reached, self._refused = {}, {}
        if not self._unsent:
            return
        self._reported_at = now
        try:
            self._unsent = self._unsent[os.write(1, self._unsent) :]
        except BlockingIOError:
            pass  # the host is busy
        except OSError:
            os._exit(0)


def main(channel: int, policy: int, splicer: int) -> None:
    """Run the proxy."""
    # A core file would contain the headers with secrets. With a limit of 0, the kernel would still
    # pass the memory to a program that collects core files.
    limit = 0 if resource.getrlimit(resource.RLIMIT_CORE)[1] == 0 else 1
    resource.setrlimit(resource.RLIMIT_CORE, (limit, limit))
    with os.fdopen(policy, "rb") as file:
        rules = json.load(file)
    ProxyServer(rules, channel, splicer).serve()
