"""What an MCP request says about itself in its `_meta`, and what it repeats in the stateless era.

In that era a call that needs an answer of the client ends, and comes again with the answer. What
was answered before travels with the client as `requestState`.
"""

from dataclasses import dataclass, field
from typing import Any

from exthost.sdk.context import LEVELS
from exthost.sdk.dialects.jsonrpc import BadParams
from exthost.sdk.types.json_text import decode

PREFIX = "io.modelcontextprotocol/"
VERSION = f"{PREFIX}protocolVersion"
CAPABILITIES = f"{PREFIX}clientCapabilities"
LOG_LEVEL = f"{PREFIX}logLevel"

# So small that it is not shown.
_SMALL_STEP = 1e-6

LEVEL_ALIASES = {"notice": "info", "alert": "critical", "emergency": "critical"}


@dataclass(slots=True)
class Exchange:
    """What a call has to know of its request."""

    is_stateless: bool = False
    progress_token: Any = None
    log_level: str | None = None
    answers: list[Any] = field(default_factory=list)
    asked: int = 0
    progress: float = float("-inf")  # what was reported last

    def next_progress(self, current: float) -> float:
        """Return the value to report. The protocol requires that it increases: one that does not is
        a little more than the last."""
        self.progress = current if current > self.progress else self.progress + _SMALL_STEP
        return self.progress


def read_exchange(params: dict[str, Any], meta: Any) -> Exchange:
    """Return what a request says. Raises BadParams."""
    exchange = Exchange()
    if type(meta) is not dict:
        return exchange
    exchange.is_stateless = VERSION in meta
    exchange.progress_token = meta.get("progressToken")
    level = meta.get(LOG_LEVEL)
    level = LEVEL_ALIASES.get(level, level) if type(level) is str else None
    exchange.log_level = level if level in LEVELS else None
    state, responses = params.get("requestState"), params.get("inputResponses")
    if type(state) is str:
        exchange.answers = _read_state(state)
    if type(responses) is dict and "answer" in responses:
        exchange.answers.append(responses["answer"])
    return exchange


def _read_state(state: str) -> list[Any]:
    """Return the answers that the client was given to keep."""
    try:
        answers = decode(state.encode())
    except (ValueError, RecursionError):
        answers = None
    if type(answers) is not list:
        raise BadParams("requestState is not what this server gave")
    return answers
