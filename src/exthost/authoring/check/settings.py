"""The settings of one run of `exthost check`, from its options --timeout, --reply-timeout and
--call."""

from dataclasses import dataclass
from typing import Any

# The default time limits: for all checks of one extension, and for one reply.
CHECK_SECONDS = 120.0
REPLY_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a run.

    seconds        the time limit of all checks
    reply_seconds  the time limit of a single reply
    calls          tools to be called, with arguments; their results are checked. Without any, only
                   the `trial_call` of the dialect is made with valid arguments, because a call may
                   have effects
    """

    seconds: float = CHECK_SECONDS
    reply_seconds: float = REPLY_SECONDS
    calls: tuple[tuple[str, Any], ...] = ()
