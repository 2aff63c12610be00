"""Where state of ours lives: `$EXTHOST_HOME`, else the platform's state folder.

Pure: says where, makes nothing. An extension's own folder is named after its id, made safe, so
that no id can lead out of the house.
"""

import hashlib
import re
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import PurePosixPath

__all__ = ["home", "log_file", "state_folder"]

# Anything else, a leading dot included, is replaced; then a hash keeps the ids apart.
_SAFE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}")


def home(environ: Mapping[str, str]) -> str:
    """The folder of everything we keep."""
    get = environ.get
    return _home(get("EXTHOST_HOME"), get("HOME"), get("XDG_STATE_HOME", ""))


@lru_cache(maxsize=8)  # asked at every start
def _home(named: str | None, user: str | None, state: str) -> str:
    if named:
        return named
    user = user or "/"
    if sys.platform == "darwin":
        return str(PurePosixPath(user, "Library", "Application Support", "exthost"))
    # By its standard, a relative path there is to be ignored.
    base = state if state.startswith("/") else str(PurePosixPath(user, ".local", "state"))
    return str(PurePosixPath(base, "exthost"))


def state_folder(environ: Mapping[str, str], extension: str) -> str:
    """The folder that is an extension's own."""
    return f"{_extensions(home(environ))}/{_file_name(extension)}"


@lru_cache(maxsize=8)
def _extensions(home: str) -> str:
    return str(PurePosixPath(home, "extensions"))


def log_file(environ: Mapping[str, str], config: str, extension: str) -> str:
    """Where the log of an extension is kept that a host of this config (by its key) runs."""
    return str(PurePosixPath(home(environ), "logs", config, _file_name(extension) + ".log"))


def _file_name(extension: str) -> str:
    if _SAFE.fullmatch(extension):
        return extension
    digest = hashlib.sha256(extension.encode(errors="surrogatepass")).hexdigest()[:12]
    return re.sub(r"[^A-Za-z0-9_-]", "_", extension)[:80] + "." + digest
