"""Where the bearer token of the HTTP gateway comes from: a file, the environment, or chance."""

import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from exthost.errors import ConfigError, Evidence

VARIABLE = "EXTHOST_GATEWAY_TOKEN"


class Token(NamedTuple):
    """The token, and where the operator finds it; "" if only we know it."""

    text: str
    source: str = ""


def find(file: str | None, environ: Mapping[str, str]) -> Token:
    """The token in the file, which is made if it is not there; else the variable's; else a new one.
    Raises ConfigError for one that cannot be used."""
    if file is not None:
        return Token(_from_file(Path(file)), file)
    if environ.get(VARIABLE):
        return Token(_usable(environ[VARIABLE], VARIABLE), VARIABLE)
    return Token(secrets.token_urlsafe(32))


def _from_file(path: Path) -> str:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        pass
    except OSError as error:
        raise _unfit(path, f"it cannot be made: {error.strerror}") from None
    else:
        token = secrets.token_urlsafe(32)
        with os.fdopen(fd, "w") as file:
            file.write(token + "\n")
        return token
    try:
        with path.open() as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read(4096)
    except (OSError, ValueError) as error:
        raise _unfit(path, f"it cannot be read: {error}") from None
    if stat.S_IMODE(mode) & 0o077:
        raise _unfit(path, "others can read it", "chmod 600 it")
    return _usable(text, str(path))


def _usable(text: str, source: str) -> str:
    token = text.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise _unfit(source, "it holds no token: one line of printable ASCII without blanks")
    return token


def _unfit(source: str | Path, why: str, help: str = "") -> ConfigError:
    return ConfigError(
        "X0166",
        f"the token of {source} cannot be used: {why}",
        help=help or "leave it out, and a new token is made and shown on stderr",
        evidence=Evidence(path=str(source)),
    )
