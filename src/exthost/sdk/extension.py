"""The object of an extension: decorators that register handlers, and `run`.

    ext = Extension("text", version="1.0")

    @ext.tool
    def shout(text: str) -> str:
        '''Upper case.'''
        return text.upper()

    ext.run()

`run` speaks the dialect that it is given, that `--dialect` names, that the variable EXTHOST_DIALECT
names, or else the one that the host begins with. Everything else is the same in all of them.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

from exthost.sdk.connection import read_dialect, serve
from exthost.sdk.context import Context
from exthost.sdk.dialects import DIALECT_NAMES
from exthost.sdk.dialects.endpoint import Identity
from exthost.sdk.errors import UsageError
from exthost.sdk.manifests import FILES, manifest_text
from exthost.sdk.registry import Model, Provider, Registry, Resource
from exthost.sdk.types.function import Function
from exthost.sdk.wire.descriptors import claim, claim_early
from exthost.sdk.wire.parent_exit import watch_parent

DIALECT_VARIABLE = "EXTHOST_DIALECT"

_MAIN = "__main__"

# After the parent's death: how long a handler of SIGTERM may take.
_TERMINATION_SECONDS = 5.0

F = TypeVar("F", bound=Callable[..., Any])


class Extension:
    """An extension and its handlers."""

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
        self.registry = Registry()
        self.max_threads = max_threads
        self._manifest = None if manifest is None else os.fspath(manifest)
        self._capabilities = tuple(capabilities)
        # As early as possible, so that nothing that the program prints gets on the wire; but only
        # in the program itself, never in a test that imports it.
        if sys._getframe(1).f_globals.get("__name__") == _MAIN:
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
        self, *, name: str = "", description: str = "", thread: bool | None = None
    ) -> Callable[[F], F]: ...
    def tool(
        self,
        handler: F | None = None,
        *,
        name: str = "",
        description: str = "",
        thread: bool | None = None,
    ) -> F | Callable[[F], F]:
        """Register a tool. Its name, description and schema come from the function.

        `thread=True` runs a function that may take long in a worker thread."""
        options = {"name": name, "description": description, "thread": thread}
        return self._decorate(self.registry.tools, handler, options)

    @overload
    def stream(self, handler: F) -> F: ...
    @overload
    def stream(self, *, name: str = "", description: str = "") -> Callable[[F], F]: ...
    def stream(
        self, handler: F | None = None, *, name: str = "", description: str = ""
    ) -> F | Callable[[F], F]:
        """Register a generator whose items are sent as they come.

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

    def hook(self, name: str, *, thread: bool | None = None) -> Callable[[F], F]:
        """Register a handler that takes a HookEvent, and returns None, Block, Modify, Confirm,
        Inject, or the dialect's own answer."""

        def register(handler: F) -> F:
            function = Function(handler, Context, name=name, thread=thread, payload=True)
            self.registry.add(self.registry.hooks, name, function)
            return handler

        return register

    def provider(
        self, id: str, *, models: Sequence[str | Model], name: str = "", description: str = ""
    ) -> Callable[[F], F]:
        """Register a handler that takes a Turn, and returns the text of the answer or yields
        pieces of it: text, Thinking, ToolUse, Usage."""

        def register(handler: F) -> F:
            function = Function(handler, Context, name=id, description=description, payload=True)
            known = tuple(Model(model) if isinstance(model, str) else model for model in models)
            provider = Provider(id, name or id, function.description, known, function)
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
            about = function.description
            resource = Resource(uri, function.name, about, mime_type, function)
            self.registry.add(self.registry.resources, uri, resource)
            return handler

        return register

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
        self, kind: dict[str, Function], handler: F | None, options: dict[str, Any]
    ) -> F | Callable[[F], F]:
        def register(handler: F) -> F:
            function = Function(handler, Context, **options)
            self.registry.add(kind, function.name, function)
            return handler

        return register if handler is None else register(handler)

    # -- running -----------------------------------------------------------------------------

    def run(self, dialect: str | None = None, *, argv: Sequence[str] | None = None) -> None:
        """Serve the host on stdin and stdout until it ends the connection.

        `argv` are the words of the command line, those of the program unless they are given:
        `--dialect D` names the dialect, `--manifest D` prints the manifest instead, `--help` says
        so. A program with options of its own passes `argv=[]`.
        """
        words = sys.argv[1:] if argv is None else list(argv)
        try:
            if "--help" in words or "-h" in words:
                os.write(claim().writer, self._help().encode())
                return
            _refuse_unknown(words)
            wanted = _option(words, "--manifest")
            if wanted is not None:
                script = os.path.basename(sys.argv[0])  # noqa: PTH119 - pathlib imports slowly
                text = self.manifest_text(wanted, ["python3", script, "--dialect", wanted])
                os.write(claim().writer, text.encode())
                return
            dialect = dialect or _option(words, "--dialect") or os.environ.get(DIALECT_VARIABLE)
            first = b""
            if not dialect and os.isatty(0):
                raise UsageError(
                    "this is an extension: a host starts it. To try it: exthost inspect -- "
                    f"python3 {os.path.basename(sys.argv[0])}"  # noqa: PTH119
                )
            wire = claim()
            watch_parent(_end_with_parent)
            if not dialect:
                dialect, first = read_dialect(wire)
                if not dialect and not first:
                    return  # the host has ended the connection before it began
                if not dialect:
                    raise UsageError(
                        f"the host begins like none of {', '.join(DIALECT_NAMES)}: {first[:80]!r}; "
                        "--dialect says what to speak"
                    )
            identity = self.identity(dialect)
            threads = self.max_threads
            serve(identity, dialect, wire, max_threads=threads, on_stuck=_end_stuck, first=first)
        except UsageError as error:
            print(f"{self.name}: {error}", file=sys.stderr)
            sys.exit(2)
        except KeyboardInterrupt:
            sys.exit(130)

    def _help(self) -> str:
        program = os.path.basename(sys.argv[0])  # noqa: PTH119
        about = f"\n{self.description}\n" if self.description else ""
        return (
            f"usage: python3 {program} [--dialect D | --manifest D]\n{about}\n"
            f"{self.name} {self.version} is an extension: a host starts it and talks to it over\n"
            "stdin and stdout.\n\n"
            f"  --dialect D    speak this dialect: {', '.join(DIALECT_NAMES)};\n"
            "                 left out, the one that the host begins with\n"
            "  --manifest D   print the manifest for this dialect, and exit\n\n"
            f"try it: exthost inspect -- python3 {program}\n"
        )

    def identity(self, dialect: str) -> Identity:
        """Return who the extension is, for one connection. Raises UsageError."""
        return Identity(
            self.name,
            self.version,
            self.description,
            self.registry,
            self._read_manifest() if dialect == "roder" else None,
            self._capabilities,
        )

    def manifest_text(self, dialect: str, command: Sequence[str]) -> str:
        """Return the manifest for a dialect, from what is registered. Raises UsageError."""
        identity = Identity(self.name, self.version, self.description, self.registry)
        return manifest_text(identity, dialect, command)

    def _read_manifest(self) -> bytes | None:
        folder = os.path.dirname(os.path.realpath(sys.argv[0]))  # noqa: PTH120
        path = self._manifest or os.path.join(folder, FILES["roder"])  # noqa: PTH118
        try:
            with open(path, "rb") as file:  # noqa: PTH123
                return file.read()
        except OSError as error:
            if self._manifest is None:
                return None
            raise UsageError(f"the manifest cannot be read: {error}") from None


