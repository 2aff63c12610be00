"""`options`: what each dialect of ours lets an operator say, and of which kind it must be.

A slip here would be silent otherwise: a dialect looks for the options it knows. Dialects of third
parties check their own. In `[defaults]` and `[overrides.<id>]` it is not known which dialect will
read them, so only kinds are checked there.
"""

from collections.abc import Mapping
from typing import Any

from exthost.config.problems import Place
from exthost.config.readers import Reader, choice, each, flag, table, text, texts, words

__all__ = ["check_options"]

_EVERYWHERE: Mapping[str, Reader] = {"host_version": text}

_OPTIONS: Mapping[str, Mapping[str, Reader]] = {
    "morphir": {},
    "nexo": {"context_passthrough": flag},
    "cigen": {
        "plan": flag,
        "capability": text,
        "methods": each(choice("plan", "generate", "detect", "validate", "preflight")),
    },
    "roder": {
        "denied_capabilities": texts,
        "event_filter": lambda value, place: table(value, place, {"kinds": words}),
    },
    "synaps": {"permissions": texts},
    "mcp": {"log_level": text, "context_passthrough": flag},
}

_ANY: Mapping[str, Reader] = {
    **_EVERYWHERE,
    **{name: reader for options in _OPTIONS.values() for name, reader in options.items()},
}


def check_options(options: Mapping[str, Any] | None, place: Place, dialect: str = "") -> None:
    """Note what is wrong with them; "" where the dialect is not known yet."""
    if not options:
        return
    if dialect in _OPTIONS:
        table(options, place, {**_EVERYWHERE, **_OPTIONS[dialect]})
    elif not dialect:
        table({name: said for name, said in options.items() if name in _ANY}, place, _ANY)
