"""The process of a host, for the subcommands `run`, `up` and `gateway`.

A host runs the extensions of a config as child processes and supervises them. `HostProcess` owns
the host with its extensions, the control socket, the log files and the display. It runs the
background services that it is given, such as MCP on stdio or HTTP and the web page. It reports its
state to the service manager (such as systemd), if there is one. A signal, or the end of a service
(an MCP client has closed stdin), ends the process after the calls in flight are done. A second
signal kills the extensions at once.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Self

from exthost.config import Config
from exthost.config.discovery.report import Diagnostic
from exthost.errors import ExthostError, Refused, UsageError
from exthost.faces.cli.background_service import BackgroundService, ServiceContext
from exthost.faces.cli.client_service import ClientService
from exthost.faces.cli.common import format_error_details, plural
from exthost.faces.cli.diagnostic_lines import print_diagnostics
from exthost.faces.cli.displays import Display, QuietDisplay
from exthost.faces.cli.log_handler import WarningHandler
from exthost.faces.cli.process_gateway import ProcessGateway
from exthost.faces.cli.verbs import INTERRUPTED
from exthost.faces.http_server.token import VARIABLE as TOKEN_VARIABLE
from exthost.host.control.host_lock import HostLock
from exthost.host.control.requests import RequestPerformer
from exthost.host.control.server import ControlServer
from exthost.host.control.socket_path import config_key
from exthost.host.control.status_report import StatusReport
from exthost.host.extension_logs import ExtensionLogs
from exthost.host.host import Host
from exthost.process.service_notify import ServiceNotifier
from exthost.process.state_dirs import log_file

if TYPE_CHECKING:
    from exthost.faces.http_server.probes import Probes

MakeDisplay = Callable[[Host, StatusReport], Display]


class HostProcess:
    """One host with everything around it, for the length of an `async with` block.

    path              the path of the config file; the names of the control socket and of the log
                      files are derived from it
    config            the config
    make_display      returns the display, which prints the messages of the process
    services          the background services of the process
    may_be_second     what happens if another host of this config runs: the process runs without a
                      control socket if this is true, and entering it raises UsageError otherwise
    plain_names       whether MCP clients see tools without the prefix of their extension, where the
                      name is unique
    lock              the lock of the config, if the caller has taken it already
    ends_when_unused  whether the process was started for its clients: it then ends when the last
                      client has been gone for the time of `[gateway] linger`
    """

    def __init__(
        self,
        path: str,
        config: Config,
        make_display: MakeDisplay,
        services: Sequence[BackgroundService] = (),
        *,
        may_be_second: bool = False,
        plain_names: bool = False,
        lock: HostLock | None = None,
        ends_when_unused: bool = False,
    ) -> None:
        self._config_path = path
        self._services = services
        self._may_be_second = may_be_second
        self._lock = lock
        self._notifier = ServiceNotifier(os.environ)
        self.host = Host(config, environ=_child_variables() if services else None)
        self.report = StatusReport(self.host)
        self.display = make_display(self.host, self.report)
        self.control: ControlServer | None = None
        self._requests: RequestPerformer  # set by `__aenter__`: that of the control socket, if any
        self._gateway = ProcessGateway(
            self.host, services, plain_names=plain_names, expects_clients=ends_when_unused
        )
        self._clients = ClientService(
            self.host,
            path,
            make_gateway=self._gateway.get_or_create,
            say=self.display.say,
            reload=self._reload,
            opening=lambda: self._gateway.opening,
            list_http_clients=self._gateway.list_http_clients,
            ends_when_unused=ends_when_unused,
        )
        self.host.remember_offers(defer_starts=ends_when_unused)
        if ends_when_unused:
            self._services = (*services, BackgroundService(self._wait_until_unused))
        self._signals: asyncio.Queue[int] = asyncio.Queue()
        self._reloading: set[asyncio.Task[None]] = set()
        self._had_controlling_terminal = _has_controlling_terminal()
        self._stack = AsyncExitStack()

    async def _wait_until_unused(self, _: ServiceContext) -> None:
        await self._clients.wait_until_unused()

    def _make_probes(self) -> "Probes | None":
        if not any(service.is_http for service in self._services):
            return None
        from exthost.faces.http_server.metrics import Metrics
        from exthost.faces.http_server.probes import Probes

        def states() -> list[str]:
            return [str(extension.state) for extension in self.host.extensions]

        return Probes(self._requests, Metrics(self.host), states)

    async def __aenter__(self) -> Self:
        # Everything is closed in the reverse order: first the gateway with the host; last the
        # display, so that it shows all messages.
        async with AsyncExitStack() as stack:
            stack.callback(self.display.close)
            self.control = self._open_control()
            if self.control is None:
                self._requests = RequestPerformer(self.host, self.report, self._config_path)
            else:
                self._requests = self.control.requests
                stack.push_async_callback(self.control.close)
                stack.callback(self._open_logs().close)
                if not self._gateway.has_sole_client:
                    self._clients.open(self.control)
                stack.push_async_callback(self._clients.close)
            # The other displays show changed manifests as events.
            shows_manifest_events = not isinstance(self.display, QuietDisplay)
            stack.enter_context(
                WarningHandler(self.display.say, hides_manifest_changes=shows_manifest_events)
            )
            stack.push_async_callback(self._gateway.close)
            if self.control is not None:
                await self.control.serve()
            self._stack = stack.pop_all()  # nothing has failed: `__aexit__` closes it
        return self

    async def __aexit__(self, *details: Any) -> None:
        await self._stack.__aexit__(*details)

    def _open_control(self) -> ControlServer | None:
        """Open the control socket. If there is no folder for it, or if another host has the socket
        and `may_be_second` is true, print a warning and return None: the host runs without it."""
        try:
            return ControlServer(self.host, self.report, self._config_path, lock=self._lock)
        except Refused as refused:
            reason = refused.message
        except UsageError as taken:
            if not self._may_be_second:
                raise
            reason = taken.message
        self.display.say(
            f"warning: {reason}; exthost status and other verbs cannot reach this process"
        )
        return None

    def _open_logs(self) -> ExtensionLogs:
        key = config_key(self._config_path)
        return ExtensionLogs(
            self.host.events, lambda extension: log_file(os.environ, key, extension)
        )

    # -- running -----------------------------------------------------------------------------

    async def run(self) -> int:
        """Start the host and the services, and wait until a signal or a service ends them. Return
        the exit code: INTERRUPTED after SIGINT; 0 after another signal, or after a service has
        ended. Raises the exception with which a service, or the opening of the host, has failed."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._signals.put_nowait, number)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup ignores it
            loop.add_signal_handler(signal.SIGHUP, self._on_hangup)
        self._requests.opened = False
        opening = self._gateway.open()
        context = ServiceContext(
            self._config_path,
            self.host,
            self.report,
            self._requests,
            self._gateway.server,
            self._make_probes(),
        )
        services = [loop.create_task(service.serve(context)) for service in self._services]
        first_signal = loop.create_task(self._signals.get())
        try:
            await self._wait_for_end(opening, {first_signal, *services})
            await self._stop(services)
        finally:
            tasks = (opening, first_signal, *services, *self._reloading)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        if first_signal.cancelled():  # no signal has arrived: a service has ended
            for service in services:
                if not service.cancelled():
                    service.result()  # raises the exception of a service that has failed
            return 0
        return INTERRUPTED if first_signal.result() == signal.SIGINT else 0

    def _on_hangup(self) -> None:
        """Handle SIGHUP. If the controlling terminal was closed, stop like after any signal.
        Otherwise reload the config, as services do."""
        if self._had_controlling_terminal and not _has_controlling_terminal():
            self._signals.put_nowait(signal.SIGHUP)
            return
        task = asyncio.get_running_loop().create_task(self._reload())
        self._reloading.add(task)
        task.add_done_callback(self._reloading.discard)

    async def _reload(self) -> None:
        """Read the config again, and report what has changed."""
        self._notifier.reloading()
        self._clients.note_reload()
        try:
            outcome = await self.host.reload()
        except ExthostError as error:
            self.display.say(f"error[{error.code}]: not reloaded: {error.message}")
            self._notifier.ready(f"not reloaded: {error.message}")
            return
        self._requests.note_reload(outcome)
        failed = [error.as_dict() for error in outcome.failed]
        summary = f"reloaded: {reload_summary(outcome._asdict() | {'failed': failed})}"
        self.display.say(summary)
        self._notifier.ready(summary)
        for cause in outcome.failed:
            self._print_extension_error(cause)

    async def _wait_for_end(
        self, opening: "asyncio.Task[Any]", end_tasks: "set[asyncio.Task[Any]]"
    ) -> None:
        """Wait until one of `end_tasks` is done. Report that the host is ready when `opening` is
        done before that; its exception is raised."""
        pending = {opening, *end_tasks}
        while not any(task.done() for task in end_tasks):
            await asyncio.wait(pending, return_when="FIRST_COMPLETED")
            if opening in pending and opening.done():
                pending.remove(opening)
                opening.result()
                self._report_ready()
                # `exthost up -d` prints the messages of the host when it is open.
                await self.display.flush()
                self._requests.opened = True

    def _report_ready(self) -> None:
        """Report that the host is open, and which problems were found while it was opened."""
        host = self.host
        causes = {extension.id: extension.cause for extension in host.extensions if extension.cause}
        for diagnostic in host.diagnostics:
            cause = causes.get(diagnostic.extension)
            if cause is not None and cause.code == diagnostic.code:
                self._print_extension_error(cause, diagnostic)
            else:
                print_diagnostics([diagnostic], with_help=True, print_line=self.display.say)
        ready = sum(extension.state == "ready" for extension in host.extensions)
        summary = f"{ready} of {len(host)} extensions ready, {plural(len(host.tools), 'tool')}"
        # `exthost down` needs the control socket.
        can_only_be_signalled = self.control is None
        if self._had_controlling_terminal or can_only_be_signalled:
            self.display.say(f"{summary}; Ctrl-C ends")
        else:
            self.display.say(f"{summary}; exthost down ends it")
        self._notifier.ready(summary)

    def _print_extension_error(
        self, error: ExthostError, diagnostic: Diagnostic | None = None
    ) -> None:
        """Print an error of an extension with its evidence (command line, exit status, last stderr
        lines), in the same form as other verbs."""
        level = "error" if diagnostic is None else diagnostic.level
        self.display.say(f"{level}[{error.code}]: {error.headline}")
        path = error.evidence.path or ("" if diagnostic is None else diagnostic.path)
        for line in (f"  in:     {path}" if path else "", *format_error_details(error)):
            if line:
                self.display.say(line)

    async def _stop(self, services: "Sequence[asyncio.Task[None]]") -> None:
        """Cancel the services, and close the host after the calls in flight are done. A signal that
        arrives meanwhile kills the extensions."""
        self._requests.ending = True
        self._notifier.stopping()
        self.display.say("stopping; Ctrl-C again kills")
        self._clients.finish()
        for service in services:
            service.cancel()
        if services:
            await asyncio.wait(services)
        loop = asyncio.get_running_loop()
        closing = loop.create_task(self._gateway.close(drain=True))
        second_signal = loop.create_task(self._signals.get())
        await asyncio.wait([closing, second_signal], return_when="FIRST_COMPLETED")
        if not closing.done():
            self.display.say("killing")
            self.host.kill()
        await closing
        second_signal.cancel()
        await asyncio.wait([second_signal])


