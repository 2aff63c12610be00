"""The file with the tokens of a login, and with the registration of this client at the server.

Only its user can read it. A file that others can read is refused, because its tokens may be known.
"""

import contextlib
import json
import os
import secrets
import stat
from pathlib import Path
from typing import Any, TypeVar

from mcp.client.auth import TokenStorage
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import BaseModel, ValidationError

from exthost.errors import Evidence, Refused
from exthost.process.private_folders import make_folder

_FILE = "tokens.json"

_Model = TypeVar("_Model", bound=BaseModel)


class TokenFile(TokenStorage):
    """Reads and writes the file. `folder` is made when something is written."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / _FILE

    def exists(self) -> bool:
        return self.path.exists()

    def delete(self) -> bool:
        """Delete the file, and return whether it existed."""
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()
            return True
        return False

    async def get_tokens(self) -> OAuthToken | None:
        return self._read("tokens", OAuthToken)

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._write("tokens", tokens)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._read("client", OAuthClientInformationFull)

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._write("client", client_info)

    def _read(self, key: str, model: type[_Model]) -> _Model | None:
        value = self._read_all().get(key)
        try:
            return None if value is None else model.model_validate(value)
        except ValidationError:
            return None  # of another version: the login is repeated

    def _read_all(self) -> dict[str, Any]:
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return {}
        with os.fdopen(descriptor, "rb") as file:
            if stat.S_IMODE(os.fstat(descriptor).st_mode) & 0o077:
                raise Refused(
                    "X1806",
                    f"other users can read the tokens in {self.path}",
                    help="log in again: exthost bridge URL --logout, then --login",
                    evidence=Evidence(path=str(self.path)),
                )
            try:
                values = json.load(file)
            except ValueError:
                return {}
        return values if isinstance(values, dict) else {}

    def _write(self, key: str, value: BaseModel) -> None:
        values = self._read_all() | {key: value.model_dump(mode="json", exclude_none=True)}
        make_folder(self.path.parent)
        new = self.path.with_name(f".{_FILE}.{secrets.token_hex(8)}")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(values, file)
            new.replace(self.path)
        except BaseException:
            new.unlink(missing_ok=True)
            raise
