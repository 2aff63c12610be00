"""The blocking client of the control socket, for the command line.

It works without asyncio, because a command that sends one request does not need an event loop. A
request such as `exthost status` is

    ask("exthost.toml", ControlRequest("status"), timeout=10.0)
"""

import contextlib
import os
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

from exthost.errors import CallTimeout, Evidence, ExtensionGone, ExthostError, NotFound
from exthost.host.control import protocol
from exthost.host.control.address import socket_paths
from exthost.host.control.host_lock import lock_holder
from exthost.host.control.peer_credentials import is_same_user, is_sandboxed, peer_pid
from exthost.host.control.protocol import REPLY_BYTES, ControlRequest
from exthost.host.control.socket_path import is_own_folder
from exthost.wire.framing import Broken, Skipped
from exthost.wire.lines import Lines

# The size of a read. With twice this size, memory would be requested from the system for each read,
# which takes longer than the read itself.
_READ_BYTES = 64 * 1024

# The time limit of `hello`. A host that is neither stopped nor hung answers it at once.
HELLO_SECONDS = 10.0

# The requests that a host answers at once. Others may take as long as an extension does.
_PROMPT_VERBS = ("hello", "status")


def ask(
    config: str, request: ControlRequest, *, timeout: float, environ: Mapping[str, str] = os.environ
) -> Any:
    """Send a request to the host of this config, and return the value of the reply. Raises the
    error in the reply, or NotFound if no host is running. `timeout` is in seconds."""
    deadline = time.monotonic() + timeout
    with HostClient(config, timeout=timeout, environ=environ) as client:
        if request.verb == "hello":
            return client.host
        # The host has answered, so send it the request even if the time is over: 0 would raise.
        return client.ask(request, timeout=max(0.001, deadline - time.monotonic()))


class HostClient:
    """One connection to the host of a config, for one request at a time.

    `host` is the host's reply to `hello`, with its pid. A connection exists only after that reply,
    so a request is sent only to a host that answers.
    """

    def __init__(
        self, config: str, *, timeout: float, environ: Mapping[str, str] = os.environ
    ) -> None:
        """Connect, and wait for the reply to `hello`. Raises NotFound if no host is running, and
        CallTimeout if the host does not reply within `timeout` or HELLO_SECONDS, whichever is
        shorter."""
        timeout = min(timeout, HELLO_SECONDS)
        try:
            self._socket = connect_to_host(config, environ, timeout)
        except TimeoutError:
            raise unresponsive_error(timeout, None) from None
        self._framing = Lines(REPLY_BYTES)
        self._lines: deque[bytes] = deque()
        try:
            self.host: dict[str, Any] = self.ask(ControlRequest("hello"), timeout=timeout)
        except BaseException:
            self._socket.close()
            raise

    @classmethod
    def resume(cls, fd: int, host: dict[str, Any], received: bytes) -> Self:
        """Return the client of a connection that `exthost call` has made before this module was
        imported, and on which a request was sent. `host` is the reply to `hello`, and `received`
        are the first bytes that the host has sent since."""
        client = cls.__new__(cls)
        client._socket = socket.socket(fileno=fd)
        client._framing = Lines(REPLY_BYTES)
        client._lines = deque()
        client.host = host
        client._add_lines(received)
        return client

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(
        self,
        request: ControlRequest,
        *,
        timeout: float | None = None,
        on_event: Callable[[Mapping[str, Any]], None] | None = None,
        confirm: Callable[[Mapping[str, Any]], bool] | None = None,
    ) -> Any:
        """Send a request, and return the value of the reply or raise the error in it. `on_event` is
        called with each event that comes before the reply. `confirm` answers the questions of the
        host, which it sends only if the request has the parameter `confirm`; it raises ExthostError
        if no person can be asked. `timeout` is in seconds; None waits until the host replies or
        ends."""
        line = protocol.encode_request(request)
        return self._exchange(line, request.verb, timeout, on_event, confirm)

    def receive_reply(
        self,
        *,
        on_event: Callable[[Mapping[str, Any]], None] | None = None,
        confirm: Callable[[Mapping[str, Any]], bool] | None = None,
    ) -> Any:
        """Return the value of the reply to a request that was sent before, or raise the error in
        the reply. The parameters are those of `ask`."""
        nothing_to_send = b""
        return self._exchange(nothing_to_send, "", None, on_event, confirm)

    def _exchange(
        self,
        request: bytes,
        verb: str,
        timeout: float | None,
        on_event: Callable[[Mapping[str, Any]], None] | None,
        confirm: Callable[[Mapping[str, Any]], bool] | None,
    ) -> Any:
        """Write `request`, and handle lines until the reply. Return its value or raise its
        error."""
        deadline = None if timeout is None else time.monotonic() + timeout
        # A host with too many clients sends an error and closes the connection before it reads a
        # request. The error can be read even though the request cannot be written.
        with self._translated_errors(verb, timeout), contextlib.suppress(BrokenPipeError):
            self._socket.sendall(request)
        while True:
            with self._translated_errors(verb, timeout):
                line = protocol.read_line(self._receive_line(deadline))
            if line.event is None:
                break
            # Errors of the callbacks are not translated, such as that of a stdout whose reader has
            # closed it.
            if line.event.get("kind") == "question":
                answer = protocol.encode_request(_answer(line.event, confirm))
                with self._translated_errors(verb, timeout):
                    self._socket.sendall(answer)
            elif on_event is not None:
                on_event(line.event)
        if line.error is not None:
            raise line.error
        return line.value

    @contextlib.contextmanager
    def _translated_errors(self, verb: str, timeout: float | None) -> Iterator[None]:
        """Translate the errors of the socket."""
        try:
            yield
        except TimeoutError:
            assert timeout is not None  # without a timeout, no TimeoutError is raised
            if verb in _PROMPT_VERBS:
                raise unresponsive_error(timeout, peer_pid(self._socket)) from None
            raise _timeout_error(timeout, self.host["pid"]) from None
        except OSError:
            raise host_gone_error() from None

    def _receive_line(self, deadline: float | None) -> bytes:
        """Return the next line. Raises TimeoutError at the deadline."""
        while not self._lines:
            # Not 0, which would make the socket non-blocking.
            seconds_left = None if deadline is None else max(0.001, deadline - time.monotonic())
            self._socket.settimeout(seconds_left)
            data = self._socket.recv(_READ_BYTES)
            if not data:
                raise host_gone_error()
            self._add_lines(data)
        return self._lines.popleft()

    def _add_lines(self, data: bytes) -> None:
        for item in self._framing.feed(data):
            # A line that is too long is not valid JSON: `read_line` raises the error.
            self._lines.append(item.head if isinstance(item, Skipped | Broken) else bytes(item))


