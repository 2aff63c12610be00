"""Reads the MCP servers of other programs on this machine from their config files, for `exthost mcp
import`.

Such a file is `.mcp.json` of Claude Code, for example, with the table `{"mcpServers": {"github":
{"command": "npx", …}}}`. A file that does not exist or has no servers is skipped. A file that
cannot be read is reported in `FoundServers.problems`, and the other files are still read.
Placeholders are replaced as in a config of exthost, except that a variable that looks like a secret
is never filled in, because the result may be written to a file.
"""

import os
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from exthost.config.discovery.configfile import env_file_reader, read_config_bytes
from exthost.config.env_file import merge_env_files
from exthost.config.placeholders import fill_placeholders, with_dollars
from exthost.dialects.mcp.config_files import CONFIG_FILES, PROJECT, ConfigFile
from exthost.dialects.mcp.json_config import get_servers, read_json_servers
from exthost.model.documents import jsonc
from exthost.model.secret_names import is_secret_name

# The names of the section with MCP servers, in the files of various programs.
_SECTIONS = ("mcpServers", "mcp_servers", "servers", "context_servers", "mcp")


@dataclass(frozen=True, slots=True)
class ForeignServer:
    """An MCP server of another program. `name` is its name there, `program` is the name of the
    program, and `file` is the config file that has the server. `table` has the keys of
    `[mcp_servers.NAME]` in a config of exthost; its values may be secrets, so `repr` leaves it out.
    `folder` is the working folder in which the program starts the server, None if unknown. `notes`
    say which of its settings are left out."""

    name: str
    program: str
    file: Path
    table: Mapping[str, Any] = field(repr=False)
    folder: Path | None = None
    notes: tuple[str, ...] = ()


# The setting of Claude Code that lists servers of `.mcp.json` which are switched off.
_DISABLED = "disabledMcpjsonServers"


@dataclass(frozen=True, slots=True)
class FoundServers:
    """The servers of other programs. `servers` are in the order of the files. `files` are the files
    that have servers, or all readable files if the user named the files. `problems` has a message
    for each file that could not be read."""

    servers: tuple[ForeignServer, ...]
    files: tuple[Path, ...]
    problems: tuple[str, ...]


def find_servers(environ: Mapping[str, str], project: Path) -> FoundServers:
    """Return the servers in the files of all supported programs, for this user and this project."""
    folders = path_variables(environ, project)
    pairs = [
        (config_file, Path(config_file.path.format_map(folders))) for config_file in CONFIG_FILES
    ]
    if codex := environ.get("CODEX_HOME"):
        pairs.append((ConfigFile("Codex", "{home}", "mcp_servers"), Path(codex, "config.toml")))
    return _read_all(pairs, environ, project)


def read_servers(files: Iterable[Path], environ: Mapping[str, str]) -> FoundServers:
    """Return the servers in these files, of any program."""
    # The program is unknown, so the file's name stands for it, and any section is accepted.
    pairs = [(ConfigFile(path.name, PROJECT, ""), path.absolute()) for path in files]
    return _read_all(pairs, environ, None)


def path_variables(environ: Mapping[str, str], project: Path) -> dict[str, str]:
    """Return the values of the placeholders in the paths of CONFIG_FILES."""
    home = environ.get("HOME") or os.path.expanduser("~")  # noqa: PTH111 - Path raises without one
    if sys.platform == "darwin":
        settings = f"{home}/Library/Application Support"
    else:
        settings = environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    return {"home": home, "settings": settings, "project": str(project)}


