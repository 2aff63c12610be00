"""The host: the one object a user must know.

Puts the parts together and does nothing by itself: config and discovery say which extensions are
wanted, supervision keeps each of them, the registry knows what can be called. `async with` returns
when each eager extension is ready or has failed; one that failed never raises there: its cause
is raised by the calls to it.
"""

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from exthost import dialects
from exthost.config import Config, spec_from_mapping
from exthost.discovery.configfile import read_config, wanted
from exthost.discovery.report import Diagnostic
from exthost.errors import ExthostError, HandshakeFailed, NotFound, UsageError
from exthost.events import Bus
from exthost.model import NONE, Offer, Spec
from exthost.names import nearest, registered_name
from exthost.registry import RegisteredTool, Registry
from exthost.services.audit import Audit
from exthost.session.inbound import Handler
from exthost.supervision.extension import Extension


class Host:
    """Extensions by name, and their tools. Use it with `async with`."""

    def __init__(
        self,
        config: Config | None = None,
        *,
        handlers: Mapping[str, Handler] = NONE,
        environ: Mapping[str, str] | None = None,
        shared: bool = False,
    ) -> None:
        """`shared`: other threads call its extensions, as the blocking face does."""
        self.config = config or Config()
        self.events = Bus()
        self.diagnostics: tuple[Diagnostic, ...] = ()
        self._handlers = handlers
        self._shared = shared
        # One snapshot for all: each child's copy would otherwise hold strings of its own.
        self._environ = dict(os.environ if environ is None else environ)
        self._extensions: dict[str, Extension] = {}
        self._registry = Registry()
        self._registry.serve(self._extensions.values())
        self._audit: Audit | None = None
        self._open = False

    @classmethod
    def from_config(cls, source: str | Path | Mapping[str, Any], **settings: Any) -> Self:
        """A host for this config: the path of a file, or the same as a dict."""
        return cls(read_config(source), **settings)

    def __repr__(self) -> str:
        return f"<Host of {len(self._extensions)} extensions>"

    # -- extensions --------------------------------------------------------------------------

    def __getitem__(self, name: str) -> Extension:
        try:
            return self._extensions[name]
        except KeyError:
            raise self._unknown(name) from None

    def __contains__(self, name: object) -> bool:
        return name in self._extensions

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._extensions))

    def __len__(self) -> int:
        return len(self._extensions)

    @property
    def extensions(self) -> tuple[Extension, ...]:
        """Every extension, in the order in which they came."""
        return tuple(self._extensions.values())

    async def load(self, entry: Mapping[str, Any] | Spec) -> Extension:
        """Add an extension at run time: an `[[extensions]]` entry as a dict.

        Returns when it is ready, or at once if it starts at first use. One that does not get
        ready is not kept, and its cause is raised.
        """
        if isinstance(entry, Spec):
            spec = entry
        else:
            name = str(entry.get("name", "")) if isinstance(entry, Mapping) else ""
            spec = spec_from_mapping(entry, defaults=self.config.outer(name))
        extension = self._add(spec)
        try:
            if extension.starts_eagerly:
                await extension.start()
        except BaseException:
            await self.unload(spec.id)
            raise
        return extension

    async def unload(self, name: str) -> None:
        """End an extension and forget it; nothing of it is left."""
        extension = self[name]
        del self._extensions[name]
        self._registry.changed()
        await extension.close()

    # -- tools -------------------------------------------------------------------------------

    @property
    def tools(self) -> Mapping[str, RegisteredTool]:
        """What can be called right now: registered name → tool."""
        return self._registry.tools

    def call_tool(
        self,
        name: str,
        arguments: Any = None,
        *,
        timeout: float | None = None,
        context: Mapping[str, Any] = NONE,
        wait: bool = True,
    ) -> Coroutine[Any, Any, Any]:
        """Call a tool by its registered name, `extension:tool`, or its own name if only one has it.

        Raises for what did not happen; a result that calls itself an error is returned as it came.
        """
        found = self._registry.tools.get(name)
        if found is None:
            return self._find_and_call(name, arguments, timeout, context, wait)
        return self._extensions[found.extension].call_tool(
            found.tool, arguments, timeout=timeout, context=context, wait=wait
        )

    async def _find_and_call(
        self,
        name: str,
        arguments: Any,
        timeout: float | None,
        context: Mapping[str, Any],
        wait: bool,
    ) -> Any:
        found = await self.find_tool(name)
        return await self._extensions[found.extension].call_tool(
            found.tool, arguments, timeout=timeout, context=context, wait=wait
        )

    async def find_tool(
        self, name: str, *, capability: str = "", ask_all: bool = False
    ) -> RegisteredTool:
        """The tool of this name, of an extension with this capability. Starts an extension if
        only its handshake can tell: the one that the name belongs to, or with `ask_all` each."""
        try:
            return self._registry.find(name, capability=capability)
        except NotFound:
            silent = [ext for ext in self.extensions if ext.is_silent]
            named = [ext for ext in silent if _could_be_of(name, ext.id)]
            asked = named or (silent if ask_all else [])
            if not asked:
                raise
        outcomes = await asyncio.gather(*(ext.start() for ext in asked), return_exceptions=True)
        try:
            return self._registry.find(name, capability=capability)
        except NotFound:
            for outcome in outcomes:
                if named and isinstance(outcome, ExthostError):
                    raise outcome from None
            raise

    # -- life --------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if self._open:
            raise UsageError("X1311", "this host is open already")
        self._open = True
        try:
            if self.config.audit_path is not None:
                self._audit = Audit(self.config.audit_path, self.events)
            found = await asyncio.to_thread(wanted, self.config)
            self.diagnostics = found.diagnostics
            eager = [self._add(spec) for spec in found.specs if spec.enabled]
            await asyncio.gather(
                *(ext.start() for ext in eager if ext.starts_eagerly), return_exceptions=True
            )
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End every extension, all at the same time. Closing twice is fine."""
        extensions = list(self._extensions.values())
        await asyncio.gather(*(ext.close() for ext in extensions), return_exceptions=True)
        self._extensions.clear()
        self._registry.changed()
        if self._audit is not None:
            self._audit.close()
            self._audit = None
        self._open = False

    def kill(self) -> None:
        """End every process at once, without a word; `close` then returns soon."""
        for extension in self.extensions:
            extension.kill()

    def _add(self, spec: Spec) -> Extension:
        if spec.id in self._extensions:
            raise UsageError(
                "X1312",
                f"there is an extension {spec.id!r} already",
                extension=spec.id,
                help="unload it first, or load the new one under another name",
            )
        dialect = dialects.get(spec.dialect)
        extension = Extension(
            spec,
            dialect,
            bus=self.events,
            handlers=self._handlers,
            environ=self._environ,
            on_change=self._registry.changed,
            vet=self._own_names(spec) if dialect.traits.own_name == "unique" else None,
            shared=self._shared,
        )
        self._extensions[spec.id] = extension
        self._registry.changed()
        extension.admit()
        return extension

    def _own_names(self, spec: Spec) -> Callable[[Offer], None]:
        """A check that nobody else of its dialect calls itself the same: the first one stays."""

        def vet(offer: Offer) -> None:
            for other in self.extensions:
                same = other.spec.dialect == spec.dialect and other.offer.name == offer.name
                if same and other.serves and other.id != spec.id:
                    raise HandshakeFailed(
                        "X0524",
                        f"it calls itself {offer.name}, and so does {other.id}",
                        extension=spec.id,
                        help="disable one of the two: calls are routed by that name",
                    )

        return vet

    def _unknown(self, name: str) -> NotFound:
        near = nearest(name, self._extensions)
        there = ", ".join(list(self._extensions)[:10]) or "none"
        help = f"did you mean {near!r}?" if near else f"the extensions here are: {there}"
        return NotFound("X1205", f"there is no extension {name!r}", help=help)


def _could_be_of(name: str, extension: str) -> bool:
    """Whether a tool's name, in any spelling, could belong to this extension."""
    extension_part, colon, _ = name.partition(":")
    if colon:
        return extension_part == extension
    return name.startswith(registered_name(extension, ""))
