"""Take an extension out of the config; comments and everything else in it stay.

A running host ends the extension after `exthost reload`. An extension that was found by discovery
has no entry to remove: `exthost disable` switches it off.
"""

import argparse
from pathlib import Path

from exthost.config.discovery.configfile import read_config
from exthost.config.entry_edit import remove_entry_in_toml
from exthost.errors import NotFound
from exthost.faces.cli.common import (
    Args,
    add_config_option,
    list_names,
    require_config_path,
    show_json,
    show_result,
)
from exthost.faces.cli.config_edit import read_config_text, suggest_reload, write_config
from exthost.faces.cli.config_lock import lock_config
from exthost.faces.cli.lock_edit import drop_records
from exthost.model.names import nearest


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the name of the extension")
    add_config_option(parser)


def run(args: Args) -> int:
    path = Path(require_config_path(args))
    with lock_config(path):
        _remove(path, args.name)
    if args.json:
        show_json({"id": args.name, "removed": True, "config": str(path.absolute())})
    else:
        show_result(f"{args.name}: removed from {path}")
    drop_records(args, [args.name])
    suggest_reload(args)
    return 0


def _remove(path: Path, name: str) -> None:
    """Remove the entry of this name from the config. Raises NotFound."""
    config = read_config(path)
    names = [spec.id for spec in config.specs]
    if name not in names:
        suggestion = nearest(name, names)
        raise NotFound(
            "X1206",
            f"the config has no entry {name!r}",
            help=f"did you mean {suggestion!r}?"
            if suggestion
            else f"its entries are {list_names(names) or 'none'}; exthost disable NAME is for "
            "one that discovery found",
        )
    remaining_specs = [spec for spec in config.specs if spec.id != name]
    write_config(path, remove_entry_in_toml(read_config_text(path), name), remaining_specs, name)