@contextmanager
def host_lock(path: str) -> Iterator[HostLock | None]:
    """Take the lock of a config for the length of a `with` block, before the services open their
    sockets. Raises UsageError if another host has it. Yields None if there is no folder for it:
    `HostProcess` then reports that, and runs without a control socket."""
    try:
        lock = HostLock(path)
    except Refused:
        yield None
        return
    with lock:
        yield lock


def _child_variables() -> dict[str, str]:
    """Return the environment variables of this process, which extensions may get, without the token
    of the HTTP services."""
    return {name: value for name, value in os.environ.items() if name != TOKEN_VARIABLE}


def reload_summary(outcome: Mapping[str, Any]) -> str:
    """Return a sentence about the changes of a reload. If an extension failed and is not in
    `added`, it was to replace an older version, which still runs."""
    changes_by_kind = [
        f"{kind} {', '.join(outcome[kind])}"
        for kind in ("added", "changed", "removed")
        if outcome[kind]
    ]
    failed_ids = [error["extension"] for error in outcome["failed"]]
    unchanged_ids = [id for id in failed_ids if id not in outcome["added"]]
    if unchanged_ids:  # first, because it needs the attention of the operator
        failure = f"the new version of {', '.join(unchanged_ids)} failed, and the old one is kept"
        changes_by_kind.insert(0, failure)
    return "; ".join(changes_by_kind) or "nothing changed"


def _has_controlling_terminal() -> bool:
    """Return whether this process has a controlling terminal."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True
