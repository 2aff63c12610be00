"""The process of a host that a client has started in the background: `exthost _host PATH`, with the
path of the config.

If no host of the config is running, a client starts one: a relay (`faces.relay`), or a program that
calls `exthost.attach(…, start=True)`. The stderr of this process is a pipe to that client until the
host accepts clients, and then the file `host.out` beside the logs of its extensions. The process
takes the lock of the config before it imports the host, which takes long: of two processes for one
config, the second one soon finds the lock taken, and ends.
"""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from exthost.errors import ExthostError, Refused, UsageError
from exthost.faces.cli.common import print_error
from exthost.host.control.address import make_private_folder
from exthost.host.control.host_lock import HostLock
from exthost.host.control.host_start import ANOTHER_RUNS, CANNOT_SHARE, encode_outcome
from exthost.host.control.socket_path import config_key
from exthost.process.state_dirs import log_file

_STDERR = 2


def main(arguments: Sequence[str]) -> int:
    """Run the host of the config at this path. Return the exit code."""
    if os.fork():  # the client waits for this process, and must not have to wait for the host
        os._exit(0)
    (path,) = arguments
    # A copy of the descriptor, because `_run` replaces stderr by a file.
    with os.fdopen(os.dup(_STDERR), "wb", buffering=0) as client_pipe:
        code = _run_locked(path, client_pipe)
        sys.stderr.flush()
        if not client_pipe.closed:  # the host has ended before it accepted clients
            with suppress(OSError):
                client_pipe.write(encode_outcome(code))
    return code


def _run_locked(path: str, client_pipe: IO[bytes]) -> int:
    """Take the lock of the config and run the host. Return the exit code."""
    try:
        lock = HostLock(path)
    except UsageError:
        return ANOTHER_RUNS
    except Refused as error:
        print(f"{error.message}; {error.help}", file=sys.stderr)
        return CANNOT_SHARE
    with lock:
        try:
            output = _open_output(path)
        except (Refused, OSError) as error:
            message = error.message if isinstance(error, Refused) else f"{error}"
            print(f"the state folder cannot be written: {message}", file=sys.stderr)
            return CANNOT_SHARE
        try:
            return _run(path, lock, output, client_pipe)
        except ExthostError as error:
            print_error(error, wants_json=False)
            return error.exit_code


def _open_output(path: str) -> int:
    """Return a descriptor of the file for the messages of the host. Raises Refused and OSError."""
    file = Path(log_file(os.environ, config_key(path), "host")).with_name("host.out")
    make_private_folder(file.parent)
    # Readable by its owner alone, like the logs.
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    return os.open(file, flags, 0o600)


def _run(path: str, lock: HostLock, output: int, client_pipe: IO[bytes]) -> int:
    """Run the host. When it accepts clients, report that on the pipe, and write all later messages
    to the descriptor `output`. Return the exit code."""
    from exthost.config.discovery.configfile import read_config
    from exthost.faces.cli.displays import Display, QuietDisplay
    from exthost.faces.cli.host_process import HostProcess
    from exthost.faces.cli.verb_loop import run_long_lived
    from exthost.host.control.status_report import StatusReport
    from exthost.host.host import Host

    config = read_config(path)

    def make_display(_: Host, __: StatusReport) -> Display:
        return QuietDisplay()

    async def serve() -> int:
        process = HostProcess(path, config, make_display, lock=lock, ends_when_unused=True)
        async with process:
            os.dup2(output, _STDERR)
            os.close(output)
            with suppress(OSError):  # the client may have ended
                client_pipe.write(encode_outcome(0))
            client_pipe.close()
            return await process.run()

    return run_long_lived(serve())
