"""The users that run the trials of the sandbox: root and an ordinary user, because a sandbox could
work for only one of them. (A trial is a test of a promise of SECURITY.md.)

A test run by root becomes an ordinary user by `setpriv`. This user may not be able to reach the
interpreter, the packages or the checkout, if they are in the home of root. Therefore they are
mounted in a mount namespace that ends with the process. No file is copied, and no mode is changed.
"""

import os
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

PROJECT = Path(__file__).parent.parent.parent
USERS = ("root", "user")

_NOBODY = 65534

# A shell script that mounts its first three arguments in the folder $MOUNTS, and runs the others.
_MOUNT_AND_RUN = """
set -e
for pair in python:"$1" site:"$2" project:"$3"; do
    mount --bind "${pair#*:}" "$MOUNTS/${pair%%:*}"
done
shift 3
exec "$@"
"""


def missing(user: str) -> str:
    """Return why trials cannot run as this user on this machine, or "" if they can."""
    if not sys.platform.startswith("linux"):
        return "namespaces exist only on Linux"
    if user == "root" and os.geteuid() != 0:
        return "this test run is not root"
    return ""


@contextmanager
def command(user: str, arguments: Sequence[str]) -> Iterator[tuple[list[str], dict[str, str]]]:
    """Yield the command and the variables that run Python with these arguments as this user."""
    test_variables = {
        name: value for name, value in os.environ.items() if name.startswith("EXTHOST_TEST")
    }
    if user == "root" or os.geteuid() != 0:
        paths = os.pathsep.join((str(PROJECT), str(PROJECT / "src"), str(PROJECT / "sdk/src")))
        yield [sys.executable, *arguments], {**os.environ, "PYTHONPATH": paths}
        return
    with tempfile.TemporaryDirectory(prefix="exthost-user-") as folder:
        mounts = Path(folder)
        mounts.chmod(0o755)
        for name in ("python", "site", "project"):
            (mounts / name).mkdir(mode=0o755)
        home = mounts / "home"
        home.mkdir()
        os.chown(home, _NOBODY, _NOBODY)
        mounted_folders = (sys.base_prefix, sysconfig.get_path("purelib"), str(PROJECT))
        python = Path(os.path.realpath(sys.executable)).relative_to(sys.base_prefix)
        tools = {name: shutil.which(name) or name for name in ("unshare", "setpriv", "env")}
        variables = {
            **test_variables,
            "HOME": str(home),
            "EXTHOST_HOME": str(home / "state"),
            "TMPDIR": str(home),
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "PYTHONPATH": os.pathsep.join(
                str(mounts / path) for path in ("project", "project/src", "project/sdk/src", "site")
            ),
            "PYTHONDONTWRITEBYTECODE": "1",
            # Otherwise the loader would load the Python library of the system.
            "LD_LIBRARY_PATH": str(mounts / "python" / "lib"),
        }
        drop_privileges = f"--reuid={_NOBODY} --regid={_NOBODY} --clear-groups".split()
        yield (
            [
                *(tools["unshare"], "--mount", "--propagation", "private"),
                *("sh", "-c", _MOUNT_AND_RUN, "sh", *mounted_folders),
                *(tools["setpriv"], *drop_privileges),
                *(str(mounts / "python" / python), *arguments),
            ],
            {**variables, "MOUNTS": folder},
        )
