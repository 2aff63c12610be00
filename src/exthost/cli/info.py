"""Everything that is known of one extension without starting it: what its manifest says, what
it requires and what of that is missing, what would be run, and which variables it would get. If a
host runs for the config, the state is what it says."""

import argparse
import dataclasses
import os
from collections.abc import Mapping
from typing import Any

from exthost.cli.common import Args, add_config_option, in_line, no_command, one_line, show_json
from exthost.cli.extension_summary import (
    enforcement,
    limit_words,
    path_lines,
    running_states,
    state_before_start,
)
from exthost.cli.settings_in_force import changed_settings
from exthost.cli.target_specs import find_spec
from exthost.dialects import find
from exthost.errors import ExthostError, UsageError
from exthost.extension.policy import effective_restart_policy
from exthost.host.api.host_api import read_stored_settings
from exthost.launch.limits import resolve_limits
from exthost.launch.plan import prepare
from exthost.names import registered_name
from exthost.process.environment import looks_secret
from exthost.spec import Spec


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", nargs="?", metavar="TARGET", help="a name, a folder, a manifest")
    add_config_option(parser)


def run(args: Args) -> int:
    no_command(args)
    spec = find_spec(args, args.target, with_disabled=True)
    if spec is None:
        raise UsageError("X1316", "which extension?", help="exthost info NAME")
    known = describe(spec)
    if args.target == spec.id:  # not a folder or a manifest, which may have the same id
        known |= _in_force(spec, running_states(args, with_settings=True).get(spec.id, {}))
    if args.json:
        show_json(known)
    else:
        _show(known)
    return 0


def _in_force(spec: Spec, running: dict[str, Any]) -> dict[str, Any]:
    """What the running host knows, with the settings that it uses. If the config has others by now,
    `changed` names them."""
    settings = running.pop("settings", None)
    if settings is None:  # no host runs, or one of an earlier version
        return running
    changed = changed_settings(spec, settings)
    if not changed:
        return running
    note = f"{', '.join(changed)}: the config has others than the running host; exthost reload"
    shown = {name: value for name, value in settings.items() if name != "digests"}
    return running | shown | {"changed": note}


def describe(spec: Spec) -> dict[str, Any]:
    """Return what is known of an extension before its start, as data."""
    state, reason = state_before_start(spec)
    dialect = find.find_dialect(spec.dialect)
    return {
        "id": spec.id,
        "dialect": spec.dialect,
        "version": spec.version,
        "state": state,
        "reason": reason,
        "path": spec.origin,
        "cwd": spec.cwd,
        "argv": list(spec.argv),
        "tools": [
            {"name": registered_name(spec.id, tool.name), "tool": tool.name} for tool in spec.tools
        ],
        "requires": plain(spec.requires),
        "secrets": [name for name in spec.requires.env if looks_secret(name)],
        "priority": spec.priority,
        "manifest": plain(spec.manifest),
        "limits": plain_settings(plain(resolve_limits(spec, dialect))),
        "restart": plain_settings(plain(effective_restart_policy(spec, dialect))),
        "environment": environment(spec),
        "sandbox": enforcement(spec),
    }


def environment(spec: Spec) -> dict[str, Any]:
    """Return the names of the variables that it would get, and of those that are held back."""
    try:
        spec = read_stored_settings(spec, os.environ)
        environment = prepare(spec, find.find_dialect(spec.dialect), os.environ).environment
    except (ExthostError, IndexError):  # nothing to run, so nothing to give variables to
        return {"passed": [], "held_back": [], "configured": []}
    return {
        "passed": list(environment.passed),
        "held_back": list(environment.held_back),
        "configured": list(environment.configured),
    }


def plain(value: Any) -> Any:
    """Return a value as JSON data. Fields that its repr leaves out are shown by name only."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        held = ((field, getattr(value, field.name)) for field in dataclasses.fields(value))
        return {call.name: plain(item) if call.repr else sorted(item) for call, item in held}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | frozenset):
        return [plain(item) for item in value]
    return value


def plain_settings(settings: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if value is not None}


def _show(known: dict[str, Any]) -> None:
    for key, value in known.items():
        if value in (None, "", [], {}):
            continue
        if key == "tools":
            value = ", ".join(tool["name"] for tool in value)
        elif isinstance(value, dict):
            parts = {name: item for name, item in value.items() if item not in (None, "", [], {})}
            parts.pop("paths", None)
            if key == "sandbox":
                parts |= {"limits": limit_words(parts)} if "limits" in parts else {}
            value = ", ".join(f"{name} {_short(item)}" for name, item in parts.items())
        elif isinstance(value, list):
            value = " ".join(map(str, value))
        if value != "":
            print(f"{key:<12} {one_line(str(value))}")
    for line in path_lines(known["sandbox"]):
        print(f"{'shown':<12} {one_line(line)}")


def _short(value: Any) -> str:
    # Of the passed variables there are dozens: how many says enough for a person.
    if isinstance(value, list):
        names = [item.get("name", item) if isinstance(item, dict) else item for item in value]
        return str(len(names)) if len(names) > 8 else "+".join(map(in_line, names))
    return in_line(value)
