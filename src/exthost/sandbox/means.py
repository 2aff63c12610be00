"""What this machine has to hold an extension with, as values. Found out by `process.probe`."""

from typing import NamedTuple

__all__ = ["Tools", "Verdict"]


class Tools(NamedTuple):
    """The programs of others that we put in front, each by its path or "", and who we are."""

    bwrap: str = ""
    setpriv: str = ""
    prlimit: str = ""
    machine: str = ""
    uid: int = 0


class Verdict(NamedTuple):
    """Whether a way of holding works here: `why` it does not and how to `fix` that, or neither."""

    why: str = ""
    fix: str = ""

    @property
    def works(self) -> bool:
        return not self.why
