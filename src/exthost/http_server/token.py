"""The bearer token of a service on HTTP: where it comes from, and which tokens are valid now.

It comes from a file or the environment, or is generated. A file may have several tokens, one per
line, and may change while the host runs: it is read again before the next request is checked. So a
token can be replaced without a pause: add the new one, move the clients, delete the old one. If the
file cannot be used any more, every request is refused.
"""

import hmac
import logging
import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from exthost.errors import ConfigError, Evidence

_log = logging.getLogger("exthost.http_server")

VARIABLE = "EXTHOST_GATEWAY_TOKEN"

# Longer than a few tokens.
_MAX_FILE_BYTES = 4096


class Token(NamedTuple):
    """The first token, and where the operator finds it; "" if only we know it. `file` is its file,
    if it is in one."""

    text: str
    source: str = ""
    file: Path | None = None


class Tokens:
    """The tokens that are valid now."""

    def __init__(self, token: Token) -> None:
        self._file = token.file
        # A state that no file is in, so that the file is read before the first request.
        self._state: object = self
        self._texts: tuple[str, ...] = (token.text,)

    @property
    def texts(self) -> tuple[str, ...]:
        """The valid tokens; none if their file cannot be used."""
        if self._file is not None:
            state = _file_state(self._file)
            if state != self._state:
                self._state = state
                self._texts = self._read(self._file)
        return self._texts

    def is_valid(self, text: str) -> bool:
        """Return whether this is a valid token."""
        given = text.encode("utf-8", "replace")
        return any(hmac.compare_digest(given, valid.encode()) for valid in self.texts)

    def _read(self, file: Path) -> tuple[str, ...]:
        try:
            return _read_file(file)
        except ConfigError as error:
            _log.warning("nobody can connect on HTTP: %s; %s", error.message, error.help)
            return ()


def _file_state(path: Path) -> object:
    """Return a value that changes when the file is written or replaced."""
    try:
        status = path.stat()
    except OSError as error:
        return error.errno
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size, status.st_mode


def find_token(file: str | None, environ: Mapping[str, str]) -> Token:
    """The token in the file, which is made if it is not there; else the variable's; else a new one.
    Raises ConfigError for one that cannot be used."""
    if file is not None:
        path = Path(file)
        return Token(_make_file(path) or _read_file(path)[0], file, path.absolute())
    if environ.get(VARIABLE):
        return Token(_usable(environ[VARIABLE], VARIABLE), VARIABLE)
    return Token(secrets.token_urlsafe(32))


def _make_file(path: Path) -> str | None:
    """Write a new token to the file and return it; None if the file exists."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return None
    except OSError as error:
        raise _unfit(path, f"it cannot be made: {error.strerror}") from None
    token = secrets.token_urlsafe(32)
    with os.fdopen(fd, "w") as file:
        file.write(token + "\n")
    return token


def _read_file(path: Path) -> tuple[str, ...]:
    """Return the tokens in the file. Raises ConfigError."""
    try:
        with path.open() as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read(_MAX_FILE_BYTES)
    except (OSError, ValueError) as error:
        raise _unfit(path, f"it cannot be read: {error}") from None
    if stat.S_IMODE(mode) & 0o077:
        raise _unfit(path, "others can read it", "chmod 600 it")
    lines = [line for line in text.splitlines() if line.strip()]
    return tuple(_usable(line, str(path)) for line in lines or [""])


def _usable(text: str, source: str) -> str:
    token = text.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise _unfit(source, "it holds no token: a line of printable ASCII without blanks")
    return token


def _unfit(source: str | Path, why: str, help: str = "") -> ConfigError:
    return ConfigError(
        "X0166",
        f"the token of {source} cannot be used: {why}",
        help=help or "leave it out, and a new token is made and shown on stderr",
        evidence=Evidence(path=str(source)),
    )