def claim_at_import() -> None:
    """Claim the wire while `exthost.sdk` is imported, if the program that imports it is run as an
    extension for certain: what it prints before `Extension(…)` does not get on the wire either."""
    if _is_started_by_host() and _importer() == _MAIN:
        claim()


def _importer() -> str:
    """Return the name of the module that imports `exthost.sdk`."""
    frame = sys._getframe(3)  # of whatever has called the package's own code
    while frame.f_back is not None and "importlib" in frame.f_code.co_filename:
        frame = frame.f_back
    return str(frame.f_globals.get("__name__"))


def _is_started_by_host() -> bool:
    return DIALECT_VARIABLE in os.environ or _is_option(sys.argv[1:])


def _is_option(words: Sequence[str]) -> bool:
    """Return whether the command line has an option that runs the program as an extension."""
    return any(word.partition("=")[0] in ("--dialect", "--manifest") for word in words)


def _refuse_unknown(words: Sequence[str]) -> None:
    """Raise UsageError for a word that is no option of `run`."""
    before = ""
    for word in words:
        name = word.partition("=")[0]
        if name not in ("--dialect", "--manifest") and before not in ("--dialect", "--manifest"):
            raise UsageError(f"what is {word!r}? --help shows the options")
        before = word


def _option(words: Sequence[str], name: str) -> str | None:
    """Return the value of an option: `--name value` or `--name=value`."""
    for position, word in enumerate(words):
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
        if word == name:
            if position + 1 == len(words):
                raise UsageError(f"{name} needs a value: {', '.join(DIALECT_NAMES)}")
            return words[position + 1]
    return None


def _end_with_parent() -> None:
    print("exthost.sdk: the parent process has ended", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_TERMINATION_SECONDS)  # for a handler of the author's own
    os._exit(1)


def _end_stuck() -> None:
    print("exthost.sdk: calls that were cancelled do not end", file=sys.stderr, flush=True)
    os._exit(1)
