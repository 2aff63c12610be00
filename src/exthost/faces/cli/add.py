"""Add an extension to the config. Comments and all other entries are kept.

  exthost add NAME [--dialect D] -- COMMAND ARGS…

The config is created if it does not exist. A running host uses the extension after
`exthost reload`.
"""

import argparse
from pathlib import Path
from typing import Any

from exthost.config import spec_from_mapping
from exthost.config.discovery.configfile import parse_config
from exthost.config.entry_edit import add_entry_in_toml
from exthost.errors import UsageError
from exthost.faces.cli.common import Args, add_config_option, config_path, show_json, show_result
from exthost.faces.cli.config_edit import read_config_text, suggest_reload, write_config
from exthost.faces.cli.config_lock import lock_config
from exthost.faces.cli.lock_edit import record_extension
from exthost.faces.cli.target_specs import check_dialect_option


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the name of the new extension")
    parser.add_argument(
        "--dialect", metavar="D", help="the dialect that it speaks (default: morphir)"
    )
    parser.add_argument("--lazy", action="store_true", help="start it at its first use")
    add_config_option(parser)


def run(args: Args) -> int:
    if not args.command:
        raise UsageError(
            "X1316", "which program?", help="exthost add NAME --dialect D -- COMMAND ARGS…"
        )
    check_dialect_option(args)
    path = Path(config_path(args))
    entry = _make_entry(args)
    with lock_config(path):
        _add(path, args.name, entry)
    if args.json:
        show_json({"id": args.name, "added": True, "config": str(path.absolute())})
    else:
        show_result(f"{args.name}: added to {path}")
    record_extension(args, args.name)
    suggest_reload(args)
    return 0


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