def _read_all(
    pairs: Iterable[tuple[ConfigFile, Path]], environ: Mapping[str, str], project: Path | None
) -> FoundServers:
    """Return the servers in these files. `project` is the folder of the user's project; None if the
    user named the files, so that a missing file is a problem."""
    switches = {} if project is None else {".mcp.json": _read_claude_switches(environ, project)}
    servers: list[ForeignServer] = []
    files: dict[Path, None] = {}
    problems = []
    for config_file, path in pairs:
        if path in files:  # read already, because the project folder is the home folder
            continue
        try:
            document = _read_document(path)
        except FileNotFoundError:
            if project is None:
                problems.append(f"{path}: there is no such file")
            continue
        except NotADirectoryError:  # a folder in the path is a file: this program is not installed
            continue
        except (OSError, ValueError, RecursionError) as error:
            # The message of a JSON or TOML error has the position, and nothing of the content,
            # which may be secret.
            problems.append(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}")
            continue
        file_servers = list(
            _read_document_servers(config_file, path, document, environ, project, switches)
        )
        servers += file_servers
        if file_servers or project is None:
            files[path] = None
    return FoundServers(tuple(servers), tuple(files), tuple(problems))


def _read_claude_switches(environ: Mapping[str, str], project: Path) -> Mapping[str, Any]:
    """Return the servers of the project's `.mcp.json` that the user has switched off in Claude
    Code, which keeps them in other files."""
    home = Path(path_variables(environ, project)["home"])
    settings = [folder / ".claude" / "settings.json" for folder in (home, project)]
    tables: list[Any] = []
    for path in (*settings, project / ".claude" / "settings.local.json", home / ".claude.json"):
        try:
            document = _read_document(path)
        except (OSError, ValueError, RecursionError):
            continue
        projects = document.get("projects")
        tables += [document, projects.get(str(project)) if isinstance(projects, dict) else None]
    lists = [table.get(_DISABLED) for table in tables if isinstance(table, dict)]
    return {_DISABLED: [name for names in lists if isinstance(names, list) for name in names]}


def _read_document(path: Path) -> dict[str, Any]:
    """Return the TOML or JSON document in a file; {} if it is not a table."""
    text = read_config_bytes(path).decode("utf-8-sig")
    document = tomllib.loads(text) if path.suffix == ".toml" else jsonc.loads(text)
    return document if isinstance(document, dict) else {}


def _read_document_servers(
    config_file: ConfigFile,
    path: Path,
    document: dict[str, Any],
    environ: Mapping[str, str],
    project: Path | None,
    switches: Mapping[str, Mapping[str, Any]],
) -> Iterator[ForeignServer]:
    """Yield the servers in the document of a config file. `switches` has settings that other files
    add to a file of this name: which of its servers are switched off."""
    # The servers of a file that the user named run in the folder of that file, as with
    # `--config FILE`.
    folder = (project or path.parent) if config_file.is_of_project else None
    tables_with_sections = [document]
    # The file of Claude Code has a table for each project, which takes precedence over the servers
    # of the user.
    projects = document.get("projects")
    if project is not None and isinstance(projects, dict):
        project_table = projects.get(str(project))
        if isinstance(project_table, dict):
            tables_with_sections.insert(0, project_table)
    for parent_table in tables_with_sections:
        sections = (config_file.section,) if config_file.section else _SECTIONS
        section = next(
            (name for name in sections if isinstance(parent_table.get(name), dict)), None
        )
        if section is None:
            continue
        non_secret_variables = {
            name: value for name, value in environ.items() if not is_secret_name(name)
        }
        base = folder or path.parent
        servers = with_dollars(parent_table[section], section)
        servers = fill_placeholders(servers, non_secret_variables, str(base))
        # The settings beside the servers say which of them are switched off.
        filled = {
            **parent_table,
            **switches.get(path.name, {}),
            section: merge_env_files(servers, env_file_reader(base)),
        }
        _, tables, notes = read_json_servers(filled, section)
        for name in get_servers(filled, section):
            table = tables.get(name)
            if not isinstance(table, dict):  # it is reported as unusable, by `plan_import`
                table = {}
            working_folder = project if parent_table is not document else folder
            own_notes = tuple(note for note in notes if note.startswith(f"{name}."))
            yield ForeignServer(name, config_file.program, path, table, working_folder, own_notes)
