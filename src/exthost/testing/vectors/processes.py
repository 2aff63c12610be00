"""Scripts with a process: an extension whose child plays its part of a script."""

import json
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from exthost.events import Bus, LogLine
from exthost.extension.extension import Extension
from exthost.session.inbound import Handler
from exthost.testing.scripted_child import COMPLAINT, SILENCE
from exthost.testing.vectors.vector import Vector

__all__ = ["Scripted", "operate"]


class MovableClock(Protocol):
    """A clock that a test moves."""

    def stop(self) -> None: ...
    def move(self, seconds: float) -> None: ...


class Scripted:
    """An extension whose process plays a script. Use as `async with`.

    `folder` is for a file of its own. `clock` makes a clock that stands still and can be moved, for
    vectors with `limits`; without one these take as long as their limits say.
    """

    def __init__(
        self,
        vector: Vector,
        script: list[str],
        folder: Path,
        clock: Callable[[], AbstractContextManager[MovableClock]] | None = None,
    ) -> None:
        path = folder / "script.json"
        path.write_text(json.dumps({"module": vector.module, "steps": script}), encoding="utf-8")
        spec = vector.spec((sys.executable, "-m", "exthost.testing.scripted_child", str(path)))
        bus = Bus()
        self.complaints: list[str] = []
        self._make_clock = clock
        self._clock: MovableClock | None = None
        self._limit = max(vector.row.get("limits", {}).values(), default=0.0)
        self._exits = AsyncExitStack()
        bus.subscribe(LogLine, self._listen)
        answers = vector.json("handlers", {})
        handlers = {method: _answering(result) for method, result in answers.items()}
        self._make = partial(Extension, spec, vector.dialect, bus=bus, handlers=handlers)

    def _listen(self, line: LogLine) -> None:
        if line.source == "stderr" and line.text.startswith(COMPLAINT):
            self.complaints.append(line.text)
        if line.source == "stderr" and line.text == SILENCE and self._clock is not None:
            self._clock.move(self._limit)

    async def __aenter__(self) -> Extension:
        if self._limit and self._make_clock is not None:
            self._clock = self._exits.enter_context(self._make_clock())
            self._clock.stop()
        extension = self._make()
        self._exits.push_async_callback(extension.close)
        return extension

    async def __aexit__(self, *_: object) -> None:
        await self._exits.aclose()
        assert not self.complaints


def _answering(result: Any) -> Handler:
    async def handler(params: Any) -> Any:
        return result

    return handler


async def operate(extension: Extension, vector: Vector) -> Any:
    """Run the vector's operation as a user would."""
    row, params = vector.row, vector.json("params")
    match row.get("operation"):
        case None:
            return await extension.call(row["method"], params)
        case "call_tool":
            context = params.get("context", {})
            result = await extension.call_tool(
                params["name"], params["arguments"], context=context, check=False
            )
            if result.error_reply is not None:
                raise result.error_reply
            return result.raw
        case "health":
            return await extension.check_health()
        case "list_tools":
            return [tool.name for tool in await extension.list_tools()]
        case other:
            raise AssertionError(f"the runner cannot run {other}")
