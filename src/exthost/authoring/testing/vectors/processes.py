"""Plays the script of a test vector with a real process: an extension that follows the script.

A script is a list of lines, such as `> Request {"method": "initialize"}` for a message that the
process must get, and `< Reply {"result": {}}` for one that it sends (see `scripted_child`). The
process reports on its stderr if the host does not follow the script.
"""

import json
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from exthost.authoring.testing.scripted_child import FAILURE_PREFIX, SILENCE_LINE
from exthost.authoring.testing.vectors.vector import Vector
from exthost.events import Bus, LogLine
from exthost.extension.extension import Extension
from exthost.session.inbound import Handler


class MovableClock(Protocol):
    """The host's clock, which a test stops and moves."""

    def stop(self) -> None: ...
    def move(self, seconds: float) -> None: ...


class ScriptedExtension:
    """An extension whose process plays a script. Used with `async with`, it returns the extension.

    The script is written to a file in `folder`. `clock` returns a clock that the test moves, for
    vectors with `limits`; without it such a vector takes as long as its limits.
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
        spec = vector.spec(
            (sys.executable, "-m", "exthost.authoring.testing.scripted_child", str(path))
        )
        bus = Bus()
        self.failures: list[str] = []  # where the host did not follow the script
        self._make_clock = clock
        self._clock: MovableClock | None = None
        self._limit_seconds = max(vector.fields.get("limits", {}).values(), default=0.0)
        self._exits = AsyncExitStack()
        bus.subscribe(LogLine, self._on_log_line)
        results = vector.json("handlers", {})
        handlers = {method: _make_handler(result) for method, result in results.items()}
        self._make_extension = partial(Extension, spec, vector.dialect, bus=bus, handlers=handlers)

    def _on_log_line(self, line: LogLine) -> None:
        """Handle a line of stderr: a failure, or that the process will say nothing more, so that
        the clock can be moved past the time limit."""
        if line.source == "stderr" and line.text.startswith(FAILURE_PREFIX):
            self.failures.append(line.text)
        if line.source == "stderr" and line.text == SILENCE_LINE and self._clock is not None:
            self._clock.move(self._limit_seconds)

    async def __aenter__(self) -> Extension:
        if self._limit_seconds and self._make_clock is not None:
            self._clock = self._exits.enter_context(self._make_clock())
            self._clock.stop()
        try:
            extension = self._make_extension()
        except BaseException:
            await self._exits.aclose()  # restores the clock
            raise
        self._exits.push_async_callback(extension.close)
        return extension

    async def __aexit__(self, *_: object) -> None:
        await self._exits.aclose()
        assert not self.failures


def _make_handler(result: Any) -> Handler:
    """Return a handler that replies to the extension with this result."""

    async def handler(params: Any) -> Any:
        return result

    return handler


async def run_operation(extension: Extension, vector: Vector) -> Any:
    """Run the vector's operation by the methods that users call."""
    fields, params = vector.fields, vector.json("params")
    match fields.get("operation"):
        case None:
            return await extension.call(fields["method"], params)
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
            raise AssertionError(f"no vector can run {other}")
