"""Connects an extension to the real host inside its author's own tests.

    async def test_adding():
        async with testing.connect(ext, dialect="nexo") as client:
            result = await client.call_tool("add", {"a": 1, "b": 2})
            assert result.data == 3

The extension runs in a thread of the test's process, so that a debugger and a coverage tool see its
handlers. It is connected by socket pairs, and the host uses the same session, codec and handshake
as with a process; `client` is the host's own `Extension`. Signals, the exit status, limits, and the
use of stdin and stdout need a real process and are not tested here.

This is the only module of the SDK that imports the host.
"""

import os
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from exthost.config import spec_from_mapping
from exthost.config.discovery.configfile import read_named_manifest
from exthost.dialects import find
from exthost.errors import SpawnFailed
from exthost.events import Bus
from exthost.extension.extension import Extension as Client
from exthost.host.connection import Connection
from exthost.model.launch_plan import LaunchPlan
from exthost.model.spec import Spec
from exthost.process.child import Child
from exthost.process.exit_status import ExitStatus
from exthost.session.inbound import Handler
from exthost_sdk.connection import serve
from exthost_sdk.dialects import load_dialect
from exthost_sdk.endpoints.endpoint import Identity
from exthost_sdk.errors import SdkUsageError
from exthost_sdk.extension import Extension
from exthost_sdk.wire.descriptors import Wire

__all__ = ["Client", "connect"]

# How long the thread may take to end after its sockets were shut down.
_JOIN_SECONDS = 10.0


@asynccontextmanager
async def connect(
    extension: Extension,
    *,
    dialect: str,
    handlers: Mapping[str, Handler] | None = None,
    events: Bus | None = None,
    **settings: Any,
) -> AsyncIterator[Client]:
    """Serve the extension in a thread and connect the host to it, for an `async with` block.

    `handlers` answer requests of the extension to the host, by method. `events` is the bus that
    gets the events of the host. `settings` are the keys of an `[[extensions]]` entry: config,
    limits, options … If the dialect needs a manifest, it is made from the registered handlers.
    """
    with tempfile.TemporaryDirectory(prefix="exthost-sdk-") as folder:
        spec, identity = _prepare(extension, dialect, Path(folder), settings)

        def spawn(plan: LaunchPlan, id: str) -> Child:
            return _Threaded(plan, identity, dialect, extension.max_threads)

        async with Connection(spec, events=events, handlers=handlers, spawn=spawn) as client:
            yield client


def _prepare(
    extension: Extension, dialect: str, folder: Path, settings: dict[str, Any]
) -> tuple[Spec, Identity]:
    """Return how the host sees the extension, and what the extension sends about itself. `folder`
    is for the manifest."""
    command = [sys.executable, extension.name]
    source = {"type": "process", "command": command[0], "args": command[1:]}
    entry = {"name": extension.name, "dialect": dialect, "source": source, **settings}
    manifest = None
    find.find_dialect(dialect)  # raises if the name is unknown or a package is not installed
    traits = load_dialect(dialect)
    if traits.repeats_manifest:
        manifest = extension.manifest_text(dialect, command).encode()
        path = folder / traits.manifest_file
        path.write_bytes(manifest)
        entry["manifest"] = str(path)
    identity = extension.identity(dialect, manifest)
    return read_named_manifest(spec_from_mapping(entry)), identity


class _Threaded(Child):
    """A thread that serves an extension, in the place of a process. The end of the thread is its
    exit. The attributes and methods are those that the host uses of a child process."""

    __slots__ = ("_exit", "_exit_pipe", "_extension_sockets", "_thread")

    def __init__(
        self, plan: LaunchPlan, identity: Identity, dialect: str, max_threads: int
    ) -> None:
        # `Child.__init__` is not called: there is no process to start. These are its attributes.
        self._watch = self._init_channel = self._stop_watchdog = self._group = None
        self._start = self.network_proxy = None
        self._ceiling, self._limit_exceeded = plan.ceiling, ""
        self.argv, self.cwd, self.protected_paths = plan.argv, plan.cwd or "", ()
        self.pid, self.status, self.spawn_seconds = os.getpid(), None, 0.0
        self._exit: ExitStatus | None = None
        host_in, extension_in = socket.socketpair()
        host_out, extension_out = socket.socketpair()
        self._extension_sockets = (extension_in, extension_out)
        self.stdin, self.stdout = host_in.detach(), host_out.detach()
        self.stderr, write_end = os.pipe()
        os.close(write_end)  # the thread writes to the stderr of the test, so this pipe is empty
        self._exit_pipe = os.pipe()
        wire = Wire(extension_in.fileno(), extension_out.fileno())
        self._thread = threading.Thread(
            target=self._serve, args=(identity, dialect, wire, max_threads), daemon=True
        )
        self._thread.start()

    def _serve(self, identity: Identity, dialect: str, wire: Wire, max_threads: int) -> None:
        """Serve the extension, in the thread, and set the exit status that the host sees."""
        try:
            serve(identity, dialect, wire, max_threads=max_threads, on_stuck=_ignore)
            self._exit = ExitStatus(0, None)
        except SdkUsageError as error:
            self._exit = ExitStatus(2, None, limit=str(error))
        except OSError:
            self._exit = ExitStatus(None, signal.SIGKILL)
        except BaseException:
            self._exit = ExitStatus(1, None)
            raise
        finally:
            for extension_socket in self._extension_sockets:
                extension_socket.close()
            os.close(self._exit_pipe[1])

    @property
    def exit_fd(self) -> int:
        return self._exit_pipe[0]

    def start_watchdog(self, call_in_loop: Callable[[Callable[[str], None], str], object]) -> None:
        """Do nothing: the watchdog would measure, and kill, the process of the test."""

    def poll_exit(self) -> ExitStatus | None:
        self.status = self._exit
        return self.status

    def terminate(self) -> None:
        self.kill()

    def kill(self) -> None:
        for extension_socket in self._extension_sockets:
            try:
                extension_socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # the thread has ended and closed its sockets

    def reap(self) -> None:
        self._thread.join(_JOIN_SECONDS)
        if self._thread.is_alive():
            raise SpawnFailed(
                "X0406",
                "a handler of the extension under test does not end",
                help="see where it hangs: it runs in a thread of this process",
            )
        os.close(self._exit_pipe[0])

    def disown(self) -> None:
        pass

    def __del__(self) -> None:
        pass


def _ignore() -> None:
    pass
