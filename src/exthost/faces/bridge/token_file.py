"""The file with the tokens of a login at a remote MCP server, the registration of this client at
the server, and the scope (a list of rights) that the server has asked for.

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
        self._write("tokens", _to_json(tokens))

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._read("client", OAuthClientInformationFull)

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._write("client", _to_json(client_info))

    def get_scope(self) -> str:
        """Return the scope for the next login; "" for that which the server advertises."""
        scope = self._read_all().get("scope")
        return scope if isinstance(scope, str) else ""

    def set_scope(self, scope: str) -> None:
        """Set the scope for the next login."""
        self._write("scope", scope)

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

    def _write(self, key: str, value: Any) -> None:
        values = self._read_all() | {key: value}
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


def _to_json(value: BaseModel) -> Any:
    return value.model_dump(mode="json", exclude_none=True)


class NewLogin(TokenStorage):
    """The storage of a login that replaces an earlier one: nothing is read, so that the server is
    asked for new tokens, and a new registration, which has the redirect of this login."""

    def __init__(self, file: TokenFile) -> None:
        self._file = file

    async def get_tokens(self) -> OAuthToken | None:
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        await self._file.set_tokens(tokens)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        await self._file.set_client_info(client_info)
