"""The MCP servers of other programs on this machine, read from their own files.

A file that is not there, or has no servers, is passed over; one that cannot be read is a problem
and stops nothing. Placeholders are filled in as in a config, with one difference: a variable that
looks like a secret is never filled in, because the result may be written to a file.
"""

import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from exthost.config.placeholders import fill_placeholders
from exthost.dialects.mcp.config_files import CONFIG_FILES, PROJECT, ConfigFile
from exthost.dialects.mcp.json_config import read_json_servers
from exthost.discovery.configfile import read_config_bytes
from exthost.documents import jsonc
from exthost.trace.secrets import is_secret_name

_SECTIONS = ("mcpServers", "mcp_servers", "servers", "context_servers", "mcp")


@dataclass(frozen=True, slots=True)
class ForeignServer:
    """A server of another program. `table` has the keys of `[mcp_servers.NAME]`; `folder` is where
    that program starts it, None if it does not say. Values may be secrets: `repr` shows none."""

    name: str
    program: str
    file: Path
    table: Mapping[str, Any] = field(repr=False)
    folder: Path | None = None


@dataclass(frozen=True, slots=True)
class FoundServers:
    """What the files hold, in their order, and what is wrong with some of them."""

    servers: tuple[ForeignServer, ...]
    files: tuple[Path, ...]
    problems: tuple[str, ...]


def find_servers(environ: Mapping[str, str], project: Path) -> FoundServers:
    """Return the servers of every program that is known, for this user and this project."""
    folders = _folders(environ, project)
    pairs = [(known, Path(known.path.format_map(folders))) for known in CONFIG_FILES]
    if codex := environ.get("CODEX_HOME"):
        pairs.append((ConfigFile("Codex", "{home}", "mcp_servers"), Path(codex, "config.toml")))
    return _read_all(pairs, environ, project)


def servers_in(files: Iterable[Path], environ: Mapping[str, str]) -> FoundServers:
    """Return the servers of these files, whichever program they belong to."""
    pairs = [(ConfigFile(path.name, PROJECT, ""), path.absolute()) for path in files]
    return _read_all(pairs, environ, None)


def _folders(environ: Mapping[str, str], project: Path) -> dict[str, str]:
    home = environ.get("HOME") or str(Path.home())
    if sys.platform == "darwin":
        settings = f"{home}/Library/Application Support"
    else:
        settings = environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    return {"home": home, "settings": settings, "project": str(project)}


def _read_all(
    pairs: Iterable[tuple[ConfigFile, Path]], environ: Mapping[str, str], project: Path | None
) -> FoundServers:
    servers: list[ForeignServer] = []
    files: dict[Path, None] = {}
    problems = []
    for known, path in pairs:
        if path in files:  # the project is the home folder
            continue
        try:
            document = _document(path)
        except FileNotFoundError:
            if project is None:
                problems.append(f"{path}: there is no such file")
            continue
        except NotADirectoryError:
            continue
        except (OSError, ValueError, RecursionError) as error:
            # The text of a mistake in JSON or TOML tells its place, and nothing of the content.
            problems.append(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}")
            continue
        read = list(_servers(known, path, document, environ, project))
        servers += read
        if read or project is None:
            files[path] = None
    return FoundServers(tuple(servers), tuple(files), tuple(problems))


def _document(path: Path) -> dict[str, Any]:
    text = read_config_bytes(path).decode("utf-8-sig")
    document = tomllib.loads(text) if path.suffix == ".toml" else jsonc.loads(text)
    return document if isinstance(document, dict) else {}


def _servers(
    known: ConfigFile,
    path: Path,
    document: dict[str, Any],
    environ: Mapping[str, str],
    project: Path | None,
) -> Iterator[ForeignServer]:
    # As `--config FILE` would run them: in the folder of a file that was named.
    folder = (project or path.parent) if known.is_of_project else None
    parts = [document]
    projects = document.get("projects")
    if project is not None and isinstance(projects, dict):  # as Claude Code has them
        own = projects.get(str(project))
        if isinstance(own, dict):
            parts.insert(0, own)
    for part in parts:
        sections = (known.section,) if known.section else _SECTIONS
        section = next((name for name in sections if isinstance(part.get(name), dict)), None)
        if section is None:
            continue
        harmless = {name: value for name, value in environ.items() if not is_secret_name(name)}
        base = folder or path.parent
        filled = fill_placeholders(part[section], harmless, str(base))
        _, tables, _ = read_json_servers({section: filled}, section)
        for name, table in tables.items():
            if not isinstance(table, dict):
                table = {}
            where = project if part is not document else folder
            yield ForeignServer(name, known.program, path, table, where)
