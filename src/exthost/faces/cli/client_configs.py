"""The config files of MCP clients, and the entry of a gateway in them (`exthost gateway install`).

The entry makes a client start `exthost gateway` as one of its MCP servers, for example
`{"mcpServers": {"exthost": {"command": "exthost", "args": ["gateway", "--config", "…"]}}}`.

Everything else in a file stays as it is, with its comments. The new text is written only if it has
exactly the intended meaning. A copy of the old file is kept beside it.
"""

import copy
import json
import shutil
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exthost.config.jsonc_edit import remove_member, set_member
from exthost.errors import ConfigError, Evidence, UsageError
from exthost.faces.cli.config_edit import replace_file
from exthost.faces.cli.server_files import path_variables
from exthost.model.documents import jsonc

BACKUP_SUFFIX = ".before-exthost"


@dataclass(frozen=True, slots=True)
class ClientFile:
    """An MCP client: its config file, and the section with its servers. `members` are the members
    of each entry besides `command` and `args`."""

    path: str
    section: str = "mcpServers"
    members: Mapping[str, str] | None = None


CLIENTS = {
    "claude-desktop": ClientFile("{settings}/Claude/claude_desktop_config.json"),
    "claude-code": ClientFile("{home}/.claude.json", members={"type": "stdio"}),
    "vscode": ClientFile("{settings}/Code/User/mcp.json", "servers", {"type": "stdio"}),
    "cursor": ClientFile("{home}/.cursor/mcp.json"),
    "zed": ClientFile("{home}/.config/zed/settings.json", "context_servers", {"source": "custom"}),
    "codex": ClientFile("{codex}/config.toml", "mcp_servers"),
    "gemini": ClientFile("{home}/.gemini/settings.json"),
}


