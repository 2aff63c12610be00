"""Implements `exthost enable` and `exthost disable`, which change one value in the config and
nothing else: `enabled` in the entry of an extension, or the list `disabled` in the section
`discovery` for an extension that was found in a folder.

The new text is parsed before it is written. It is written only if it gives exactly the expected
config; otherwise an error says what to change by hand.
"""

import argparse
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from exthost.config import Config
from exthost.config.discovery.configfile import (
    JSON_SUFFIXES,
    ConfiguredExtensions,
    parse_config,
)
from exthost.config.enabled_edit import (
    set_disabled_in_toml,
    set_disabled_in_yaml,
    set_enabled_in_toml,
)
from exthost.errors import ConfigError, NotFound, UsageError
from exthost.faces.cli.common import Args, add_config_option, config_path, show_json, show_result
from exthost.faces.cli.config_edit import replace_file, suggest_reload, uneditable_error
from exthost.faces.cli.config_lock import lock_config
from exthost.faces.cli.lock_edit import record_extensions
from exthost.faces.cli.target_specs import read_extensions
from exthost.host.known_hooks import read_known_ids
from exthost.model.names import nearest

_YAML = (".yaml", ".yml")


def add_toggle_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the name of the extension")
    add_config_option(parser)


def toggle(args: Args, enabled: bool) -> int:
    """Enable or disable the extension in the config, and print whether that changed the config."""
    path = Path(config_path(args))
    is_changed = set_enabled(args, args.name, enabled)
    if args.json:
        row = {
            "id": args.name,
            "enabled": enabled,
            "changed": is_changed,
            "config": str(path.absolute()),
        }
        show_json(row)
    else:
        state = "enabled" if enabled else "disabled"
        show_result(f"{args.name}: {state if is_changed else f'was {state} already'}")
    if is_changed:
        if enabled:
            record_extensions(args, [args.name], replaces=False)
        suggest_reload(args)
    return 0


def set_enabled(args: Args, id: str, enabled: bool) -> bool:
    """Enable or disable an extension in the config. Return whether that changed the config."""
    path = Path(config_path(args))
    with lock_config(path):
        configured = read_extensions(args)
        edit, expected = _plan_edit(configured, id, enabled)
        if expected == configured.config:
            return False
        _write(path, expected, edit, id, enabled)
    return True


_Edit = Callable[[str, bool], str | None]


def _plan_edit(configured: ConfiguredExtensions, id: str, enabled: bool) -> tuple[_Edit, Config]:
    """Return a function that edits the text of the config, and the config that the new text must
    give. The function is called with the text and whether it is YAML."""
    config = configured.config
    if any(spec.id == id for spec in config.specs):
        specs = tuple(
            replace(spec, enabled=enabled) if spec.id == id else spec for spec in config.specs
        )
        return lambda text, _: set_enabled_in_toml(text, id, enabled), replace(config, specs=specs)
    disabled_ids = config.discovery.disabled if config.discovery is not None else ()
    ids = {candidate.id for candidate in configured.report.candidates}
    # An extension whose manifest has an error can be disabled, too. Until then, the host refuses
    # the calls that its hooks would judge.
    rejected = configured.report.rejected
    if id not in ids and rejected:
        known_ids = read_known_ids((manifest.path for manifest in rejected), os.environ)
        ids = ids.union(known_ids, *(manifest.ids for manifest in rejected))
    if config.discovery is None or id not in ids | set(disabled_ids):
        raise _not_found_error(configured, id)
    other_ids = tuple(name for name in disabled_ids if name != id)
    # If the id is in the list already, its place does not change.
    with_id = disabled_ids if id in disabled_ids else (*disabled_ids, id)
    new_ids = other_ids if enabled else with_id
    expected = replace(config, discovery=replace(config.discovery, disabled=new_ids))

    def edit_list(text: str, is_yaml: bool) -> str | None:
        set_disabled = set_disabled_in_yaml if is_yaml else set_disabled_in_toml
        return set_disabled(text, new_ids)

    return edit_list, expected


def _not_found_error(configured: ConfiguredExtensions, id: str) -> NotFound | UsageError:
    """Return the error for an id that cannot be enabled or disabled."""
    for candidate in configured.report.candidates:
        # `additional_specs` are the other extensions of the same manifest, such as MCP servers.
        if any(spec.id == id for spec in candidate.additional_specs):
            return UsageError(
                "X1326",
                f"{id} comes with {candidate.id}, and cannot be switched by itself",
                extension=id,
                help=f"switch {candidate.id}, or remove the server from its manifest",
            )
    suggestion = nearest(id, [spec.id for spec in configured.specs])
    return NotFound(
        "X1206",
        f"no extension is called {id!r}",
        help=f"did you mean {suggestion!r}?" if suggestion else "exthost list shows the extensions",
    )


def _write(path: Path, expected: Config, edit: _Edit, id: str, enabled: bool) -> None:
    """Edit the file, and write it if the new text gives the expected config. Raises UsageError."""
    text = path.read_bytes().decode("utf-8-sig")
    # A config in JSON is not edited: there is no function that keeps its formatting.
    new_text = edit(text, path.suffix in _YAML) if path.suffix not in JSON_SUFFIXES else None
    try:
        is_as_expected = new_text is not None and parse_config(path, new_text.encode()) == expected
    except ConfigError:
        is_as_expected = False
    if new_text is None or not is_as_expected:
        raise uneditable_error(path, id, "enable" if enabled else "disable")
    replace_file(path.resolve(), new_text)
