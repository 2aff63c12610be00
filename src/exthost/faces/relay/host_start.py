"""Starts a host of a config in the background, for this client and those that come later.

The host is a process of a session of its own, and ends when its last client has been gone for the
time of `[gateway] linger`. Its stderr is a pipe to this process until it accepts clients; then the
host replaces it by the file `host.out` beside its logs. So the end of the pipe means that the host
can be joined, and the last byte is then JOINABLE; or that it has ended, with the reason in the
pipe. If several clients start a host at the same moment, the lock of the config lets one of them
through, and the others end with ANOTHER_RUNS.
"""

import sys

__all__ = ["ANOTHER_RUNS", "CANNOT_SHARE", "JOINABLE", "start_host"]

# Exit codes of the host process. Both are of sysexits.h: EX_TEMPFAIL and EX_NOPERM.
ANOTHER_RUNS = 75
CANNOT_SHARE = 77

# The last byte that a host writes to the pipe before it accepts clients.
JOINABLE = b"\0"


def start_host(config: str) -> "tuple[int, str]":
    """Start a host of this config, and wait until it can be joined. Return 0 then, and otherwise
    its exit code; and what it wrote to stderr."""
    import subprocess

    # With -P, Python does not import modules from the working folder, which extensions may write.
    command = [sys.executable, "-P", "-m", "exthost.faces.cli.client_host", config]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stderr is not None
    with process.stderr as stderr:
        output = stderr.read()
    text = output.removesuffix(JOINABLE).decode("utf-8", "replace")
    if not output.endswith(JOINABLE):
        return process.wait() or 1, text
    process.returncode = 0  # suppresses the warning that the process still runs
    return 0, text
