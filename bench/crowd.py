"""Many extensions that are opened and closed together."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from bench import subject


class Crowd:
    """Extensions that run until the end of the `crowd` block."""

    def __init__(self, argv: tuple[str, ...], options: dict[str, Any]) -> None:
        self._argv = argv
        self._options = options
        self._opened: list[AbstractAsyncContextManager[subject.Extension]] = []
        self.extensions: list[subject.Extension] = []

    async def _open(self) -> subject.Extension:
        context = subject.connect(self._argv, **self._options)
        extension = await context.__aenter__()
        self._opened.append(context)
        self.extensions.append(extension)
        return extension

    async def grow(self, count: int) -> list[subject.Extension]:
        """Start this many more at the same time."""
        return await asyncio.gather(*(self._open() for _ in range(count)))

    async def close(self) -> None:
        """End all at the same time; raise the first error after all were tried."""
        closing = [context.__aexit__(None, None, None) for context in self._opened]
        self._opened.clear()
        self.extensions.clear()
        for ended in await asyncio.gather(*closing, return_exceptions=True):
            if isinstance(ended, BaseException):
                raise ended


@asynccontextmanager
async def crowd(argv: tuple[str, ...], **options: Any) -> AsyncIterator[Crowd]:
    """Open an empty crowd, to which extensions are added."""
    people = Crowd(argv, options)
    try:
        yield people
    finally:
        await people.close()