class ClientConfig:
    """The config file of a client."""

    def __init__(self, client: str, environ: Mapping[str, str]) -> None:
        self._client = CLIENTS[client]
        folders = path_variables(environ, Path.cwd())
        folders["codex"] = environ.get("CODEX_HOME") or f"{folders['home']}/.codex"
        self.path = Path(self._client.path.format_map(folders)).resolve()
        self._text = self._read()
        self._document = self._parse(self._text)

    def entry(self, config: Path) -> dict[str, Any]:
        """Return the entry that starts the gateway of this config."""
        own = Path(sys.executable).with_name("exthost")
        command = [str(own)] if own.exists() else [sys.executable, "-P", "-m", "exthost"]
        members = dict(self._client.members or {})
        return {
            **members,
            "command": command[0],
            "args": [*command[1:], "gateway", "--config", str(config.absolute())],
        }

    def find(self, name: str) -> Any:
        """Return the entry of this name; None if there is none."""
        servers = self._document.get(self._client.section)
        return servers.get(name) if isinstance(servers, dict) else None

    def install(self, name: str, entry: dict[str, Any]) -> bool:
        """Write the entry, and return whether something has changed. Raises UsageError if another
        server has the name."""
        present = self.find(name)
        if present == entry:
            return False
        self.check_name(name)
        expected = copy.deepcopy(self._document)
        section = expected.setdefault(self._client.section, {})
        if not isinstance(section, dict):
            raise self._unreadable(f"its {self._client.section} is not an object")
        section[name] = entry
        self._write(self._edit(name, entry), expected, name, entry)
        return True

    def check_name(self, name: str) -> None:
        """Raise UsageError if another server has the name."""
        present = self.find(name)
        if present is not None and not _is_gateway(present):
            raise UsageError(
                "X1816",
                f"{self.path} has another server {name!r}",
                help="choose another name: --name NAME",
                evidence=Evidence(path=str(self.path)),
            )

    def has_gateway(self, name: str) -> bool:
        """Return whether there is an entry of this name that runs a gateway."""
        return _is_gateway(self.find(name))

    def remove(self, name: str) -> bool:
        """Remove the entry, and return whether it was there."""
        present = self.find(name)
        if not self.has_gateway(name):
            return False
        expected = copy.deepcopy(self._document)
        del expected[self._client.section][name]
        if self.path.suffix == ".toml" and not expected[self._client.section]:
            del expected[self._client.section]
        self._write(self._edit(name, None), expected, name, present)
        return True

    def _edit(self, name: str, entry: dict[str, Any] | None) -> str | None:
        """Return the text of the file with this entry (None: without it), or None if the text
        cannot be edited."""
        section = self._client.section
        if self.path.suffix == ".toml":
            return _edit_toml(self._text, section, name, entry)
        if entry is None:
            return remove_member(self._text, section, name)
        return set_member(self._text, section, name, entry)

    def _write(self, text: str | None, expected: Any, name: str, entry: Any) -> None:
        """Write the new text, after making a copy of the file. Raises UsageError if its meaning is
        not the expected document; the error shows the entry to write by hand."""
        try:
            is_intended = text is not None and self._parse(text) == expected
        except ConfigError:
            is_intended = False
        if text is None or not is_intended:
            section = self._client.section
            if name not in expected.get(section, {}):
                help = f"take {name} out of {section} by hand"
            elif self.path.suffix == ".toml":
                help = f"add it by hand: {section}.{json.dumps(name)} = {_inline_table(entry)}"
            else:
                help = f"edit {section} by hand: {json.dumps({name: entry}, ensure_ascii=False)}"
            raise UsageError(
                "X1816",
                f"{self.path} cannot be edited without changing more of it",
                help=help,
                evidence=Evidence(path=str(self.path)),
            )
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self.path.exists():
                shutil.copy2(self.path, self.path.with_name(self.path.name + BACKUP_SUFFIX))
        except OSError as error:
            raise UsageError(
                "X1816",
                f"no copy of {self.path} could be made: {error.strerror}",
                help="check the permissions of its folder",
                evidence=Evidence(path=str(self.path)),
            ) from None
        replace_file(self.path, text)

    def _read(self) -> str:
        try:
            return self.path.read_bytes().decode()  # not `read_text`, which changes line endings
        except FileNotFoundError:
            return ""
        except (OSError, UnicodeDecodeError) as error:
            raise self._unreadable(getattr(error, "strerror", None) or "not UTF-8") from None

    def _parse(self, text: str) -> dict[str, Any]:
        if not text.strip():
            return {}
        try:
            document = tomllib.loads(text) if self.path.suffix == ".toml" else jsonc.loads(text)
        except (ValueError, RecursionError) as error:
            raise self._unreadable(str(error)) from None
        if not isinstance(document, dict):
            raise self._unreadable("it is not an object")
        return document

    def _unreadable(self, reason: str) -> ConfigError:
        return ConfigError(
            "X1817",
            f"{self.path} cannot be read: {reason}",
            help="correct the file; nothing was changed",
            evidence=Evidence(path=str(self.path)),
        )


def _is_gateway(entry: Any) -> bool:
    """Return whether an entry runs `exthost gateway`."""
    args = entry.get("args") if isinstance(entry, dict) else None
    command = [entry.get("command"), *args] if isinstance(args, list) else []
    names = [Path(word).name for word in command if isinstance(word, str)]
    return "gateway" in names and "exthost" in names


def _inline_table(entry: Mapping[str, Any]) -> str:
    import tomlkit

    table = tomlkit.inline_table()
    table.update(entry)
    return table.as_string()


def _edit_toml(text: str, section: str, name: str, entry: dict[str, Any] | None) -> str | None:
    """Do what `ClientConfig._edit` does, for a TOML file."""
    import tomlkit.items

    document = tomlkit.parse(text)
    servers = document.get(section)
    if entry is None:
        if servers is None or name not in servers:
            return None
        servers.remove(name)
        if not servers:
            document.remove(section)
    else:
        if servers is None:
            servers = tomlkit.table(is_super_table=True)
            document.append(section, servers)
        is_inline = isinstance(servers, tomlkit.items.InlineTable)  # which has only inline tables
        table = tomlkit.inline_table() if is_inline else tomlkit.table()
        for key, value in entry.items():
            table.add(key, value)
        servers[name] = table
    return tomlkit.dumps(document)
