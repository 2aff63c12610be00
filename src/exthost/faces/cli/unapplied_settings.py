"""Finds the settings of an extension that were changed in the config and not applied yet.

A running host reads its config when it starts and at `exthost reload`. Settings that were edited
since then differ between the config and the running host.
"""

from collections.abc import Mapping
from typing import Any

from exthost.errors import ExthostError
from exthost.faces.cli.common import Args, config_path, say
from exthost.faces.cli.target_specs import find_spec
from exthost.host.control.client import ask
from exthost.host.control.description import settings_digests
from exthost.host.control.protocol import ControlRequest
from exthost.model.spec import Spec

# The time limit of the request to the running host.
_ASK_SECONDS = 3.0


def find_unapplied_settings(spec: Spec, running_settings: Mapping[str, Any]) -> list[str]:
    """Return the names of the settings that differ between the config and the running host. `spec`
    is the extension as the config describes it now. `running_settings` is the running host's report
    on the extension (see `describe_settings`); it has a digest of each setting."""
    running_digests = running_settings["digests"]
    return [
        name for name, digest in settings_digests(spec).items() if running_digests[name] != digest
    ]


def say_unapplied_settings(args: Args, name: str) -> None:
    """Print to stderr which settings of an extension the running host has not applied yet. Called
    after a restart, which does not read the config again. Print nothing if every setting is
    applied, or if the settings cannot be compared."""
    try:
        spec = find_spec(args, name)
        status = ask(
            config_path(args),
            ControlRequest("status", name, {"settings": True}),
            timeout=_ASK_SECONDS,
        )
    except ExthostError:  # the config cannot be read now, or the host has ended
        return
    if spec is None:
        return
    if names := find_unapplied_settings(spec, status["extensions"][0]["settings"]):
        say(
            f"changed in the config and not applied to {name} yet: {', '.join(names)}; "
            "`exthost reload` applies the changes"
        )
