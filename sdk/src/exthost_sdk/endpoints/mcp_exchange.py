"""Parses the `_meta` field of an MCP request: its era, progress token, log level, earlier answers.

MCP has two eras. The versions until 2025-11-25 begin with a handshake. Since 2026-07-28 the
protocol is stateless: each request says in `_meta` what the handshake said before.

    "_meta": {
      "progressToken": 7,
      "io.modelcontextprotocol/protocolVersion": "2026-07-28",
      "io.modelcontextprotocol/logLevel": "info"
    }

In the stateless era the server cannot send a request to the client while a call runs. A call that
needs an answer from the client ends, and the client sends it again with the answer; the handler
then runs again from its beginning. The answers to earlier requests of the same call come back in
`requestState`, which the client stores and returns unchanged.
"""

import math
from dataclasses import dataclass, field
from typing import Any

from exthost_sdk.context import LEVELS
from exthost_sdk.endpoints.endpoint import can_be_id
from exthost_sdk.endpoints.jsonrpc import BadParams
from exthost_sdk.types.json_text import decode

PREFIX = "io.modelcontextprotocol/"
VERSION = f"{PREFIX}protocolVersion"
CAPABILITIES = f"{PREFIX}clientCapabilities"
LOG_LEVEL = f"{PREFIX}logLevel"

# Added to progress that does not increase; too small to change what a person sees.
_SMALL_STEP = 1e-6

# MCP has more log levels than the SDK (`LEVELS`). Each of these is treated as the nearest one.
LEVEL_ALIASES = {"notice": "info", "alert": "critical", "emergency": "critical"}


@dataclass(slots=True)
class McpExchange:
    """What the server must know about the request of a running call.

    progress_token  what progress notifications refer to; None if the client wants none
    log_level       the lowest level that the client wants; None for no log messages
    answers         the client's answers to the requests of earlier runs of the handler, in order
    requests_made   how many requests to the client the handler has made in this run
    capabilities    what the client can do, in the stateless era
    progress        the value that was sent last
    has_reported    whether the handler has reported progress itself
    """

    is_stateless: bool = False
    progress_token: Any = None
    log_level: str | None = None
    answers: list[Any] = field(default_factory=list)
    requests_made: int = 0
    capabilities: dict[str, Any] = field(default_factory=dict)
    progress: float = float("-inf")
    has_reported: bool = False

    def next_progress(self, current: float) -> float:
        """Return the value to send for the progress that a handler reports."""
        self.has_reported = True
        return self._increase(current)

    def next_item_progress(self, count: int) -> float:
        """Return the value to send with an item, the `count`th of its stream. It is that number,
        unless the handler reports progress: then the handler's last value stands."""
        return self._increase(self.progress if self.has_reported else count)

    def _increase(self, current: float) -> float:
        """Return the value, or the last one plus a small step if it is not larger than that: the
        protocol requires that progress increases."""
        if current > self.progress:
            self.progress = current
        else:  # where a float has no room for the small step, the next float is the value
            try:
                next_float = math.nextafter(self.progress, math.inf)
                self.progress = max(self.progress + _SMALL_STEP, next_float)
            except OverflowError:  # an integer that is too large for a float
                self.progress += 1
        return self.progress


def parse_exchange(params: dict[str, Any], meta: Any) -> McpExchange:
    """Return the exchange for a request. `meta` is the value of its `_meta` field. Raises
    BadParams."""
    exchange = McpExchange()
    if type(meta) is not dict:
        return exchange
    exchange.is_stateless = VERSION in meta
    capabilities = meta.get(CAPABILITIES)
    exchange.capabilities = capabilities if type(capabilities) is dict else {}
    token = meta.get("progressToken")
    exchange.progress_token = token if can_be_id(token) else None
    level = meta.get(LOG_LEVEL)
    level = LEVEL_ALIASES.get(level, level) if type(level) is str else None
    exchange.log_level = level if level in LEVELS else None
    state, responses = params.get("requestState"), params.get("inputResponses")
    if type(state) is str:
        exchange.answers = _parse_state(state)
    if type(responses) is dict and "answer" in responses:
        exchange.answers.append(responses["answer"])
    return exchange


def _parse_state(state: str) -> list[Any]:
    """Return the answers that `requestState` contains. Raises BadParams."""
    try:
        answers = decode(state.encode())
    except (ValueError, RecursionError):
        answers = None
    if type(answers) is not list:
        raise BadParams("requestState is not from this server")
    return answers
