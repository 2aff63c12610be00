"""Remembers the last offer of each extension of a config, so that it is listed before it runs.

An offer is what an extension announces in its handshake, such as its tools. It is kept in the state
folder, in one file for each extension of a config. The file also has a key: a digest of what would
be run, such as the command, the contents of the files that it names, the version, the names of the
variables, the permissions and the record in the lock. If one of these has changed, the offer is not
used. The next handshake replaces it.

Only the host writes these files. What an extension has announced is only data in them: it is
checked when it is read, and not executed or used as a path. A file that is damaged, or that another
user can write, is ignored, which is logged.
"""

import hashlib
import json
import logging
import os
import shutil
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from exthost.dialects import find
from exthost.host.control.as_data import as_data
from exthost.host.control.socket_path import config_key
from exthost.model.offer import Offer, Tool
from exthost.model.spec import KnownOffer, Spec
from exthost.process.private_folders import make_folder
from exthost.process.state_dirs import offer_file

_log = logging.getLogger("exthost.host")

# A larger file is not read. The lists of real servers have at most some hundred kilobytes.
MAX_FILE_BYTES = 16 * 2**20

# If a file that the command names is larger, only its size and its time of change are part of the
# key: reading the file would take longer than the start of a small program.
_MAX_HASHED_BYTES = 2 * 2**20


class KnownOffers:
    """The offers of the extensions of one config.

    With `defers_starts`, an extension that starts with the host by default starts at its first call
    instead if its offer is known."""

    def __init__(
        self, config: str, environ: Mapping[str, str], *, defers_starts: bool = False
    ) -> None:
        self._config_key = config_key(config)
        self._environ = environ
        self._defers_starts = defers_starts
        # By the id of an extension: the data of its file, and the key at the time of `recall`.
        self._written: dict[str, bytes] = {}
        self._keys: dict[str, str] = {}
        # The extensions that have sent requests to their client, as MCP servers may. The processes
        # of such an extension are not shared by the clients of a gateway.
        self._asking: set[str] = set()
        self._has_warned = False

    def recall(self, specs: Sequence[Spec]) -> list[Spec]:
        """Return these extensions with their last offers (`known_offer`). Blocks: files are
        read."""
        return [self._with_known_offer(spec) for spec in specs]

    def _with_known_offer(self, spec: Spec) -> Spec:
        offer = self._read(spec) if spec.enabled else None
        if offer is None:
            return spec
        known_offer = KnownOffer(offer, self._defers_starts, spec.id in self._asking)
        return replace(spec, known_offer=known_offer)

    def record(self, spec: Spec, offer: Offer) -> None:
        """Remember the offer of a handshake. A file that cannot be written is logged once."""
        if not _is_announced(spec):
            return
        # The key as it was before the start: a file may have changed since.
        key = self._keys.get(spec.id) or self._key(spec)
        try:
            document = {
                "key": key,
                "asks_client": spec.id in self._asking,
                "offer": _offer_data(offer),
            }
            data = json.dumps(document).encode()
        except (TypeError, ValueError, RecursionError):
            return  # it has a value that is not JSON
        if self._written.get(spec.id) == data or len(data) > MAX_FILE_BYTES:
            return
        try:
            write_own_file(Path(self._path(spec.id)), data)
        except OSError as error:
            if not self._has_warned:
                self._has_warned = True
                _log.warning("what extensions offer is not remembered: %s", error)
        else:
            self._written[spec.id] = data

    def record_request(self, spec: Spec, offer: Offer) -> None:
        """Remember that an extension has sent a request to its client."""
        if spec.id not in self._asking:
            self._asking.add(spec.id)
            self.record(spec, offer)

    def _read(self, spec: Spec) -> Offer | None:
        """Return the last offer of an extension; None if it is not known or must not be used."""
        if not _is_announced(spec):
            return None
        self._keys[spec.id] = key = self._key(spec)
        path = self._path(spec.id)
        try:
            data = read_own_file(path)
            document = json.loads(data)
            if document["key"] != key:
                return None
            offer = _read_offer(document["offer"])
            if _expect(document["asks_client"], bool):
                self._asking.add(spec.id)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            _log.warning(
                "%s: what it offered last cannot be read from %s, and is ignored: %s",
                spec.id,
                path,
                error,
            )
            return None
        self._written[spec.id] = data
        return offer

    def _path(self, extension: str) -> str:
        """Return the path of the file with the offer of this extension."""
        return offer_file(self._environ, self._config_key, extension)

    def _key(self, spec: Spec) -> str:
        """Return a digest of what would be run."""
        parts = (
            spec.dialect,
            spec.source,
            spec.argv,
            spec.cwd,
            [_file_identity(path) for path in self._files(spec)],
            spec.version,
            sorted((name, _reference(value)) for name, value in spec.env.items()),
            sorted(spec.requires.env),
            spec.env_policy,
            repr(spec.permissions),
            spec.sandbox,
            repr(spec.sha256),
            repr(spec.lock),
            repr(sorted(spec.options.items(), key=str)),
            repr(spec.config),
        )
        return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()

    def _files(self, spec: Spec) -> Iterable[str]:
        """Yield the paths of the files that the command names."""
        folder = spec.cwd or os.path.dirname(spec.config_file) or "."  # noqa: PTH120
        for index, word in enumerate(spec.argv):
            if index == 0 and "/" not in word:  # the program, which is searched for in PATH
                program = shutil.which(word, path=self._environ.get("PATH"))
                if program is not None:
                    yield program
            elif "\0" not in word and len(word) < 4096:  # it may be a path
                yield os.path.join(folder, word)  # noqa: PTH118


