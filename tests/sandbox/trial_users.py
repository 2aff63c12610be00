"""The users that run trials: root, and an ordinary user. A sandbox may hold for one only.

A test run by root becomes an ordinary user by `setpriv`. That user may not be able to reach the
interpreter, the packages or the checkout, if they are below root's home. So they are mounted in a
mount namespace that ends with the process. Nothing is copied, and no mode is changed.
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

# Each pair of words after the count is shown: what, and where. The rest is the command.
_SHOW = """
set -e
for pair in python:"$1" site:"$2" project:"$3"; do
    mount --bind "${pair#*:}" "$ROOMS/${pair%%:*}"
done
shift 3
exec "$@"
"""


def missing(user: str) -> str:
    """Return why trials cannot be run as this user on this machine; "" if they can."""
    if not sys.platform.startswith("linux"):
        return "namespaces are Linux's"
    if user == "root" and os.geteuid() != 0:
        return "we are not root"
    return ""


@contextmanager
def command(user: str, words: Sequence[str]) -> Iterator[tuple[list[str], dict[str, str]]]:
    """Return the command and the variables that run Python as this user."""
    mark = {name: value for name, value in os.environ.items() if name.startswith("EXTHOST_TEST")}
    if user == "root" or os.geteuid() != 0:
        paths = os.pathsep.join((str(PROJECT), str(PROJECT / "src")))
        yield [sys.executable, *words], {**os.environ, "PYTHONPATH": paths}
        return
    with tempfile.TemporaryDirectory(prefix="exthost-user-") as folder:
        rooms = Path(folder)
        rooms.chmod(0o755)
        for room in ("python", "site", "project"):
            (rooms / room).mkdir(mode=0o755)
        home = rooms / "home"
        home.mkdir()
        os.chown(home, _NOBODY, _NOBODY)
        shown = (sys.base_prefix, sysconfig.get_path("purelib"), str(PROJECT))
        python = Path(os.path.realpath(sys.executable)).relative_to(sys.base_prefix)
        tools = {name: shutil.which(name) or name for name in ("unshare", "setpriv", "env")}
        variables = {
            **mark,
            "HOME": str(home),
            "EXTHOST_HOME": str(home / "state"),
            "TMPDIR": str(home),
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "PYTHONPATH": os.pathsep.join(
                (str(rooms / "project"), str(rooms / "project/src"), str(rooms / "site"))
            ),
            "PYTHONDONTWRITEBYTECODE": "1",
            # Or the loader takes the system's Python library for one that is out of reach.
            "LD_LIBRARY_PATH": str(rooms / "python" / "lib"),
        }
        drop = f"--reuid={_NOBODY} --regid={_NOBODY} --clear-groups".split()
        yield (
            [
                *(tools["unshare"], "--mount", "--propagation", "private"),
                *("sh", "-c", _SHOW, "sh", *shown),
                *(tools["setpriv"], *drop),
                *(str(rooms / "python" / python), *words),
            ],
            {**variables, "ROOMS": folder},
        )
