"""Show everything that is known about one extension without starting it: its manifest, its
requirements and which of them are missing, its command, and the environment variables that it would
get. If a host with this config is running, its state in that host is shown."""

import argparse
import dataclasses
import os
from collections.abc import Mapping
from typing import Any

from exthost.dialects import find
from exthost.errors import ExthostError, UsageError
from exthost.extension.policy import effective_restart_policy
from exthost.faces.cli.common import Args, add_config_option, inline_text, one_line, show_json
from exthost.faces.cli.extension_summary import (
    describe_limits,
    describe_sandbox,
    fetch_running_states,
    format_paths,
    format_protected_paths,
    state_before_start,
)
from exthost.faces.cli.target_specs import find_spec
from exthost.faces.cli.unapplied_settings import find_unapplied_settings
from exthost.host.api.host_api import read_stored_settings
from exthost.launch.limits import resolve_limits
from exthost.launch.plan import prepare
from exthost.model.secret_names import looks_secret
from exthost.model.spec import Spec
from exthost.model.tool_choice import choose_tools


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", nargs="?", metavar="TARGET", help="a name, a folder, a manifest")
    add_config_option(parser)


def run(args: Args) -> int:
    spec = find_spec(args, args.target, with_disabled=True)
    if spec is None:
        raise UsageError("X1316", "which extension?", help="exthost info NAME")
    description = describe(spec)
    if args.target == spec.id:  # not a folder or a manifest, which may have the same id
        description |= _running_description(
            spec, fetch_running_states(args, with_settings=True).get(spec.id, {})
        )
    if args.json:
        show_json(description)
    else:
        _show(description)
    return 0


def _running_description(spec: Spec, running: dict[str, Any]) -> dict[str, Any]:
    """Return the items of the description that the running host determines: the state, and the
    host's settings if the config was edited after the host had read it. Then `changed` is a note
    that names the settings that differ."""
    settings = running.pop("settings", None)
    if settings is None:  # no host is running
        return running
    changed_names = find_unapplied_settings(spec, settings)
    if not changed_names:
        return running
    note = (
        f"{', '.join(changed_names)}: the config has others than the running host; exthost reload"
    )
    # `digests` is only for the comparison, which `find_unapplied_settings` has made.
    settings_in_use = {name: value for name, value in settings.items() if name != "digests"}
    return running | settings_in_use | {"changed": note}


def _describe_requirements(spec: Spec) -> dict[str, Any]:
    """Return what an extension requires. `is_advisory` (a missing requirement is only a warning) is
    shown only if it is true: None is not shown."""
    requires: dict[str, Any] = to_plain_data(spec.requires)
    return requires if spec.requires.is_advisory else requires | {"is_advisory": None}


def describe(spec: Spec) -> dict[str, Any]:
    """Return everything that is known about an extension without starting it, as JSON data."""
    state, reason = state_before_start(spec)
    dialect = find.find_dialect_of(spec)
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
            {"name": dialect.registered_name(spec.id, tool.name), "tool": tool.name}
            for tool in choose_tools(spec.declared_tools, spec.tools).tools.values()
        ],
        "requires": _describe_requirements(spec),
        "secrets": [name for name in spec.requires.env if looks_secret(name)],
        "priority": spec.priority,
        "manifest": to_plain_data(spec.manifest),
        "limits": drop_unset(to_plain_data(resolve_limits(spec, dialect))),
        "restart": drop_unset(to_plain_data(effective_restart_policy(spec, dialect))),
        "environment": describe_environment(spec),
        "sandbox": describe_sandbox(spec),
    }


def describe_environment(spec: Spec) -> dict[str, Any]:
    """Return the names of the environment variables that an extension would get, and of those that
    are held back from it."""
    try:
        spec = read_stored_settings(spec, os.environ)
        environment = prepare(spec, find.find_dialect_of(spec), os.environ).environment
    except (ExthostError, IndexError):  # it cannot be started, so it gets no variables
        return {"passed": [], "held_back": [], "configured": []}
    return {
        "passed": list(environment.passed),
        "held_back": list(environment.held_back),
        "configured": list(environment.configured),
    }


def to_plain_data(value: Any) -> Any:
    """Return a value as JSON data. The values of a dataclass field with `repr=False`, which is a
    mapping, may be secrets, so only its sorted keys are returned."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = ((field, getattr(value, field.name)) for field in dataclasses.fields(value))
        return {
            field.name: to_plain_data(item) if field.repr else sorted(item)
            for field, item in fields
        }
    if isinstance(value, Mapping):
        return {str(key): to_plain_data(item) for key, item in value.items()}
    if isinstance(value, list | tuple | frozenset):
        return [to_plain_data(item) for item in value]
    return value


def drop_unset(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that are not None, which means "not set"."""
    return {key: value for key, value in settings.items() if value is not None}


def _show(description: dict[str, Any]) -> None:
    """Print the description, a line for each item that is not empty."""
    for key, value in description.items():
        if value in (None, "", [], {}):
            continue
        if key == "tools":
            value = ", ".join(tool["name"] for tool in value)
        elif isinstance(value, dict):
            entries = {name: item for name, item in value.items() if item not in (None, "", [], {})}
            entries.pop("paths", None)  # printed below, a line each
            if key == "sandbox":
                entries |= {"limits": describe_limits(entries)} if "limits" in entries else {}
            value = ", ".join(f"{name} {_short_text(item)}" for name, item in entries.items())
        elif isinstance(value, list):
            value = " ".join(map(str, value))
        if value != "":
            print(f"{key:<12} {one_line(str(value))}")
    for line in format_paths(description["sandbox"]):
        print(f"{'shown':<12} {one_line(line)}")
    for line in format_protected_paths(description["sandbox"]):
        print(f"{'closed':<12} {one_line(line)}")


def _short_text(value: Any) -> str:
    # A long list, such as the dozens of variables that are passed, is shown as its length.
    if isinstance(value, list):
        names = [item.get("name", item) if isinstance(item, dict) else item for item in value]
        return str(len(names)) if len(names) > 8 else "+".join(map(inline_text, names))
    return inline_text(value)
