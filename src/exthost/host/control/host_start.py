"""Starts a host of a config in the background, for this client and those that come later.

The relay of `exthost gateway` and `exthost.attach(…, start=True)` use it. The command
line runs the process, under a verb that its help does not show.

The host is a process of a session of its own, and ends when its last client has been gone for the
time of `[gateway] linger`. It leaves its parent at once, so that init adopts it. Its stderr
is a pipe to this process until it accepts clients; then the host replaces it by the file `host.out`
beside its logs. So the end of the pipe means that the host can be joined, or that it has ended. The
pipe ends with a NUL and a number: 0, or the exit code of a host that has ended. If several clients
start a host at the same moment, the lock of the config lets one of them through, and the others end
with ANOTHER_RUNS.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# Exit codes of the host process. Both are of sysexits.h: EX_TEMPFAIL and EX_NOPERM.
ANOTHER_RUNS = 75
CANNOT_SHARE = 77

# The verb of the command line that runs the process.
HOST_VERB = "_host"


def start_host(config: str, environ: "Mapping[str, str] | None" = None) -> "tuple[int, str]":
    """Start a host of this config, and wait until it can be joined. Return 0 then, and otherwise
    its exit code; and what it wrote to stderr. `environ` are its variables; None for those of this
    process."""
    import subprocess

    # With -P, Python does not import modules from the working folder, which extensions may write.
    command = [sys.executable, "-P", "-m", "exthost", HOST_VERB, config]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env=environ,
    )
    assert process.stderr is not None
    with process.stderr as stderr:
        text, nul, code = stderr.read().rpartition(b"\0")
    process.wait()
    if not nul:  # it was killed
        return 1, code.decode("utf-8", "replace")
    return int(code), text.decode("utf-8", "replace")


def encode_outcome(code: int) -> bytes:
    """Return what a host writes to the pipe at last: 0 if it can be joined, or its exit code."""
    return b"\0%d" % code
