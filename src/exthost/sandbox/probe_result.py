"""What was found out about this machine: programs for sandboxes, and whether a sandbox works.

Values only; `process.sandbox_probe` finds them.
"""

from typing import NamedTuple

__all__ = ["ProbeResult", "Tools"]


class Tools(NamedTuple):
    """The paths of the programs that build sandboxes, "" where one is missing; the machine's
    architecture and the host's user."""

    bwrap: str = ""
    setpriv: str = ""
    prlimit: str = ""
    machine: str = ""
    uid: int = 0


class ProbeResult(NamedTuple):
    """Whether a kind of sandbox works here. If not, `reason` says why and `fix` what to do.
    `is_temporary` is true for failures that say nothing about the machine: no descriptors, no
    memory, no time."""

    reason: str = ""
    fix: str = ""
    is_temporary: bool = False

    @property
    def works(self) -> bool:
        return not self.reason
