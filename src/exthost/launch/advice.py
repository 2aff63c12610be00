"""Advice for a program that fails: a variable or a network that the host did not give it."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from exthost.process.environment import Environment

# Shorter names turn up in any text.
_SHORTEST_NAME = 4


def suggest_variable(environment: Environment, stderr: Iterable[str]) -> str:
    """Return how to pass on a variable of the host that the program misses on stderr; "" if it
    misses none."""
    words = set(re.findall(r"[A-Za-z_][A-Za-z0-9_]*", "\n".join(stderr)))
    missed = [
        name for name in environment.held_back if name in words and len(name) >= _SHORTEST_NAME
    ]
    if not missed:
        return ""
    name = missed[0]
    return (
        f"held back: {', '.join(missed)}. It is set here, and not passed on to the extension: use "
        f'-e {name}, or env = {{ {name} = {{ from = "{name}" }} }} in the config'
    )


def suggest_network(enforced: Mapping[str, Any], help: str, *, is_silent: bool) -> str:
    """Return the help, with a note about a sandbox without network if the program is silent."""
    if not is_silent or "netns" not in str(enforced.get("network", "")):
        return help
    return (
        "its sandbox has no network, and a program that is fetched at its start (npx, uvx, docker) "
        f"waits for it: permissions.network = true, or install it first; or else: {help}"
    )