# Flags to create a file. A symlink in its place is not followed.
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW


def forget_offer(config: str, environ: Mapping[str, str], extension: str) -> bool:
    """Forget what an extension of this config offered last. Return whether that was known."""
    try:
        os.unlink(offer_file(environ, config_key(config), extension))  # noqa: PTH108
    except FileNotFoundError:
        return False
    return True


def _is_announced(spec: Spec) -> bool:
    """Return whether the handshake of an extension announces its tools."""
    return find.find_dialect_of(spec).traits.tools == "handshake"


def _reference(value: str) -> str:
    """Return the name of the host's variable that a value refers to (a `ValueReference`, which is a
    subclass of str). Return "" for a plain str, which may be a secret."""
    return value if type(value) is not str else ""


def _file_identity(path: str) -> tuple[str, ...]:
    """Return what identifies the contents of a file; () if it is not a file that can be read."""
    try:
        status = os.stat(path)  # noqa: PTH116
        if not stat.S_ISREG(status.st_mode):
            return ()
        if status.st_size > _MAX_HASHED_BYTES:
            return (os.path.realpath(path), str(status.st_size), str(status.st_mtime_ns))
        with open(path, "rb") as file:  # noqa: PTH123
            return (hashlib.sha256(file.read(_MAX_HASHED_BYTES)).hexdigest(),)
    except (OSError, ValueError):
        return ()


def write_own_file(path: Path, data: bytes) -> None:
    """Replace a file of the state folder, which only this user can read, in one step. Raises
    OSError."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    make_folder(path.parent)
    try:
        with os.fdopen(os.open(temporary, _NEW_FILE, 0o600), "wb") as file:
            file.write(data)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def read_own_file(path: str) -> bytes:
    """Return the contents of a file that only this user can write. Raises OSError, and ValueError
    for any other file."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            raise ValueError("it is not a file of this user")
        if status.st_mode & 0o022:
            raise ValueError("other users can write it")
        if status.st_size > MAX_FILE_BYTES:
            raise ValueError(f"it is larger than {MAX_FILE_BYTES:,} bytes")
        return file.read()


def _offer_data(offer: Offer) -> dict[str, Any]:
    """Return an offer as JSON data, which `_read_offer` reads."""
    return {
        "name": offer.name,
        "version": offer.version,
        "hooks": list(offer.hooks),
        "capabilities": list(offer.capabilities),
        "extra": as_data(dict(offer.extra)),
        "tools": [
            {
                "name": tool.name,
                "description": tool.description,
                "input_schema": as_data(tool.input_schema),
                "output_schema": as_data(tool.output_schema),
                "extra": as_data(dict(tool.extra)),
                "seconds": tool.seconds,
            }
            for tool in offer.tools
        ],
    }


def _read_offer(data: Any) -> Offer:
    """Return the offer in this data. Raises ValueError, KeyError and TypeError if it is damaged."""
    return Offer(
        tools=tuple(_read_tool(tool) for tool in _expect(data["tools"], list)),
        version=_expect(data["version"], str),
        name=_expect(data["name"], str),
        hooks=tuple(_expect(hook, str) for hook in _expect(data["hooks"], list)),
        extra=_expect(data["extra"], dict),
        capabilities=tuple(_expect(text, str) for text in _expect(data["capabilities"], list)),
    )


def _read_tool(data: Any) -> Tool:
    seconds = data["seconds"]
    return Tool(
        name=_expect(data["name"], str),
        description=_expect(data["description"], str),
        input_schema=data["input_schema"],
        output_schema=data["output_schema"],
        extra=_expect(data["extra"], dict),
        seconds=None if seconds is None else float(seconds),
    )


def _expect(value: Any, kind: type) -> Any:
    """Return the value. Raises ValueError if it has another type."""
    if not isinstance(value, kind):
        raise ValueError(f"{kind.__name__} was expected, not {type(value).__name__}")  # noqa: TRY004
    return value
