"""The class `Extension`: decorators that register handlers, and `run`, which serves the host.

    ext = Extension("text", version="1.0")

    @ext.tool
    def shout(text: str) -> str:
        '''Upper case.'''
        return text.upper()

    ext.run()

The dialect is looked up in this order: the argument of `run`, the option `--dialect`, the variable
EXTHOST_DIALECT. If none is given, it is detected from the first message of the host. The handlers
are the same in every dialect.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

from exthost_sdk.connection import read_dialect, serve
from exthost_sdk.context import Context
from exthost_sdk.dialects import dialect_names, load_dialect
from exthost_sdk.endpoints.endpoint import Identity
from exthost_sdk.errors import SdkUsageError
from exthost_sdk.registry import (
    HandlerRegistry,
    Model,
    Provider,
    Resource,
    Sink,
    Subagent,
)
from exthost_sdk.types.function import Function
from exthost_sdk.wire.descriptors import claim, claim_early
from exthost_sdk.wire.parent_exit import watch_parent

DIALECT_VARIABLE = "EXTHOST_DIALECT"

# The name of the module that is run as the program.
_MAIN = "__main__"

# The package of the host that imports this one under its own name.
_OTHER_NAME = "exthost.sdk"

# The options of `run` that take a value.
_OPTIONS = ("--dialect", "--manifest")

# With this option a host of nexo's second contract (the second version of its protocol) requests
# the manifest of a program.
_PRINT_MANIFEST = "--print-manifest"

# How long the program's own handler of SIGTERM may take after the parent process has ended.
_TERMINATION_SECONDS = 5.0

F = TypeVar("F", bound=Callable[..., Any])


class Extension:
    """An extension and its handlers, for its author.

    `exthost.Extension` is another class: an extension as the host sees it."""

    def __init__(
        self,
        name: str,
        *,
        version: str = "0.1.0",
        description: str = "",
        manifest: str | os.PathLike[str] | None = None,
        capabilities: Sequence[str] = (),
        max_threads: int = 128,
    ) -> None:
        """`manifest` is the path of the manifest, if it is not beside the program under its usual
        name. `capabilities` are for cigen. At most `max_threads` synchronous handlers with a
        context run at the same time."""
        self.name = name
        self.version = version
        self.description = description
        self.registry = HandlerRegistry()
        self.max_threads = max_threads
        self._manifest = None if manifest is None else os.fspath(manifest)
        self._capabilities = _check_capabilities(capabilities)
        # Stdin and stdout are claimed as early as possible, so that what the program prints does
        # not get between the messages; but only in the program itself, and not if a test
        # imports the module that creates the extension. If it is not certain that a host started
        # the program, `claim_early` claims them only if they are pipes or sockets.
        calling_frame = sys._getframe(1)
        self._module = str(calling_frame.f_globals.get("__name__"))
        if self._module == _MAIN:
            if _is_started_by_host():
                claim()
            else:
                claim_early()

    def __repr__(self) -> str:
        return f"<exthost.sdk.Extension {self.name!r}>"

    # -- decorators --------------------------------------------------------------------------

    @overload
    def tool(self, handler: F) -> F: ...
    @overload
    def tool(
        self,
        *,
        name: str = "",
        description: str = "",
        thread: bool | None = None,
        read_only: bool | None = None,
        destructive: bool | None = None,
        idempotent: bool | None = None,
        open_world: bool | None = None,
    ) -> Callable[[F], F]: ...
    def tool(
        self,
        handler: F | None = None,
        *,
        name: str = "",
        description: str = "",
        thread: bool | None = None,
        read_only: bool | None = None,
        destructive: bool | None = None,
        idempotent: bool | None = None,
        open_world: bool | None = None,
    ) -> F | Callable[[F], F]:
        """Register a tool. Its name, description and schema come from the function.

        `thread=True` runs a function that may take long in a worker thread. The others are promises
        about the tool, which MCP passes on as annotations: it changes nothing (`read_only`), may
        overwrite or delete (`destructive`), has no further effect if it is called again with the
        same arguments (`idempotent`), reaches beyond this machine (`open_world`)."""
        hints = {
            "read_only": read_only,
            "destructive": destructive,
            "idempotent": idempotent,
            "open_world": open_world,
        }
        options = {
            "name": name,
            "description": description,
            "thread": thread,
            "hints": {hint: value for hint, value in hints.items() if value is not None},
        }
        return self._decorate(self.registry.tools, handler, options)

    @overload
    def stream(self, handler: F) -> F: ...
    @overload
    def stream(self, *, name: str = "", description: str = "") -> Callable[[F], F]: ...
    def stream(
        self, handler: F | None = None, *, name: str = "", description: str = ""
    ) -> F | Callable[[F], F]:
        """Register a generator whose items are sent as they are yielded.

        In a dialect without streams it is a tool whose result is the list of all items."""
        options: dict[str, Any] = {"name": name, "description": description}
        return self._decorate(self.registry.streams, handler, options)

    @overload
    def command(self, handler: F) -> F: ...
    @overload
    def command(
        self, *, name: str = "", description: str = "", thread: bool | None = None
    ) -> Callable[[F], F]: ...
    def command(
        self,
        handler: F | None = None,
        *,
        name: str = "",
        description: str = "",
        thread: bool | None = None,
    ) -> F | Callable[[F], F]:
        """Register a command that a person types; in a dialect without commands it is a tool."""
        options = {"name": name, "description": description, "thread": thread}
        return self._decorate(self.registry.commands, handler, options)

    def hook(
        self, name: str, *, thread: bool | None = None, replaces: bool = False
    ) -> Callable[[F], F]:
        """Register a handler that takes a HookEvent, and returns None, Block, Modify, Confirm,
        Inject, Replace, or the dialect's own answer.

        `replaces`: the handler of `after_tool_call` may return Replace, for which the manifest for
        synaps then requests the permission."""

        def register(handler: F) -> F:
            function = Function(handler, Context, name=name, thread=thread, payload=True)
            self.registry.add(self.registry.hooks, name, function)
            self.registry.replaces_output |= replaces
            return handler

        return register

    def provider(
        self, id: str, *, models: Sequence[str | Model], name: str = "", description: str = ""
    ) -> Callable[[F], F]:
        """Register a handler that takes a Turn, and returns the text of the answer or yields
        pieces of it: text, Thinking, ToolUse, Usage."""

        def register(handler: F) -> F:
            function = Function(handler, Context, name=id, description=description, payload=True)
            offered = tuple(Model(model) if isinstance(model, str) else model for model in models)
            provider = Provider(id, name or id, function.description, offered, function)
            self.registry.add(self.registry.providers, id, provider)
            return handler

        return register

    def resource(
        self, uri: str, *, name: str = "", description: str = "", mime_type: str = ""
    ) -> Callable[[F], F]:
        """Register a function that returns the content of a resource: text, bytes, or a value
        that is written as JSON. The URI may have `{parameters}`."""

        def register(handler: F) -> F:
            function = Function(handler, Context, name=name, description=description)
            text = function.description
            resource = Resource(uri, function.name, text, mime_type, function)
            resource.check()
            self.registry.add(self.registry.resources, uri, resource)
            return handler

        return register

    @overload
    def prompt(self, handler: F) -> F: ...
    @overload
    def prompt(self, *, name: str = "", description: str = "") -> Callable[[F], F]: ...
    def prompt(
        self, handler: F | None = None, *, name: str = "", description: str = ""
    ) -> F | Callable[[F], F]:
        """Register a prompt of MCP: a function that returns the text of a message, a PromptMessage,
        or a list of them. Its parameters are the arguments that a person fills in."""
        options: dict[str, Any] = {"name": name, "description": description}
        return self._decorate(self.registry.prompts, handler, options)

    def subagent(
        self,
        agent_type: str,
        *,
        description: str = "",
        tools: Sequence[str] | None = None,
        model: str | None = None,
        max_turns: int | None = None,
    ) -> Callable[[F], F]:
        """Register an agent of roder. Its handler takes an Assignment, and returns its last
        message, or yields what it is doing and then returns that message."""
        tool_names = None if tools is None else list(tools)
        fields = {"tools": tool_names, "model": model, "max_turns": max_turns}

        def register(handler: F) -> F:
            function = Function(
                handler, Context, name=agent_type, description=description, payload=True
            )
            definition = {key: value for key, value in fields.items() if value is not None}
            subagent = Subagent(agent_type, definition, function)
            self.registry.add(self.registry.subagents, agent_type, subagent)
            return handler

        return register

    def sink(self, *kinds: str) -> Callable[[F], F]:
        """Register a handler of roder's events whose kinds begin with one of `kinds`. It takes a
        SinkEvent; its result is ignored."""
        if not kinds:
            raise ValueError('a sink names the beginnings of its events: @ext.sink("turn.")')

        def register(handler: F) -> F:
            function = Function(handler, Context, payload=True)
            self.registry.add(self.registry.sinks, function.name, Sink(kinds, function))
            return handler

        return register

    def settings_editor(self, category: str, field: str) -> Callable[[F], F]:
        """Register the editor of a setting of synaps. It takes an EditorEvent, and returns Render,
        Commit, Close, or a value of its own."""

        def register(handler: F) -> F:
            function = Function(handler, Context, payload=True)
            self.registry.add(self.registry.editors, f"{category}.{field}", function)
            return handler

        return register

    def sidecar(self, handler: F) -> F:
        """Register the function that returns the arguments of synaps' sidecar, as a list, or as a
        dict with `args` and `language`."""
        self.registry.sidecar = Function(handler, Context, payload=True)
        return handler

    def plan(self, handler: F) -> F:
        """Register the handler of cigen's PlanRequest."""
        self.registry.plan = Function(handler, Context, payload=True)
        return handler

    def generate(self, handler: F) -> F:
        """Register the handler of cigen's GenerateRequest: it returns fragments, or a mapping of
        paths to contents."""
        self.registry.generate = Function(handler, Context, payload=True)
        return handler

    def _decorate(
        self, table: dict[str, Function], handler: F | None, options: dict[str, Any]
    ) -> F | Callable[[F], F]:
        def register(handler: F) -> F:
            function = Function(handler, Context, **options)
            self.registry.add(table, function.name, function)
            return handler

        return register if handler is None else register(handler)

    # -- running -----------------------------------------------------------------------------

    def run(self, dialect: str | None = None, *, argv: Sequence[str] | None = None) -> None:
        """Serve the host on stdin and stdout until it ends the connection.

        `argv` are the arguments of the command line; None stands for `sys.argv[1:]`. `--dialect D`
        sets the dialect, `--manifest D` prints the manifest and does not serve, `--print-manifest`
        prints that of nexo's second contract, `--help` prints these options. A program with options
        of its own passes `argv=[]`.
        """
        arguments = sys.argv[1:] if argv is None else list(argv)
        try:
            text = self._find_requested_text(arguments)
            if text is not None:
                os.write(claim().writer, text.encode())
                return
            dialect = dialect or _get_option(arguments, "--dialect")
            self._serve(dialect or os.environ.get(DIALECT_VARIABLE))
        except SdkUsageError as error:
            print(f"{self.name}: {error}", file=sys.stderr)
            sys.exit(2)
        except KeyboardInterrupt:
            sys.exit(130)

    def _find_requested_text(self, arguments: Sequence[str]) -> str | None:
        """Return the text that an option requests instead of serving: the help or a manifest. None
        if there is no such option. Raises SdkUsageError."""
        if "--help" in arguments or "-h" in arguments:
            return self._help()
        script = os.path.basename(sys.argv[0])  # noqa: PTH119 - pathlib imports slowly
        if _PRINT_MANIFEST in arguments:
            from exthost_sdk.dialects.nexo import second_nexo_manifest

            return second_nexo_manifest(self.identity("nexo"), ["python3", script])
        _check_options(arguments)
        dialect = _get_option(arguments, "--manifest")
        if dialect is None:
            return None
        return self.manifest_text(dialect, ["python3", script, "--dialect", dialect])

    def _serve(self, dialect: str | None) -> None:
        """Serve the host until it ends the connection. Without a dialect, detect it from the first
        message. Raises SdkUsageError."""
        first = b""  # the bytes that were read to detect the dialect
        if not dialect and os.isatty(0):
            raise SdkUsageError(
                "this is an extension: a host starts it. To try it: exthost inspect -- "
                f"python3 {os.path.basename(sys.argv[0])}"  # noqa: PTH119
            )
        wire = claim()
        watch_parent(_end_with_parent)
        if not dialect:
            dialect, first = read_dialect(wire)
            if not dialect and not first:
                return  # the host closed the connection without a message
            if not dialect:
                raise SdkUsageError(
                    f"the host begins like none of {', '.join(dialect_names())}: "
                    f"{first[:80]!r}; use --dialect"
                )
        serve(
            self.identity(dialect),
            dialect,
            wire,
            max_threads=self.max_threads,
            on_stuck=_end_stuck,
            first=first,
        )

    def _help(self) -> str:
        program = os.path.basename(sys.argv[0])  # noqa: PTH119
        about = f"\n{self.description}\n" if self.description else ""
        return (
            f"usage: python3 {program} [--dialect D | --manifest D | --print-manifest]\n{about}\n"
            f"{self.name} {self.version} is an extension: a host starts it and talks to it over\n"
            "stdin and stdout.\n\n"
            f"  --dialect D    speak this dialect: {', '.join(dialect_names())};\n"
            "                 without it, the dialect of the host's first message\n"
            f"  --manifest D   print the manifest for {', '.join(_manifest_dialects())}, and exit\n"
            "  --print-manifest\n"
            "                 print that of nexo's second contract, and exit\n\n"
            f"try it: exthost inspect -- python3 {program}\n"
        )

    def identity(self, dialect: str, manifest: bytes | None = None) -> Identity:
        """Return the name, the version, the handlers and the manifest of the extension, as one
        connection needs them. Without `manifest`, the file is read if the dialect needs it. Raises
        SdkUsageError."""
        return Identity(
            self.name,
            self.version,
            self.description,
            self.registry,
            self._read_manifest(dialect) if manifest is None else manifest,
            self._capabilities,
        )

    def manifest_text(self, dialect: str, command: Sequence[str]) -> str:
        """Return the manifest for a dialect, made from the registered handlers. `command` is the
        command that starts the extension. Raises SdkUsageError."""
        identity = Identity(self.name, self.version, self.description, self.registry)
        write_manifest = load_dialect(dialect).write_manifest
        if write_manifest is None:
            others = ", ".join(_manifest_dialects())
            raise SdkUsageError(f"the {dialect} dialect has no manifest; {others} have")
        return write_manifest(identity, command)

    def _read_manifest(self, dialect: str) -> bytes | None:
        """Return the manifest, if the handshake of this dialect repeats it."""
        traits = load_dialect(dialect)
        if not traits.repeats_manifest:
            return None
        # The program of an installed command is a script in another folder than the module.
        module = sys.modules.get(self._module)
        program = getattr(module, "__file__", None) or sys.argv[0]
        folder = os.path.dirname(os.path.realpath(program))  # noqa: PTH120
        path = self._manifest or os.path.join(folder, traits.manifest_file)  # noqa: PTH118
        try:
            with open(path, "rb") as file:  # noqa: PTH123
                return file.read()
        except OSError as error:
            if self._manifest is None:
                return None
            raise SdkUsageError(f"the manifest cannot be read: {error}") from None


