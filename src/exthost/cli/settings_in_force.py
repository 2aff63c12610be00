"""The settings that a running host uses, and those that its config has by now."""

from collections.abc import Mapping
from typing import Any

from exthost.cli.common import Args, config_path, say
from exthost.cli.target_specs import find_spec
from exthost.control.client import ask
from exthost.control.description import settings_digests
from exthost.control.protocol import Request
from exthost.errors import ExthostError
from exthost.spec import Spec

_ASK_SECONDS = 3.0


def changed_settings(spec: Spec, settings: Mapping[str, Any]) -> list[str]:
    """Return the names of the settings that differ from those of the running host."""
    known = settings["digests"]
    return [
        name for name, digest in settings_digests(spec).items() if known.get(name, digest) != digest
    ]


def say_changed(args: Args, name: str) -> None:
    """Say which settings of an extension a restart has not taken over from the config."""
    try:
        spec = find_spec(args, name)
        status = ask(
            config_path(args), Request("status", name, {"settings": True}), timeout=_ASK_SECONDS
        )
    except ExthostError:  # the config cannot be read now, or the host has ended
        return
    settings = status["extensions"][0].get("settings")  # not of a host of an earlier version
    if spec is None or settings is None:
        return
    if changed := changed_settings(spec, settings):
        say(f"the config has another {', '.join(changed)} for {name}; `exthost reload` applies it")
