"""Computes the paths of the host's own files: in `$EXTHOST_HOME`, or the platform's state folder.

For example, the state folder of the extension `weather` is
`~/.local/state/exthost/extensions/weather` on Linux.

Pure: nothing is created. The folder of an extension is named after its id, in which characters that
could lead out of the folder are replaced.
"""

import hashlib
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path, PurePosixPath

from exthost.process.state_root import state_root

# An id of this form is used as it is. In other ids, characters are replaced (also a leading dot),
# and a hash is added, so that two ids never have the same name.
_SAFE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}")
# The form of such a name. An id of this form gets a hash of its own.
_HASHED = re.compile(r"[A-Za-z0-9_-]{0,80}\.[0-9a-f]{12}")


def state_folder(environ: Mapping[str, str], extension: str) -> str:
    """Return the state folder of one extension."""
    return f"{_extensions(state_root(environ))}/{_file_name(extension)}"


@lru_cache(maxsize=8)
def _extensions(root: str) -> str:
    return str(PurePosixPath(root, "extensions"))


def bytecode_root(environ: Mapping[str, str], extension: str) -> Path:
    """Return the folder with all compiled modules of a locked extension."""
    return Path(state_root(environ), "bytecode", _file_name(extension)).absolute()


def log_file(environ: Mapping[str, str], config: str, extension: str) -> str:
    """Return the log file of an extension. `config` is the key of the host's config file, since the
    hosts of several configs may have an extension of the same id."""
    return str(PurePosixPath(state_root(environ), "logs", config, _file_name(extension) + ".log"))


def offer_file(environ: Mapping[str, str], config: str, extension: str) -> str:
    """Return the file with the last offer of an extension, which is the list of its tools and what
    else it offers. `config` is as in `log_file`."""
    root = state_root(environ)
    return str(PurePosixPath(root, "offers", config, _file_name(extension) + ".json"))


def replies_file(environ: Mapping[str, str], config: str) -> str:
    """Return the file with the first replies to clients. `config` is as in `log_file`."""
    return str(PurePosixPath(state_root(environ), "offers", f"{config}.replies.json"))


def _file_name(extension: str) -> str:
    if _SAFE.fullmatch(extension) and not _HASHED.fullmatch(extension):
        return extension
    digest = hashlib.sha256(extension.encode(errors="surrogatepass")).hexdigest()[:12]
    return re.sub(r"[^A-Za-z0-9_-]", "_", extension)[:80] + "." + digest