def claim_at_import() -> None:
    """Claim stdin and stdout while the SDK is imported, if the program that imports it was
    certainly started by a host. Then what the program prints before it calls `Extension(…)` does
    not get between the messages either."""
    if _is_started_by_host() and _find_importer() == _MAIN:
        claim()


def _check_capabilities(capabilities: Sequence[str]) -> tuple[str, ...]:
    """Return the capabilities. Raises ValueError for one that no host of cigen recognises."""
    for capability in capabilities:
        namespace, colon, value = capability.partition(":")
        if not (namespace and colon and value) or isinstance(capabilities, str):
            raise ValueError(
                f"{capability!r} is not a capability of cigen: write a list of `namespace:value`, "
                'such as ["provider:make"]'
            )
    return tuple(capabilities)


def _find_importer() -> str:
    """Return the name of the module that imports the SDK."""
    # Above this function, `claim_at_import` and the package's `__init__`.
    frame = sys._getframe(3)
    while frame.f_back is not None and (
        "importlib" in frame.f_code.co_filename or frame.f_globals.get("__name__") == _OTHER_NAME
    ):
        frame = frame.f_back
    return str(frame.f_globals.get("__name__"))


def _is_started_by_host() -> bool:
    """Return whether the environment or the command line has a setting that only a host, or a
    person in the place of a host, gives to an extension."""
    arguments = sys.argv[1:]
    has_option = any(argument.partition("=")[0] in _OPTIONS for argument in arguments)
    return DIALECT_VARIABLE in os.environ or has_option


