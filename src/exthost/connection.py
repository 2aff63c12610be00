"""One extension, no files: start a command, talk to it, end it."""

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from exthost import dialects
from exthost.config import spec_from_mapping
from exthost.discovery.configfile import completed
from exthost.errors import UsageError
from exthost.events import Bus
from exthost.model import Spec
from exthost.services.answering import Answering
from exthost.session.inbound import Handler
from exthost.supervision.extension import Extension


@asynccontextmanager
async def connect(
    command: Sequence[str],
    *,
    dialect: str = "morphir",
    handlers: Mapping[str, Handler] | None = None,
    events: Bus | None = None,
    **settings: Any,
) -> AsyncIterator[Extension]:
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
    spec = completed(spec_from_mapping(entry))
    async with alone(spec, events=events, handlers=handlers) as extension:
        yield extension


@asynccontextmanager
async def alone(
    spec: Spec,
    *,
    events: Bus | None = None,
    handlers: Mapping[str, Handler] | None = None,
    environ: Mapping[str, str] | None = None,
) -> AsyncIterator[Extension]:
    """One extension without a host, started, with what a host answers when it is asked."""
    dialect = dialects.get(spec.dialect)
    answering = Answering(os.environ if environ is None else environ)
    try:
        spec = await answering.completed(spec)
        extension = Extension(
            spec,
            dialect,
            bus=events,
            handlers=handlers or {},
            environ=environ,
            attend=answering.attend(spec, dialect),
        )
        try:
            yield await extension.start()
        finally:
            await extension.close()
    finally:
        await answering.close()


def command_id(words: Sequence[str]) -> str:
    """The id of a bare command: its last word that is a file, else the program; no suffix."""
    # Not pathlib, which takes longer to look than the system does.
    files = [word for word in words if os.path.isfile(word)]  # noqa: PTH113
    return Path(files[-1] if files else words[0]).stem or words[0]
