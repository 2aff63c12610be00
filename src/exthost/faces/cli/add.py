"""Add an extension to the config. Comments and all other entries are kept.

  exthost add NAME [--dialect D] -- COMMAND ARGS…
  exthost add [NAME] --from server.json      an MCP server, as its registry describes it
  exthost add [NAME] --from FILE.mcpb        an MCP bundle, which is unpacked
  exthost add [NAME] --from npm:PACKAGE      or pypi:PACKAGE; the newest version, or PACKAGE@1.2.3

The version of a package is pinned. What it needs is asked on the terminal, or given by --set. A
secret becomes a reference to a variable of the host, and is never asked for.

For servers that exthost knows, tested `permissions` are shown; --policy writes them.

The config is created if it does not exist. A running host uses the extension after
`exthost reload`.
"""

import argparse
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

from exthost.config import spec_from_mapping
from exthost.config.discovery.configfile import parse_config
from exthost.config.entry_edit import add_entry_in_toml
from exthost.errors import UsageError
from exthost.faces.cli.common import (
    Args,
    add_config_option,
    config_path,
    say,
    show_json,
    show_result,
)
from exthost.faces.cli.config_edit import read_config_text, suggest_reload, write_config
from exthost.faces.cli.config_lock import lock_config
from exthost.faces.cli.known_policy import add_policy_option, apply_policy
from exthost.faces.cli.lock_edit import record_extensions
from exthost.faces.cli.package_inputs import InputValues
from exthost.faces.cli.package_sources import read_package
from exthost.faces.cli.target_specs import check_dialect_option
from exthost.process.own_process import host_environ
from exthost.process.state_root import state_root

# The form of a name of an extension.
_NAME = re.compile(r"\w[\w.-]*")

# The programs that run packages of npm and PyPI.
_PACKAGE_RUNNERS = frozenset({"npx", "bunx", "pnpx", "uvx", "pipx"})


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help="the name of the new extension")
    parser.add_argument(
        "--from", dest="package", metavar="PACKAGE", help="a server.json, a bundle, npm: or pypi:"
    )
    parser.add_argument(
        "--set",
        dest="values",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a variable or an argument that the package needs; may be repeated",
    )
    parser.add_argument(
        "--dialect", metavar="D", help="the dialect that it speaks (default: morphir)"
    )
    add_policy_option(parser)
    parser.add_argument("--lazy", action="store_true", help="start it at its first use")
    add_config_option(parser)


def run(args: Args) -> int:
    if args.package:
        return _add_package(args)
    if args.values:
        raise UsageError(
            "X1316",
            "--set gives values to a package of --from",
            help="add --from PACKAGE; a variable of a command is written into its entry: "
            "env = { NAME = VALUE }",
        )
    if not args.command or not args.name:
        raise UsageError(
            "X1316",
            "which program?" if args.name else "which name?",
            help="exthost add NAME --dialect D -- COMMAND ARGS…",
        )
    if "--dialect" in args.command and not args.dialect:
        say(
            f"{args.name}: --dialect after -- is an argument of the program: if it is meant for "
            "exthost, remove the entry and write it before --"
        )
    check_dialect_option(args)
    _check_name(args.name)
    path = Path(config_path(args))
    program = args.command[0]
    if "/" not in program and shutil.which(program) is None:
        say(f"{args.name}: warning: there is no program {program!r} on PATH here")
    entry = apply_policy(args, args.name, _make_entry(args), args.command, path)
    with lock_config(path):
        _add(path, args.name, entry)
    _show(args, args.name, path, ())
    if not args.dialect:
        _report_default_dialect(args)
    record_extensions(args, [args.name])
    return 0


def _check_name(name: str) -> None:
    """Raise UsageError for a name that other verbs would read as a path or an option."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            "X1316",
            f"{name!r:.60} is not a name for an extension",
            help="use letters, digits, '.', '_' and '-', and begin with a letter or a digit",
        )


def _report_default_dialect(args: Args) -> None:
    """Say which dialect the entry has. The program is not started to find out: it may need
    `permissions` first."""
    words = ["exthost", "inspect", "--", *args.command]
    likely = " A package of npm or PyPI is usually an MCP server: --dialect mcp."
    say(
        f"{args.name}: without --dialect it has the dialect morphir. If it speaks another, remove "
        f"the entry and add it with --dialect D; `{shlex.join(words)}` runs the program and finds "
        f"out.{likely if Path(args.command[0]).name in _PACKAGE_RUNNERS else ''}"
    )


def _add_package(args: Args) -> int:
    """Add the package of --from to the config. Return the exit code."""
    if args.command or args.dialect:
        raise UsageError(
            "X1316", "--from names the program itself", help="leave out --dialect and -- COMMAND"
        )
    given = {}
    for item in args.values:
        name, separator, value = item.partition("=")
        if not separator or not name:
            raise UsageError("X1316", f"{item!r:.60} is not NAME=VALUE", help="--set NAME=VALUE")
        given[name] = value
    can_ask = sys.stdin.isatty() and sys.stderr.isatty() and not args.json
    values = InputValues(given, can_ask)
    bundles = Path(state_root(host_environ()), "bundles").absolute()
    package = read_package(args.package, values, bundles)
    name = args.name or package.name
    _check_name(name)
    entry = {"name": name, **package.entry, **({"start": "lazy"} if args.lazy else {})}
    path = Path(config_path(args))
    source = entry.get("source", {})
    command = [source["command"], *source.get("args", ())] if "command" in source else []
    entry = apply_policy(args, name, entry, command, path)
    with lock_config(path):
        if package.bundle is not None:
            package.bundle.unpack()
        _add(path, name, entry)
    _show(args, name, path, tuple(dict.fromkeys(values.references)))
    record_extensions(args, [name])
    return 0


def _show(args: Args, name: str, path: Path, variables: tuple[str, ...]) -> None:
    """Print what was added, and the variables of the host that the entry refers to."""
    if args.json:
        added = {"id": name, "added": True, "config": str(path.absolute())}
        show_json({**added, "variables": list(variables)})
    else:
        show_result(f"{name}: added to {path}")
    if variables:
        say(f"{name}: set {', '.join(variables)} for the host")
    suggest_reload(args)


def _add(path: Path, name: str, entry: dict[str, Any]) -> None:
    """Add the entry to the config. Raises UsageError if the config has one of this name."""
    text = read_config_text(path)
    config = parse_config(path, text.encode())
    if any(spec.id == name for spec in config.specs):
        raise UsageError(
            "X1312",
            f"there is an extension {name!r} already",
            extension=name,
            help="choose another name, or remove it first: exthost remove NAME",
        )
    spec = spec_from_mapping(entry, defaults=config.outer_settings(name))
    write_config(path, add_entry_in_toml(text, entry), (*config.specs, spec), name)


def _make_entry(args: Args) -> dict[str, Any]:
    """Return the entry of the config for the command after `--`."""
    program, *arguments = args.command
    entry: dict[str, Any] = {"name": args.name}
    if args.dialect:
        entry["dialect"] = args.dialect
    entry["source"] = {"type": "process", "command": program}
    if arguments:
        entry["source"]["args"] = arguments
    if args.lazy:
        entry["start"] = "lazy"
    return entry
