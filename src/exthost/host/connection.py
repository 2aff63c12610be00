"""Runs one extension without a host, a config or a manifest, in a given dialect (protocol).

    async with exthost.connect(["python3", "weather.py"], dialect="mcp") as extension:
        await extension.call_tool("forecast", {"city": "Lima"})

`connect` (`connect_function`) calls this module if the dialect is given. Without a dialect it calls
`detection`, which finds out the dialect.
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from exthost.cluster.engines import Engines
from exthost.config import spec_from_mapping
from exthost.config.cluster import DEFAULT_CLUSTER_SETTINGS
from exthost.config.discovery.configfile import read_named_manifest, with_environ
from exthost.config.extension_settings import ExtensionSettings
from exthost.dialects import find
from exthost.errors import NO_EVIDENCE, Evidence, HandshakeFailed, UsageError
from exthost.events import Bus
from exthost.extension.extension import Extension
from exthost.extension.misuse import OpenedByWith, already_open_error, require_asyncio
from exthost.extension.startup import Spawn
from exthost.host.api.host_api import HostApi
from exthost.model.empty_mapping import EMPTY_MAPPING
from exthost.model.launch_plan import LaunchPlan
from exthost.model.spec import DEFAULT_DIALECT, Spec
from exthost.process.child import Child
from exthost.session.handshake import HandshakeProgress, read_evidence, read_progress
from exthost.session.inbound import Handler
from exthost.session.trace.traffic import Traffic

# The suffixes of files that interpreters run, and that need not be executable.
_PROGRAM_SUFFIX = re.compile(
    r"\.(bash|clj|dll|exs|go|jar|jl|[cm]?[jt]s|[jt]sx|kts|lua|php|pl|ps1|py[cz]?|r|rb|sh|tcl|wasm|zsh)",
    re.IGNORECASE,
)


def connection_spec(
    command: Sequence[str], dialect: str | None, settings: ExtensionSettings
) -> Spec:
    """Return the spec (the complete configuration) of the extension that `connect` runs. If
    `dialect` is None, the dialect is detected later, and the spec has DEFAULT_DIALECT for now."""
    argv = _read_command(command)
    entry = {
        **settings,
        "name": settings.get("name") or command_id(argv),
        "dialect": dialect or DEFAULT_DIALECT,
        "source": {"type": "process", "command": argv[0], "args": argv[1:]},
    }
    return read_named_manifest(spec_from_mapping(entry))


def _read_command(command: object) -> list[str]:
    """Return the words of a command as strings. Raises UsageError."""
    if isinstance(command, str):
        reason = "a command is a list of words, not a string: there is no shell"
    elif isinstance(command, bytes) or not isinstance(command, Iterable):
        reason = f"a command is a list of words, not {type(command).__name__}"
    else:
        argv = [str(argument) for argument in command]
        if argv and argv[0].strip():
            return argv
        reason = "the command is empty: its first word must be a program"
    raise UsageError("X1310", reason, help='write ["python3", "ext.py"]')


class Connection(OpenedByWith):
    """One extension without a host, for the length of an `async with` block. The extension may
    send the same requests as in a host: `HostApi` answers them.

    This is a class and not an `asynccontextmanager`, which takes more memory: a program may have
    hundreds of connections.
    """

    __slots__ = (
        "_api",
        "_engines",
        "_environ",
        "_events",
        "_extension",
        "_handlers",
        "_shared",
        "_spawn",
        "_spec",
        "_traffic",
    )

    def __init__(
        self,
        spec: Spec,
        *,
        events: Bus | None = None,
        handlers: Mapping[str, Handler] | None = None,
        environ: Mapping[str, str] | None = None,
        shared: bool = False,
        spawn: Callable[[LaunchPlan, str], Child] = Child,
        traffic: Traffic | None = None,
    ) -> None:
        """`events` is the bus on which events are published. `handlers` answer requests of the
        extension, by method. `environ` has the host's environment variables; None means those of
        this process. `shared`: the extension is called from several threads, as `sync_connect`
        allows. `spawn` executes the launch plan. `traffic` records the messages."""
        self._spec = spec
        self._events = events
        self._handlers = handlers
        self._environ = environ
        self._shared = shared
        self._spawn = spawn
        self._traffic = traffic
        self._api: HostApi | None = None
        self._engines: Engines | None = None  # not None if the pool is on other nodes
        self._extension: Extension | None = None

    async def __aenter__(self) -> Extension:
        if self._extension is not None:
            raise already_open_error()
        require_asyncio()
        try:
            try:
                self._extension = await self._create()
                return await self._extension.start()
            except HandshakeFailed as error:
                # `other_options` are options of the dialect with which another handshake may
                # succeed. There is no config that could set them, so they are tried here.
                if not error.other_options:
                    raise
                await self._close()
                options = {**self._spec.options, **error.other_options}
                self._spec = replace(self._spec, options=options)
                self._extension = await self._create()
                return await self._extension.start()
        except BaseException:
            await self._close()
            raise

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    def handshake_progress(self) -> HandshakeProgress | None:
        """Return the progress of the handshake in progress; None if no process runs yet."""
        sessions = [] if self._extension is None else self._extension.internals.queue.live_sessions
        return read_progress(sessions[-1]) if sessions else None

    def handshake_evidence(self) -> Evidence:
        """Return the evidence (command line, last stderr lines, first output) about the process
        whose handshake is in progress; none if no process runs yet."""
        sessions = [] if self._extension is None else self._extension.internals.queue.live_sessions
        return read_evidence(sessions[-1]) if sessions else NO_EVIDENCE

    async def _create(self) -> Extension:
        spec = with_environ(self._spec)
        environ = self._environ
        session_handlers = None
        dialect = find.find_dialect_of(spec)
        # Without requests to answer and settings to look up, no HostApi is needed.
        if dialect.host_requests or spec.settings:
            self._api = HostApi(os.environ if environ is None else environ)
            spec = await self._api.with_stored_settings(spec)
            session_handlers = self._api.handlers_for(spec, dialect)
        spawn: Spawn = self._spawn
        if spec.pool.engine is not None:
            self._engines = Engines(DEFAULT_CLUSTER_SETTINGS)
            spawn = self._engines.spawner(spec) or spawn
        return Extension(
            spec,
            dialect,
            bus=self._events,
            handlers=self._handlers or EMPTY_MAPPING,
            environ=environ,
            session_handlers=session_handlers,
            shared=self._shared,
            spawn=spawn,
            traffic=self._traffic,
        )

    async def _close(self) -> None:
        try:
            if self._extension is not None:
                # A call after the block must not start the extension again: nothing would end it.
                self._extension.internals.queue.is_released = True
                await self._extension.close()
                self._extension = None
        finally:
            if self._engines is not None:
                await self._engines.close()
                self._engines = None
            if self._api is not None:
                await self._api.close()
                self._api = None


def command_id(argv: Sequence[str]) -> str:
    """Return the id of an extension that is given only by its command line. It is the name, without
    its suffix, of the last argument that is a program file, or else of the program: "weather" for
    `python3 weather.py`, and "git-server" for `git-server --verbose`."""
    # Not pathlib, whose overhead is larger than the system call.
    files = [argument for argument in argv if os.path.isfile(argument)]  # noqa: PTH113
    programs = [file for file in files if _is_program(file)]
    return Path(programs[-1] if programs else argv[0]).stem or argv[0]  # the stem of "/" is empty


def _is_program(file: str) -> bool:
    """Return whether a file is likely to be a program, not data that a program reads."""
    suffix = os.path.splitext(file)[1]  # noqa: PTH122
    return not suffix or bool(_PROGRAM_SUFFIX.fullmatch(suffix)) or os.access(file, os.X_OK)
