"""Starts a host of a config in the background, for this client and those that come later.

The relay of `exthost gateway` and `exthost.attach(…, start=True)` use this module. The process of
the host is a verb of the command line that `--help` does not show (`faces.cli.client_host`).

The host has a session of its own, and leaves its parent at once, so that init adopts it. It ends
when its last client has been gone for the time of `[gateway] linger`.

Its stderr is a pipe to this process until the host accepts clients. Then the host replaces it by
the file `host.out` beside its logs. So the end of the pipe means that the host can be joined, or
that it has ended. The last bytes of the pipe are a NUL and a number: 0 if the host can be joined,
otherwise the exit code of the host. If several clients start a host at the same moment, one of the
hosts gets the lock of the config, and the others end with ANOTHER_RUNS.

This module imports as little as it can, because each start of the relay waits for it.
"""

import sys

TYPE_CHECKING = False  # type checkers take it for True; importing `typing` would take time
if TYPE_CHECKING:
    from collections.abc import Mapping

# Exit codes of the host process, from sysexits.h. ANOTHER_RUNS (EX_TEMPFAIL): another host of this
# config runs. CANNOT_SHARE (EX_NOPERM): a folder for the socket or the output of the host cannot be
# used, so that no other process could join the host.
ANOTHER_RUNS = 75
CANNOT_SHARE = 77

# The verb of the command line that runs the process.
HOST_VERB = "_host"


def start_host(config: str, environ: "Mapping[str, str] | None" = None) -> "tuple[int, str]":
    """Start a host of this config, and wait until it can be joined or has failed. Return 0 or its
    exit code, and the text that it wrote to stderr. `environ` are its variables; None for those of
    this process."""
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
        output = stderr.read()
    process.wait()
    text, nul, code = output.rpartition(b"\0")
    if not nul:  # the host was killed before it wrote its outcome
        return 1, output.decode("utf-8", "replace")
    return int(code), text.decode("utf-8", "replace")


def encode_outcome(code: int) -> bytes:
    """Return the last bytes that a host writes to the pipe. `code` is 0 if it can be joined, and
    its exit code otherwise."""
    return b"\0%d" % code
