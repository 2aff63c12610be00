"""Compares the settings that a running host uses with those that its config has now."""

from collections.abc import Mapping
from typing import Any

from exthost.cli.common import Args, config_path, say
from exthost.cli.target_specs import find_spec
from exthost.control.client import ask
from exthost.control.description import settings_digests
from exthost.control.protocol import Request
from exthost.errors import ExthostError
from exthost.spec import Spec

# The time limit of the request to the running host.
_ASK_SECONDS = 3.0


def changed_settings(spec: Spec, settings: Mapping[str, Any]) -> list[str]:
    """Return the names of the settings whose digests differ from those of the running host."""
    running_digests = settings["digests"]
    return [
        name
        for name, digest in settings_digests(spec).items()
        if running_digests.get(name, digest) != digest
    ]


def say_changed_settings(args: Args, name: str) -> None:
    """Print the settings of an extension that were changed in the config and that a restart has not
    applied."""
    try:
        spec = find_spec(args, name)
        status = ask(
            config_path(args), Request("status", name, {"settings": True}), timeout=_ASK_SECONDS
        )
    except ExthostError:  # the config cannot be read now, or the host has ended
        return
    settings = status["extensions"][0].get("settings")  # None for a host of an earlier version
    if spec is None or settings is None:
        return
    if changed := changed_settings(spec, settings):
        say(f"the config has another {', '.join(changed)} for {name}; `exthost reload` applies it")
