"""One extension, no files: start a command, talk to it, end it."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from exthost.config import spec_from_mapping
from exthost.dialects import find
from exthost.discovery.configfile import completed
from exthost.errors import UsageError
from exthost.events import Bus
from exthost.extension.extension import Extension
from exthost.model import Spec
from exthost.services.answering import Answering
from exthost.session.inbound import Handler


def connect(
    command: Sequence[str],
    *,
    dialect: str = "morphir",
    handlers: Mapping[str, Handler] | None = None,
    events: Bus | None = None,
    **settings: Any,
) -> "Alone":
    """Run `command` as an extension for as long as the `async with` block lasts.

    `settings` are the keys of an `[[extensions]]` entry: config, env, cwd, limits, restart …
    """
    if isinstance(command, str) or not command:
        raise UsageError(
            "X1310",
            "a command is a list of words, not a string: there is no shell",
            help='write ["python3", "ext.py"]',
        )
    words = [str(word) for word in command]
    name = settings.pop("name", None) or command_id(words)
    entry = {
        "name": name,
        "dialect": dialect,
        "source": {"type": "process", "command": words[0], "args": words[1:]},
        **settings,
    }
    return Alone(completed(spec_from_mapping(entry)), events=events, handlers=handlers)


class Alone:
    """One extension without a host, for the length of an `async with` block, with what a host
    answers when it is asked. A class and not a generator: a program may hold hundreds of them."""

    __slots__ = ("_answering", "_environ", "_events", "_extension", "_handlers", "_spec")

    def __init__(
        self,
        spec: Spec,
        *,
        events: Bus | None = None,
        handlers: Mapping[str, Handler] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._spec = spec
        self._events = events
        self._handlers = handlers
        self._environ = environ
        self._answering: Answering | None = None
        self._extension: Extension | None = None

    async def __aenter__(self) -> Extension:
        try:
            self._extension = await self._made()
            return await self._extension.start()
        except BaseException:
            await self._close()
            raise

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    async def _made(self) -> Extension:
        spec, environ, attend = self._spec, self._environ, None
        dialect = find.find_dialect(spec.dialect)
        if dialect.host_requests or spec.settings:
            self._answering = Answering(os.environ if environ is None else environ)
            spec = await self._answering.completed(spec)
            attend = self._answering.attend(spec, dialect)
        return Extension(
            spec,
            dialect,
            bus=self._events,
            handlers=self._handlers or {},
            environ=environ,
            attend=attend,
        )

    async def _close(self) -> None:
        try:
            if self._extension is not None:
                await self._extension.close()
        finally:
            if self._answering is not None:
                await self._answering.close()


def command_id(words: Sequence[str]) -> str:
    """The id of a bare command: its last word that is a file, else the program; no suffix."""
    # Not pathlib, which takes longer to look than the system does.
    files = [word for word in words if os.path.isfile(word)]  # noqa: PTH113
    return Path(files[-1] if files else words[0]).stem or words[0]
