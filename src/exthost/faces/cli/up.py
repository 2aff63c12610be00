"""Start a host, as `exthost run` does; with -d in the background.

With -d it returns when each extension is ready or has failed. If one has failed, the exit code is
5, and the host keeps running. The messages of the host itself are written to a file beside the logs
of its extensions; `exthost status`, `logs` and `down` work on it.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from exthost.config.discovery.configfile import read_config
from exthost.errors import (
    Evidence,
    ExtensionGone,
    ExthostError,
    NotFound,
    Refused,
    SpawnFailed,
    UsageError,
)
from exthost.faces.cli import run as run_module
from exthost.faces.cli.common import (
    Args,
    list_names,
    print_error,
    require_config_path,
    say,
    show_json,
)
from exthost.faces.cli.mcp_service import http_arguments
from exthost.faces.cli.python_command import PYTHON_COMMAND
from exthost.host.control.address import make_private_folder
from exthost.host.control.client import HELLO_SECONDS, ask
from exthost.host.control.host_lock import lock_holder
from exthost.host.control.protocol import ControlRequest
from exthost.host.control.socket_path import config_key
from exthost.process.private_folders import free_bytes
from exthost.process.state_dirs import log_file

# How often to check whether the host has started.
_POLL_SECONDS = 0.05

# How many of the last messages of a host that has ended are in the error of --json.
_EVIDENCE_LINES = 20


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-d", "--detach", action="store_true", help="run the host in the background"
    )
    run_module.add_options(parser)


def run(args: Args) -> int:
    if not args.detach:
        return run_module.run(args)
    if args.mcp_stdio:
        raise UsageError(
            "X1316", "a host in the background has no stdin to serve", help="remove -d"
        )
    path = require_config_path(args)
    read_config(path)  # so that its mistakes are reported here, not in the log of the host
    _require_no_host(path)
    output = _output_file(path)
    # Another host of this config may start at the same moment, or run and not be found. `host.out`
    # is the output of the host that runs, so this output gets that name only if no other host runs.
    new_output = output.with_name(f"host.out.{os.getpid()}")
    process = _start_in_background(args, path, new_output)
    try:
        host = _wait_until_open(path, process)
    except BaseException:  # Ctrl-C, or the host does not answer
        # The process continues: it may need longer than the user wants to wait.
        if lock_holder(path) in (None, process.pid):
            new_output.replace(output)
        else:  # another host runs, so this process ends soon, with an error
            new_output.unlink()
        if process.poll() is None:
            say(
                f"the host still starts in the background, process {process.pid}; exthost down "
                "ends it"
            )
            process.returncode = 0  # suppresses the warning that the process still runs
        raise
    messages = new_output.read_text("utf-8", "replace")
    sys.stderr.write(messages)
    if host is None:
        where = ""
        if _is_served(path):  # another process has started its host first
            new_output.unlink()
        else:
            new_output.replace(output)
            where = f"; its output is in {output}"
        code = process.returncode
        if code < 0:  # a signal killed it: the exit code of a shell for that
            code = 128 - code
        reason = f"the host ended with exit code {code}{where}"
        if args.json:
            evidence = Evidence(stderr=tuple(messages.splitlines()[-_EVIDENCE_LINES:]))
            print_error(ExtensionGone("X1075", reason, evidence=evidence), wants_json=True)
        else:
            say(reason)
        return code or 1
    new_output.replace(output)
    say(f"its output is in {output}")
    process.returncode = 0  # suppresses the warning that the process still runs
    if args.json:
        show_json(host)
    else:
        print(f"host: process {host['pid']}")
    if free_bytes(output.parent) == 0:
        say(
            f"warning: the disk of {output.parent} is full: the messages of the host, and the logs "
            "of its extensions, are lost; free some space"
        )
    return _report_failed(path)


def _start_in_background(args: Args, path: str, output: Path) -> "subprocess.Popen[bytes]":
    """Start the process of the host, which writes its messages to the file `output`."""
    # Readable by its owner alone, because the token of the page is in it.
    with os.fdopen(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        return subprocess.Popen(
            [*PYTHON_COMMAND, "run", "--quiet", *_run_arguments(args, path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=file,
            start_new_session=True,
        )


def _report_failed(path: str) -> int:
    """Print the names of the extensions that have failed. Return the exit code."""
    rows = ask(path, ControlRequest("status"), timeout=HELLO_SECONDS)["extensions"]
    failed = [row["id"] for row in rows if row["state"] in ("failed", "refused")]
    if not failed:
        return 0
    verb = "has" if len(failed) == 1 else "have"
    say(
        f"{list_names(failed)} {verb} failed, and the host keeps running: exthost status shows "
        "why, exthost down ends it"
    )
    return SpawnFailed.exit_code


def _is_served(path: str) -> bool:
    """Return whether a host of this config runs. A host that has just started, or has other
    environment variables than this process, is not found at its socket, but it holds the lock."""
    try:
        ask(path, ControlRequest("hello"), timeout=HELLO_SECONDS)
    except NotFound:
        return lock_holder(path) is not None
    except ExthostError:  # a host that is hung, or is ending
        pass
    return True


def _require_no_host(path: str) -> None:
    """Raise UsageError if a host of this config runs. A host that holds the lock but is not found
    (see `_is_served`) is noticed by the process in the background, which then ends."""
    try:
        host = ask(path, ControlRequest("hello"), timeout=HELLO_SECONDS)
    except NotFound:
        return
    raise UsageError(
        "X1375",
        f"a host runs for {path} already: process {host['pid']}",
        help="exthost status shows it, exthost down ends it, exthost reload has it read its config",
    )


def _run_arguments(args: Args, path: str) -> list[str]:
    """Return the arguments of `exthost run` for the process in the background."""
    arguments = ["--config", str(Path(path).absolute()), *http_arguments(args)]
    if args.web is not None:
        arguments += ["--web", str(args.web)]
    if args.otel:
        arguments.append("--otel")
    return arguments


def _output_file(path: str) -> Path:
    """Return the file for the messages of the host, and make its folder."""
    # `log_file` returns the log of an extension. Only its folder is used, so any name will do.
    folder = Path(log_file(os.environ, config_key(path), "any")).parent
    try:
        make_private_folder(folder)
    except Refused as error:
        error.help = "set EXTHOST_HOME to a folder of your own"  # logs have no other place
        raise
    return folder / "host.out"


def _wait_until_open(path: str, process: "subprocess.Popen[bytes]") -> dict[str, Any] | None:
    """Wait until each extension of the host is ready or has failed, and return the host's reply to
    `hello`. Return None if the host ended before that."""
    while process.poll() is None:
        try:
            host: dict[str, Any] = ask(path, ControlRequest("hello"), timeout=HELLO_SECONDS)
        except NotFound:
            pass
        except ExthostError:
            # A host that is ending may close the connection; then the loop ends, too.
            if process.poll() is None:
                raise
        else:
            # Another process of the same config may have started its host first.
            if host["pid"] == process.pid and host["opened"]:
                return host
        time.sleep(_POLL_SECONDS)
    return None
