"""Finds or creates the bearer token of an HTTP service (the web page or the gateway of a host), and
checks whether a token is valid.

The token comes from a file or from an environment variable, or is generated. A file may contain
several tokens, one per line. The file may change while the host runs: it is read again when the
next request is checked. So a token can be replaced without an interruption: add the new token,
change the clients, delete the old token. If the file cannot be used any more, every request is
refused.
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

_log = logging.getLogger("exthost.faces.http_server")

VARIABLE = "EXTHOST_GATEWAY_TOKEN"

# Long enough for many tokens.
_MAX_FILE_BYTES = 4096

# Without NONBLOCK, opening a pipe without a writer would wait forever.
_READ_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK


class Token(NamedTuple):
    """A token and where it comes from.

    text    the token; of a file with several, the first
    source  the name of the file or of the variable; "" if the token was generated
    file    the absolute path of the file, or None
    """

    text: str
    source: str = ""
    file: Path | None = None


class Tokens:
    """The tokens that are valid now."""

    def __init__(self, token: Token) -> None:
        self._file = token.file
        # The state of the file when it was last read. The initial value differs from the state of
        # any file, so that the file is read before the first request.
        self._file_state: object = self
        self._texts: tuple[str, ...] = (token.text,)

    @property
    def texts(self) -> tuple[str, ...]:
        """The valid tokens; empty if their file cannot be used."""
        if self._file is not None:
            state = _read_file_state(self._file)
            if state != self._file_state:
                self._file_state = state
                self._texts = self._read_or_refuse(self._file)
        return self._texts

    def is_valid(self, text: str) -> bool:
        """Return whether this is a valid token."""
        candidate = text.encode("utf-8", "replace")
        return any(hmac.compare_digest(candidate, valid.encode()) for valid in self.texts)

    def _read_or_refuse(self, file: Path) -> tuple[str, ...]:
        """Return the tokens in the file. If it cannot be used, log a warning and return (), so
        that every request is refused."""
        try:
            return _read_file(file)
        except ConfigError as error:
            _log.warning("no client can connect over HTTP: %s; %s", error.message, error.help)
            return ()


def _read_file_state(path: Path) -> object:
    """Return a value that changes when the file is written or replaced."""
    try:
        status = path.stat()
    except OSError as error:
        return error.errno
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size, status.st_mode


def find_token(file: str | None, environ: Mapping[str, str]) -> Token:
    """Return the token of a service.

    If `file` is not None, it is the first token in this file, which is created with a new token if
    it does not exist. Otherwise it is the value of the environment variable, or a new token. Raises
    ConfigError if the file or the variable cannot be used.
    """
    if file is not None:
        path = Path(file)
        return Token(_create_file(path) or _read_file(path)[0], file, path.absolute())
    if environ.get(VARIABLE):
        return Token(_check_token(environ[VARIABLE], VARIABLE), VARIABLE)
    return Token(secrets.token_urlsafe(32))


def _create_file(path: Path) -> str | None:
    """Write a new token to the file and return it; None if the file exists."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return None
    except OSError as error:
        raise _unusable_token_error(path, f"it cannot be made: {error.strerror}") from None
    token = secrets.token_urlsafe(32)
    with os.fdopen(fd, "w") as file:
        file.write(token + "\n")
    return token


def _read_file(path: Path) -> tuple[str, ...]:
    """Return the tokens in the file. Raises ConfigError."""
    try:
        fd = os.open(path, _READ_FLAGS)
        try:
            status = os.fstat(fd)
            is_plain = stat.S_ISREG(status.st_mode)
            data = os.read(fd, _MAX_FILE_BYTES + 1) if is_plain else b""
        finally:
            os.close(fd)
        text = data.decode()
    except (OSError, ValueError) as error:
        raise _unusable_token_error(path, f"it cannot be read: {error}") from None
    if not is_plain or len(text) > _MAX_FILE_BYTES:
        raise _unusable_token_error(path, f"it is not a file of at most {_MAX_FILE_BYTES} bytes")
    if status.st_uid not in (0, os.geteuid()):
        raise _unusable_token_error(path, "another user owns it", "chown it, or name another file")
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise _unusable_token_error(path, "others can read it", "chmod 600 it")
    lines = [line for line in text.splitlines() if line.strip()]
    # An empty file is checked as an empty token, which raises.
    return tuple(_check_token(line, str(path)) for line in lines or [""])


def _check_token(text: str, source: str) -> str:
    """Return the token without surrounding blanks. Raises ConfigError if it cannot be a token."""
    token = text.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise _unusable_token_error(
            source, "it has no token: a line of printable ASCII without blanks"
        )
    return token


def _unusable_token_error(source: str | Path, reason: str, help: str = "") -> ConfigError:
    return ConfigError(
        "X0166",
        f"the token of {source} cannot be used: {reason}",
        help=help or "without it, a new token is made and shown on stderr",
        evidence=Evidence(path=str(source)),
    )
