"""Opens and closes the services that a host runs in addition to its extensions.

They are

    the control socket  through which other processes send requests to the host
    the trace           a recording of all messages between the host and its extensions
    the audit           a file with a line for each call and its outcome
    the manifest watch  reloads an extension when its manifest has changed

The socket, the trace and the audit open before the first extension starts. The trace and the audit
close after the last extension has ended. A reload of the config may change the audit and the watch;
the socket and the trace stay as they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from exthost.errors import UsageError

if TYPE_CHECKING:
    from exthost.config import Config
    from exthost.config.discovery.watch import Watch
    from exthost.events import Bus
    from exthost.host.audit import Audit
    from exthost.host.control.served_host import ServedHost
    from exthost.host.manifest_reload import ManifestReloader, Replace, Unload
    from exthost.session.trace.trace_file import TraceFile
    from exthost.session.trace.traffic import TraceListener, Traffic


TraceTarget: TypeAlias = "bool | str | Path | TraceListener"
"""Where the traffic of a host goes: the path of a file, a function, True for the buffer
`host.trace`, or False for nowhere."""


class ControlSocket(Protocol):
    """An open control socket."""

    async def close(self) -> None: ...


def control_path(control: bool | str | Path, config: Config) -> str | None:
    """Return the path that identifies the socket, or None if `control` is False.

    With True, it is the path of the config. Raises UsageError if the config was not read from a
    file. The socket itself is elsewhere (see `control.address`).
    """
    if isinstance(control, str | Path):
        return str(control)
    if not control:
        return None
    if config.folder is None:
        raise UsageError(
            "X1381",
            "control=True needs a config that is a file: its path names the socket",
            help='give a path instead: control="agent.toml"; clients name the same',
        )
    return config.origin


async def open_control_socket(host: ServedHost, path: str) -> ControlSocket:
    """Open the socket of this host and accept clients. `path` is the result of `control_path`.

    Raises UsageError if another running host has opened it.
    """
    # As elsewhere here, modules that few hosts need are imported where they are used.
    from exthost.host.control.server import ControlServer
    from exthost.host.control.status_report import StatusReport

    control = ControlServer(host, StatusReport(host), path, is_program=True)
    await control.serve()
    return control


class BackgroundServices:
    """The services of one host. Arguments and attributes whose names do not explain them:

    replace, unload, update_guards
                     methods of the host, which are called when a manifest has changed
    control          as in `Host`: whether to open a control socket, or the path that names it
    buffer           the trace buffer if `trace` is True, else None
    """

    def __init__(
        self,
        config: Config,
        bus: Bus,
        traffic: Traffic,
        *,
        replace: Replace,
        unload: Unload,
        update_guards: Callable[[], Awaitable[None]],
        control: bool | str | Path,
        trace: TraceTarget,
    ) -> None:
        self._bus = bus
        self._traffic = traffic
        self._replace = replace
        self._unload = unload
        self._update_guards = update_guards
        self._control_path = control_path(control, config)
        self._control: ControlSocket | None = None
        self._audit: Audit | None = None
        self._audit_path: str | None = None
        self._reloader: ManifestReloader | None = None
        self._trace = trace
        self._trace_file: TraceFile | None = None
        self._unsubscribe_trace: Callable[[], None] | None = None
        self.buffer: TraceBuffer | None = None
        if trace is True:
            from exthost.session.trace.buffer import TraceBuffer

            self.buffer = TraceBuffer()

    async def open(self, host: ServedHost, config: Config) -> None:
        """Open every service except the watch, which `make_watch` and `start_watch` open."""
        if self._control_path is not None:
            self._control = await open_control_socket(host, self._control_path)
        self._open_audit(config)
        self._open_trace()

    async def make_watch(self, config: Config) -> Watch | None:
        """Start to watch the manifests; return None if the config does not enable that.

        Call this before the manifests are read, so that no change is missed. `start_watch` then
        handles the changes.
        """
        discovery = config.discovery
        if discovery is None or not (discovery.enabled and discovery.watch.enabled):
            return None
        from exthost.config.discovery.watch import Watch
        from exthost.dialects import find

        formats = find.load_manifest_formats()
        return await asyncio.to_thread(Watch, discovery, formats, config.folder or ".")

    def start_watch(self, watch: Watch | None, config: Config) -> None:
        """Handle the changes that this watch reports from now on."""
        if watch is not None:
            discovery = config.discovery
            from exthost.host.manifest_reload import ManifestReloader

            self._reloader = ManifestReloader(
                watch,
                self._bus,
                self._replace if discovery is not None and discovery.watch.reload else None,
                self._unload,
                self._update_guards,
                config_ids=frozenset(spec.id for spec in config.specs),
            )

    async def stop_watch(self) -> None:
        """Stop watching the manifests."""
        reloader, self._reloader = self._reloader, None
        if reloader is not None:
            await reloader.close()

    def apply(self, config: Config) -> None:
        """Apply the audit settings of this config. Raises ConfigError, and changes nothing, if the
        file cannot be written."""
        if config.audit_path != self._audit_path:
            old_audit = self._audit
            self._open_audit(config)
            if old_audit is not None:
                old_audit.close()

    async def close_control_socket(self) -> None:
        """Close the control socket, so that other processes can send no more requests."""
        if self._control is not None:
            await self._control.close()
            self._control = None

    def close(self) -> None:
        """Close the audit and the trace. Call this after the extensions have ended, so that their
        end is recorded."""
        if self._audit is not None:
            self._audit.close()
            self._audit = self._audit_path = None
        if self._unsubscribe_trace is not None:
            self._unsubscribe_trace()
            self._unsubscribe_trace = None
        if self._trace_file is not None:
            self._trace_file.close()
            self._trace_file = None

    def _open_audit(self, config: Config) -> None:
        path = config.audit_path
        audit = None
        if path is not None:
            from exthost.host.audit import Audit

            audit = Audit(path, self._bus)  # may raise, and then nothing has changed
        self._audit = audit
        self._audit_path = path

    def _open_trace(self) -> None:
        trace = self._trace
        listener: TraceListener
        if isinstance(trace, str | Path):
            from exthost.session.trace.trace_file import TraceFile

            listener = self._trace_file = TraceFile(trace, self._traffic.dialects)
        elif self.buffer is not None:
            listener = self.buffer
        elif callable(trace):
            listener = trace
        else:
            return
        self._unsubscribe_trace = self._traffic.subscribe(listener)
