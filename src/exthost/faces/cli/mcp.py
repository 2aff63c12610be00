"""Import the MCP servers that editors and agents on this machine have.

  exthost mcp import                    shows which servers would be added; changes nothing
  exthost mcp import --write            adds them to the config; the rest of it stays as it is
  exthost mcp import github --write     adds only this server
  exthost mcp import --from FILE        only the servers in this file, of whichever program;
                                        the exit code is 3 if it cannot be read

It looks into the files of Claude Code and Desktop, Cursor, VS Code, Windsurf, Zed, opencode, Codex,
Gemini CLI and others, for this user and the project in this folder. Servers that are disabled or
there already are listed and not added. Secrets are never shown; they are not copied either: the
config refers to variables of the host, unless --with-secrets is given.

If there is an exthost.lock, --write starts each new server once, and writes its record.
"""

import argparse
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from exthost.config import config_from_mapping
from exthost.config.discovery.configfile import parse_config
from exthost.config.entry_edit import add_tables_in_toml
from exthost.errors import ConfigError, NotFound
from exthost.faces.cli.common import (
    Args,
    add_config_option,
    config_path,
    plural,
    say,
    show_json,
    show_table,
)
from exthost.faces.cli.config_edit import read_config_text, suggest_reload, write_config
from exthost.faces.cli.config_lock import lock_config
from exthost.faces.cli.known_policy import add_policy_option, apply_policy
from exthost.faces.cli.lock_edit import record_extensions
from exthost.faces.cli.server_files import FoundServers, find_servers, read_servers
from exthost.faces.cli.server_import import ImportDecision, Verdict, plan_import
from exthost.model.names import nearest
from exthost.model.spec import Spec
from exthost.process.own_process import host_environ

_SECTION = "mcp_servers"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("import",), help="the action")
    parser.add_argument(
        "names", metavar="SERVER", nargs="*", help="only the servers of these names"
    )
    parser.add_argument("--write", action="store_true", help="add them to the config")
    parser.add_argument(
        "--from",
        dest="files",
        metavar="FILE",
        action="append",
        default=[],
        help="read this file and no other; may be repeated",
    )
    parser.add_argument(
        "--with-secrets", action="store_true", help="copy the values of secrets into the config"
    )
    add_policy_option(parser)
    add_config_option(parser)


def run(args: Args) -> int:
    path = Path(config_path(args))
    search_result = _find_servers(args)
    servers = search_result.servers
    if args.names:
        servers = tuple(server for server in servers if server.name in args.names)
        _check_names(args.names, search_result)
    with lock_config(path) if args.write else nullcontext():
        text = read_config_text(path)
        config = parse_config(path, text.encode())
        folder = path.absolute().parent
        plan = plan_import(servers, config.specs, folder, with_secrets=args.with_secrets)
        plan = [_with_policy(args, verdict, path) for verdict in plan]
        new_servers = [verdict for verdict in plan if verdict.state is ImportDecision.NEW]
        if args.write and new_servers:
            tables = {verdict.name: verdict.table for verdict in new_servers}
            new_specs = [_make_spec(verdict) for verdict in new_servers]
            new_text = add_tables_in_toml(text, _SECTION, tables)
            write_config(path, new_text, (*config.specs, *new_specs), new_servers[0].name)
    _show(args, path, search_result, plan)
    if args.write and new_servers:
        record_extensions(args, [verdict.name for verdict in new_servers])
        suggest_reload(args)
    # A file that the user has not named may be in any form.
    return ConfigError.exit_code if args.files and search_result.problems else 0


def _with_policy(args: Args, verdict: Verdict, path: Path) -> Verdict:
    """Return the verdict on a new server with the permissions that exthost knows for it, as
    `apply_policy` finds them; return any other verdict unchanged."""
    if verdict.state is not ImportDecision.NEW or "command" not in verdict.table:
        return verdict
    command = [verdict.table["command"], *verdict.table.get("args", ())]
    return replace(verdict, table=apply_policy(args, verdict.name, verdict.table, command, path))


def _find_servers(args: Args) -> FoundServers:
    if args.files:
        return read_servers([Path(file) for file in args.files], host_environ())
    return find_servers(host_environ(), Path.cwd())


def _check_names(names: list[str], search_result: FoundServers) -> None:
    """Raise NotFound for a name that no server has."""
    names_found = {server.name for server in search_result.servers}
    for name in names:
        if name not in names_found:
            suggestion = nearest(name, names_found)
            raise NotFound(
                "X1490",
                f"no program has an MCP server {name!r}",
                help=f"did you mean {suggestion!r}?"
                if suggestion
                else "exthost mcp import lists them all",
            )


def _make_spec(verdict: Verdict) -> Spec:
    """Return the spec that the new entry of the config must give. `write_config` checks that the
    edited config has it; it compares only the fields that are set here."""
    [spec] = config_from_mapping({"mcp_servers": {verdict.name: verdict.table}}).specs
    return Spec(id=verdict.name, argv=spec.argv, source=spec.source, dialect="mcp")


def _show(args: Args, path: Path, search_result: FoundServers, plan: list[Verdict]) -> None:
    """Print the servers that were found, what happens to each, and what the user has to do."""
    for problem in search_result.problems:
        say(f"warning: {problem}")
    if args.json:
        rows = [_verdict_as_dict(verdict, args.write) for verdict in plan]
        files = [str(file) for file in search_result.files]
        show_json({"config": str(path.absolute()), "files": files, "servers": rows})
        return
    show_table(
        [
            (verdict.name, _state_text(verdict, args.write), verdict.server.program, verdict.detail)
            for verdict in plan
        ],
        ("NAME", "STATE", "FROM", "COMMAND OR REASON"),
    )
    for file in search_result.files:
        say(f"read {file}")
    for verdict in plan:
        for note in verdict.server.notes if verdict.state is ImportDecision.NEW else ():
            say(f"warning: {note}")
        if verdict.variables:
            say(f"{verdict.name}: set {', '.join(verdict.variables)} for the host")
    counts = Counter(verdict.state for verdict in plan)
    if not search_result.servers:
        say(
            "no file that --from names has MCP servers"
            if args.files
            else "no editor or agent on this machine has MCP servers that exthost finds"
        )
    elif not counts[ImportDecision.NEW]:
        say(f"nothing to add to {path}")
    elif args.write:
        say(f"{plural(counts[ImportDecision.NEW], 'server')} added to {path}")
    else:
        say(f"{plural(counts[ImportDecision.NEW], 'server')} would be added to {path}: add --write")


def _state_text(verdict: Verdict, is_written: bool) -> str:
    return "added" if is_written and verdict.state is ImportDecision.NEW else verdict.state.value


def _verdict_as_dict(verdict: Verdict, is_written: bool) -> dict[str, Any]:
    server = verdict.server
    return {
        "name": verdict.name,
        "state": _state_text(verdict, is_written),
        "program": server.program,
        "file": str(server.file),
        "detail": verdict.detail,
        "variables": list(verdict.variables),
        "notes": list(server.notes),
    }
