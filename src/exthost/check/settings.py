"""How a check is run, as a value."""

from dataclasses import dataclass
from typing import Any

# For every check of one extension, and for one reply.
CHECK_SECONDS = 120.0
REPLY_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`seconds` bounds all checks, `reply_seconds` a single reply. `calls` are tools to be called
    with arguments, whose results are checked; no other tool is called with valid arguments."""

    seconds: float = CHECK_SECONDS
    reply_seconds: float = REPLY_SECONDS
    calls: tuple[tuple[str, Any], ...] = ()
