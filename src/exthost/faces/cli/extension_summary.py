"""Describes extensions without starting them: state, sandbox, and the secrets that they ask for.

The subcommands `list`, `info`, `doctor` and `inspect` print these descriptions.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from exthost.config.discovery.configfile import ConfiguredExtensions
from exthost.dialects import find
from exthost.errors import ExthostError
from exthost.extension.lifecycle import State
from exthost.faces.cli.common import Args, config_path, say
from exthost.host.api.host_api import read_stored_settings
from exthost.host.control.client import NoHost, ask
from exthost.host.control.protocol import ControlRequest
from exthost.launch.plan import admit, prepare
from exthost.launch.prerequisites import NameOwners
from exthost.model.spec import Spec

# The time limit of the request to the running host: a listing must not wait for a host that hangs.
_ASK_SECONDS = 1.0

# The states for which the last error is shown as the reason.
_STATES_WITH_REASON = frozenset({"refused", "failed", "open", "backoff"})


def fetch_running_states(args: Args, *, with_settings: bool = False) -> dict[str, dict[str, Any]]:
    """Return a dict for each extension of the running host, by id: its `state`, the `reason` for
    that state, and with `with_settings` the `settings` that the host uses for it. Return {} if no
    host is running. If the host does not reply in time, say so, and return {}."""
    request = ControlRequest("status", params={"settings": True} if with_settings else {})
    try:
        status = ask(config_path(args), request, timeout=_ASK_SECONDS)
    except NoHost:
        return {}
    except ExthostError as error:
        say(f"shown without the running host: {error.message}; {error.help}")
        return {}
    return {
        row["id"]: {
            "state": row["state"],
            "reason": _last_error_message(row) if row["state"] in _STATES_WITH_REASON else "",
            **({"settings": row["settings"]} if "settings" in row else {}),
        }
        for row in status["extensions"]
    }


def _last_error_message(status: dict[str, Any]) -> str:
    error = status["last_error"]
    return str(error["message"]) if error else ""


def summary_row(
    configured: ConfiguredExtensions, spec: Spec, admitted: NameOwners, *, with_sandbox: bool
) -> dict[str, Any]:
    """Return an extension as a row of `exthost list`. `admitted` are the names of the extensions
    that were admitted earlier, with which its names may conflict. Without `with_sandbox`, the
    sandbox is only described if the extension has permissions: it takes most of the time."""
    state, reason = state_before_start(spec, admitted)
    with_sandbox = with_sandbox or spec.permissions is not None
    secrets = configured.asks_for_secrets(spec)
    return {
        "id": spec.id,
        "dialect": spec.dialect,
        "version": spec.version,
        "state": state,
        "path": spec.origin or (spec.argv[0] if spec.argv else ""),
        "reason": reason,
        "asks_for": list(secrets),
        "is_given": [name for name in secrets if name in os.environ],
        "sandbox": (
            describe_sandbox(spec) if with_sandbox and state == State.ADMITTED.value else {}
        ),
    }


def describe_sandbox(spec: Spec) -> dict[str, Any]:
    """Return the sandbox in which an extension would run, or {} if it cannot be started."""
    try:
        return dict(prepare(spec, find.find_dialect_of(spec), os.environ).enforced)
    except (ExthostError, IndexError):
        return {}


def missing_sandbox_warning(sandbox: Mapping[str, Any]) -> str:
    """Return a warning if the extension runs with a weaker sandbox than its config asks for,
    otherwise ""."""
    if "asked_for" not in sandbox:
        return ""
    return f"NOT SANDBOXED (sandbox = {sandbox['sandbox']}), asked for: {sandbox['asked_for']}"


def describe_secrets(names: Sequence[str]) -> str:
    """Return a sentence about the secrets that a discovered manifest asks for: which of them the
    extension gets, and which are not set in this environment."""
    given = [name for name in names if name in os.environ]
    unset = [name for name in names if name not in os.environ]
    parts = [f"asks for {'a secret' if len(names) == 1 else 'secrets'}: {', '.join(names)}"]
    if given:
        parts.append(f"it is given {', '.join(given)}")
    if unset:
        parts.append(f"{', '.join(unset)} {'is' if len(unset) == 1 else 'are'} not set")
    return "; ".join(parts)


def describe_limits(sandbox: Mapping[str, Any]) -> str:
    """Return the limits of a sandbox as text. A limit whose name is a path is the size of a
    temporary file system there, in bytes."""
    limits = sandbox.get("limits", {})
    return ", ".join(
        f"{name} {_format_size(value) if name.startswith('/') else value}"
        for name, value in limits.items()
    )


def _format_size(size: int) -> str:
    """Return a number of bytes in MiB, or in KiB if it is not a whole number of MiB."""
    return f"{size / 2**10:,.0f} KiB" if size % 2**20 else f"{size // 2**20:,} MiB"


def format_paths(sandbox: Mapping[str, Any]) -> list[str]:
    """Return a line for each path that is visible in the sandbox: access, path and source."""
    return [
        f"{path['access']:<5} {path['path']} ({path['source']})"
        for path in sandbox.get("paths", ())
    ]


def format_protected_paths(sandbox: Mapping[str, Any]) -> list[str]:
    """Return a line for each path in a writable folder that is protected from the extension: path
    and reason."""
    return [f"{path['path']} ({path['reason']})" for path in sandbox.get("closed", ())]


def state_before_start(spec: Spec, admitted: NameOwners | None = None) -> tuple[str, str]:
    """Return the state of an extension that is not started, and the reason if it is not admitted
    (did not pass the checks before a start). `admitted` are the names of the extensions that were
    admitted earlier, with which its names may conflict."""
    if not spec.enabled:
        # An extension that was found by discovery has no entry, so the list `disabled` has its id.
        is_discovered = spec.package is not None
        return "disabled", "in the list `disabled`" if is_discovered else "enabled = false"
    try:
        dialect = find.find_dialect_of(spec)
        admit(read_stored_settings(spec, os.environ), dialect, os.environ)
        conflict = admitted.find_conflict(spec) if admitted is not None else None
        if conflict is not None:
            raise conflict
    except ExthostError as error:
        return State.REFUSED.value, error.message
    return State.ADMITTED.value, ""
