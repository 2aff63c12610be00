"""Lets a program use the SDK of this exthost, if the Python that runs the program has none.

exthost may be installed in a separate environment (pipx, uv tool), whose packages `python3` does
not see. The subcommands for authors of extensions (`inspect`, `call`, `check`, `dev`, `pack`) then
run a new extension all the same: the program gets a copy of the SDK, for the dialect cigen also of
protobuf, and none of the other packages of that environment.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from exthost.faces.cli.common import say
from exthost.model.spec import Spec
from exthost.process.small_files import read_start

_SDK = "exthost_sdk"
_PYTHONPATH = "PYTHONPATH"

# A program of Python exits with 1 if it finds no such module.
_PROBE = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({_SDK!r}) is None)"
_PROBE_SECONDS = 20.0

# How much of a program is searched for the import.
_SEARCHED_BYTES = 65536


@contextmanager
def lend_sdk(spec: Spec) -> Iterator[Spec]:
    """Yield the spec. If its program lacks the SDK, the yielded spec has a PYTHONPATH that leads to
    a copy of the SDK, which exists inside the `with` block."""
    if not _lacks_sdk(spec):
        yield spec
        return
    say(
        f"{spec.argv[0]} has no {_SDK}, and uses that of exthost; elsewhere the extension needs "
        "pip install exthost-sdk"
    )
    with tempfile.TemporaryDirectory(prefix="exthost-sdk-") as folder:
        # Imported here, because a program that has an SDK needs no copy of ours.
        import exthost_sdk

        shutil.copytree(Path(exthost_sdk.__file__).parent, Path(folder, _SDK))
        if spec.dialect == "cigen":
            import google.protobuf

            package = Path(google.protobuf.__file__).parent
            for source in (package, package.with_name("_upb")):  # the second is its compiled part
                if source.is_dir():
                    shutil.copytree(source, Path(folder, "google", source.name))
        yield replace(spec, env={**spec.env, _PYTHONPATH: folder})


def _lacks_sdk(spec: Spec) -> bool:
    """Return whether the spec runs a program of Python that imports the SDK and cannot find it."""
    program = Path(spec.argv[0]).name if spec.argv else ""
    if not program.startswith("python") or _PYTHONPATH in spec.env:
        return False
    folder = Path(spec.cwd or ".")
    scripts = [folder / word for word in spec.argv[1:] if word.endswith(".py")]
    if not scripts or not _imports_sdk(scripts[0]):
        return False
    python = shutil.which(spec.argv[0], path=os.environ.get("PATH"))
    if python is None or python == sys.executable:  # this Python has the SDK
        return False
    try:
        probe = subprocess.run(
            [python, "-c", _PROBE],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return probe.returncode == 1


def _imports_sdk(script: Path) -> bool:
    try:
        return _SDK.encode() in read_start(str(script), _SEARCHED_BYTES)
    except OSError:
        return False
