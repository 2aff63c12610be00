"""What is known of an extension without starting it, as data and in words.

`list`, `info`, `doctor` and `inspect` show its state, its sandbox and the secrets that it asks for.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from exthost.cli.common import (
    Args,
    config_path,
)
from exthost.control.client import ask
from exthost.control.protocol import Request
from exthost.dialects import find
from exthost.discovery.configfile import ConfiguredExtensions
from exthost.errors import ExthostError
from exthost.extension.lifecycle import State
from exthost.host.api.host_api import read_stored_settings
from exthost.launch.plan import admit, prepare
from exthost.launch.prerequisites import find_name_conflict
from exthost.spec import Spec

# A listing does not wait for a host that hangs.
_ASK_SECONDS = 1.0


# The states whose reason is shown, as the running host reports it.
_NOT_WELL = frozenset({"refused", "failed", "open", "backoff"})


def running_states(args: Args, *, with_settings: bool = False) -> dict[str, dict[str, Any]]:
    """Return state and reason by id, from the running host, and if wanted the settings that are in
    force; {} if none runs or it does not answer in time."""
    request = Request("status", params={"settings": True} if with_settings else {})
    try:
        status = ask(config_path(args), request, timeout=_ASK_SECONDS)
    except ExthostError:
        return {}
    return {
        row["id"]: {
            "state": row["state"],
            "reason": _why(row) if row["state"] in _NOT_WELL else "",
            **({"settings": row["settings"]} if "settings" in row else {}),
        }
        for row in status["extensions"]
    }


def _why(status: dict[str, Any]) -> str:
    error = status["last_error"]
    return str(error["message"]) if error else ""


def row(wanted: ConfiguredExtensions, spec: Spec, admitted: Sequence[Spec] = ()) -> dict[str, Any]:
    """One extension as the listing has it."""
    state, reason = state_before_start(spec, admitted)
    return {
        "id": spec.id,
        "dialect": spec.dialect,
        "version": spec.version,
        "state": state,
        "path": spec.origin or (spec.argv[0] if spec.argv else ""),
        "reason": reason,
        "asks_for": list(secrets := wanted.asks_for_secrets(spec)),
        "is_given": [name for name in secrets if name in os.environ],
        "sandbox": enforcement(spec) if state == State.ADMITTED.value else {},
    }


def enforcement(spec: Spec) -> dict[str, Any]:
    """Return the sandbox it would run in, as data; {} if it would not be started."""
    try:
        return dict(prepare(spec, find.find_dialect(spec.dialect), os.environ).enforced)
    except (ExthostError, IndexError):
        return {}


def missing_sandbox_warning(sandbox: Mapping[str, Any]) -> str:
    """Return the warning for an extension that runs with a weaker sandbox than its config asks for;
    "" for others."""
    if "asked_for" not in sandbox:
        return ""
    return f"NOT SANDBOXED (sandbox = {sandbox['sandbox']}), asked for: {sandbox['asked_for']}"


def secret_words(names: Sequence[str]) -> str:
    """Return in words which secrets a discovered manifest asks for, which of them it is given, and
    which are not set in this environment."""
    given = [name for name in names if name in os.environ]
    unset = [name for name in names if name not in os.environ]
    parts = [f"asks for {'a secret' if len(names) == 1 else 'secrets'}: {', '.join(names)}"]
    if given:
        parts.append(f"it is given {', '.join(given)}")
    if unset:
        parts.append(f"{', '.join(unset)} {'is' if len(unset) == 1 else 'are'} not set")
    return "; ".join(parts)


def limit_words(sandbox: Mapping[str, Any]) -> str:
    """Return the limits of a sandbox as text. A limit that is named by a path is a size."""
    limits = sandbox.get("limits", {})
    return ", ".join(
        f"{name} {value / 2**20:.0f} MiB" if name.startswith("/") else f"{name} {value}"
        for name, value in limits.items()
    )


def path_lines(sandbox: Mapping[str, Any]) -> list[str]:
    """Return a line for each path that it is shown: access, path and source."""
    return [
        f"{path['access']:<5} {path['path']} ({path['source']})"
        for path in sandbox.get("paths", ())
    ]


def state_before_start(spec: Spec, admitted: Sequence[Spec] = ()) -> tuple[str, str]:
    """Return the state before anything is started, and the reason if it is not admitted.
    `admitted`: the specs that were admitted earlier, which it may clash with."""
    state, reason = State.ADMITTED.value, ""
    if not spec.enabled:
        listed = spec.package is not None
        state, reason = "disabled", "in the list `disabled`" if listed else "enabled = false"
    else:
        try:
            dialect = find.find_dialect(spec.dialect)
            admit(read_stored_settings(spec, os.environ), dialect, os.environ)
            if (objection := find_name_conflict(spec, admitted)) is not None:
                raise objection
        except ExthostError as refused:
            state, reason = State.REFUSED.value, refused.message
    return state, reason
