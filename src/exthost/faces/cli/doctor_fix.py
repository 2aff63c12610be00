"""Implements `exthost doctor --fix`: lets bubblewrap, which makes sandboxes, run on this machine.

On Ubuntu, for example, AppArmor restricts user namespaces, which bubblewrap needs. An AppArmor
profile for bubblewrap allows them for that program alone. This module prints the profile and, as
root, installs it. It never changes a setting of the whole machine.
"""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from exthost.errors import UsageError
from exthost.faces.cli.common import Args, say, show_json, show_text
from exthost.launch import apparmor, sandbox_probe

# apparmor_parser compiles a profile in a second.
_LOAD_SECONDS = 60


def fix_machine(args: Args, root: str = "/") -> int:
    """Print the AppArmor profile that this machine needs, and install it if this is root. Return
    the exit code. `root` is the folder that stands for the root of the file system (for tests)."""
    report: dict[str, Any] = {"restricted": apparmor.is_restricted(root), "installed": False}
    if not report["restricted"]:
        return _report(
            args, report, "nothing to fix: AppArmor does not restrict user namespaces here"
        )
    bwrap = os.path.realpath(sandbox_probe.find_sandbox_support().bwrap or "/usr/bin/bwrap")
    try:
        report["profile"] = apparmor.profile_text(bwrap)
    except ValueError as error:
        raise UsageError("X1886", str(error), help="install bubblewrap in /usr/bin") from None
    file = apparmor.profile_file(root)
    report["file"] = str(file)
    if other := apparmor.find_other_profile(bwrap, root):
        return _report(args, report, f"not installed: {other} is a profile for {bwrap} already")
    parser = shutil.which("apparmor_parser", path="/usr/sbin:/sbin:/usr/bin")
    load = f"apparmor_parser -r {file}"
    if os.geteuid() != 0 or parser is None:
        return _report(args, report, f"as root, write this to {file}, and load it: {load}")
    # The file is written first, because apparmor_parser loads a profile from its file.
    file.parent.mkdir(parents=True, exist_ok=True)
    previous_text = file.read_text() if file.exists() else None  # of an earlier `--fix`
    file.write_text(report["profile"])
    if reason := _load_profile(parser, file):
        if previous_text is None:
            file.unlink()
        else:
            file.write_text(previous_text)
        raise UsageError(
            "X1887",
            f"AppArmor did not load the profile: {reason}",
            help="nothing was changed; report this, with the version of apparmor_parser",
        )
    report["installed"] = True
    return _report(args, report, f"installed {file}; check it: exthost doctor")


def _load_profile(parser: str, file: Path) -> str:
    """Load the profile in a file. Return why that failed; "" if it succeeded."""
    try:
        result = subprocess.run(
            [parser, "-r", str(file)],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LOAD_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"{parser} did not end within {_LOAD_SECONDS} s"
    except OSError as error:
        return f"{parser} cannot be run: {error.strerror}"
    if not result.returncode:
        return ""
    return (result.stderr.strip().splitlines() or ["no message"])[-1]


def _report(args: Args, report: dict[str, Any], message: str) -> int:
    """Print the report. Return the exit code 0."""
    if args.json:
        show_json(report | {"message": message})
        return 0
    if "profile" in report:
        show_text(report["profile"].rstrip())
    say(message)
    return 0