def _check_options(arguments: Sequence[str]) -> None:
    """Raise SdkUsageError for an argument that is neither an option of `run` nor its value."""
    previous = ""
    for argument in arguments:
        name = argument.partition("=")[0]
        if name not in _OPTIONS and previous not in _OPTIONS:
            raise SdkUsageError(f"unknown argument {argument!r}; --help shows the options")
        previous = argument


def _manifest_dialects() -> list[str]:
    return [name for name in dialect_names() if load_dialect(name).write_manifest]


def _get_option(arguments: Sequence[str], name: str) -> str | None:
    """Return the value of an option, given as `--name value` or `--name=value`; None if it is not
    given. Raises SdkUsageError if the value is missing."""
    for position, argument in enumerate(arguments):
        if argument.startswith(f"{name}="):
            return argument.partition("=")[2]
        if argument == name:
            if position + 1 == len(arguments):
                values = _manifest_dialects() if name == "--manifest" else dialect_names()
                raise SdkUsageError(f"{name} needs a value: {', '.join(values)}")
            return arguments[position + 1]
    return None


def _end_with_parent() -> None:
    """End the extension, because its parent process has ended."""
    print("exthost.sdk: the parent process has ended", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_TERMINATION_SECONDS)  # for a handler of SIGTERM in the program
    os._exit(1)


def _end_stuck() -> None:
    """End the extension, although calls that were cancelled at its end have not ended."""
    print("exthost.sdk: calls that were cancelled do not end", file=sys.stderr, flush=True)
    os._exit(1)
