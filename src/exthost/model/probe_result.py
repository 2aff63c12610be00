"""Values that describe which sandboxes work on this machine.

A sandbox needs programs such as bubblewrap (`bwrap`), and features of the kernel that a system may
have turned off. `launch.sandbox_probe` looks for the programs, tries the sandboxes, and returns
these values.
"""

from typing import NamedTuple


class SandboxSupport(NamedTuple):
    """The means of this machine to build sandboxes.

    bwrap, setpriv, prlimit  the paths of these programs; "" if the program is not installed
    machine                  the architecture, as `uname -m` prints it
    uid                      the user that the host runs as; 0 is root
    """

    bwrap: str = ""
    setpriv: str = ""
    prlimit: str = ""
    machine: str = ""
    uid: int = 0


class ProbeResult(NamedTuple):
    """Whether one type of sandbox works on this machine.

    reason        why it does not work; "" if it works
    fix           what a person can do to make it work
    is_temporary  whether a later attempt may succeed, since the failure had nothing to do with the
                  sandbox: too few file descriptors, too little memory, a timeout
    keeps_pid     whether the program has the same pid inside and outside
    """

    reason: str = ""
    fix: str = ""
    is_temporary: bool = False
    keeps_pid: bool = False

    @property
    def works(self) -> bool:
        return not self.reason