def _answer(
    question: Mapping[str, Any], confirm: Callable[[Mapping[str, Any]], bool] | None
) -> ControlRequest:
    """Return the answer to a question of the host. Without `confirm` the answer is no."""
    answer = {"question": question.get("question"), "agreed": False}
    try:
        answer["agreed"] = confirm is not None and confirm(question) is True
    except ExthostError as error:
        answer["error"] = error.message
    return ControlRequest("answer", params=answer)


def _timeout_error(timeout: float, pid: int) -> CallTimeout:
    """Return the error for a host that has received a request and not completed it in time."""
    return CallTimeout(
        "X0875",
        f"the host, process {pid}, did not complete the request within {timeout:g} s",
        help="it continues with the request; see exthost status, or give a longer --timeout",
    )


def unresponsive_error(timeout: float, pid: int | None) -> CallTimeout:
    """Return the error for a host that does not answer a request which hosts answer at once."""
    help = "it may be stopped or hung, and has taken up nothing"
    if pid is not None:
        help += f": kill -CONT {pid} continues it, kill -KILL {pid} ends it and its extensions"
    who = "the host" if pid is None else f"the host, process {pid},"
    return CallTimeout("X0875", f"{who} did not answer within {timeout:g} s", help=help)


def connect_to_host(config: str, environ: Mapping[str, str], timeout: float) -> socket.socket:
    """Return a socket that is connected to the host of this config. Raises NotFound."""
    for path in socket_paths(config, environ):
        if not is_own_folder(path.parent):
            continue
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(timeout)
            connection.connect(str(path))
            # A sandboxed extension that may write to the folder could pretend to be the host.
            if is_same_user(connection) and not is_sandboxed(connection):
                return connection
        except TimeoutError:
            connection.close()
            raise
        except OSError:
            pass  # there is no socket, or it is left over from a host that crashed
        connection.close()
    raise _no_host_error(config)


class NoHost(NotFound):
    """No host of this config is running."""


class NoSocket(NotFound):
    """A host of this config is running, but its socket was not found."""


def _no_host_error(config: str) -> NotFound:
    """Return the error for a config without a socket that answers."""
    evidence = Evidence(path=os.path.realpath(config))
    pid = lock_holder(config)
    if pid is None:
        help = "start one with exthost run, or name its config with --config"
        if not os.path.exists(config):  # noqa: PTH110
            help = (
                "there is no such file: name the config of the host with --config, or change to "
                "its folder"
            )
        return NoHost("X1275", f"no host is running for {config}", help=help, evidence=evidence)
    return NoSocket(
        "X1277",
        f"the host of {config}, process {pid}, has no socket where this command looks for it",
        help="if it starts just now, try again; otherwise it was started with another HOME, "
        "XDG_RUNTIME_DIR or EXTHOST_HOME: set the same here; or its socket was deleted: "
        f"kill -TERM {pid} ends it, then start it again",
        evidence=evidence,
    )


def host_gone_error() -> ExtensionGone:
    """Return the error for a host that ended before it replied."""
    return ExtensionGone(
        "X1075",
        "the host ended before it answered",
        help="run it again: exthost run; its last words are in exthost logs NAME",
    )


def left_error() -> ExtensionGone:
    """Return the error for a request in progress when its own program closed the connection."""
    return ExtensionGone(
        "X1005",
        "this program has closed its connection to the host before the answer came",
        help="close it after the last call",
    )


def host_ended_error() -> ExtensionGone:
    """Return the error for a request on a connection whose host has ended."""
    return ExtensionGone(
        "X1075",
        "the host has ended, and nothing was sent",
        help="when it runs again (exthost run), attach to it again: exthost.attach(…)",
    )
