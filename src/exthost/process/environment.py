"""Decides which environment variables an extension gets, from the host's variables, a policy and
the config. Pure.

There are three policies. Each dialect has a default, and the config may choose another:

- `filtered`: the host's variables, without those whose names look like secrets;
- `minimal`: the host's variables that are on a given list;
- `declared`: only PATH, without which hardly any program works.

Configured variables are added to those, so that setting one never removes PATH.

Values may be secrets, so no repr and no error contains one. The names of the variables that were
passed on and held back are kept, so that a user can see why a program lacks its token. An unknown
policy raises ConfigError; nothing else fails.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from exthost.errors import ConfigError
from exthost.model.empty_mapping import EMPTY_MAPPING
from exthost.model.secret_names import looks_secret

POLICIES = ("filtered", "minimal", "declared")

# How many environments a snapshot caches. Most extensions of a host have the same.
_MAX_CACHED = 64


class Variables(dict[str, str]):
    """Names and values. Only the names appear in a repr, a log line or a traceback. Immutable,
    since many children may share one."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Variables({', '.join(sorted(self))})"

    def _refuse_change(self, *_: Any, **__: Any) -> Any:
        raise TypeError("the variables of a child cannot be changed")

    __setitem__ = __delitem__ = __ior__ = _refuse_change
    update = setdefault = pop = popitem = clear = _refuse_change


class Snapshot(Variables):
    """The host's variables at one moment, with a cache of the environments made from them."""

    __slots__ = ("_cached",)

    def __init__(self, values: Mapping[str, str]) -> None:
        super().__init__(values)
        self._cached: dict[tuple[object, ...], Environment] = {}

    def child(self, make: Callable[[], Environment], *settings: object) -> Environment:
        """Return the environment for these settings. `make` creates it if it is not in the
        cache."""
        if settings not in self._cached:
            if len(self._cached) >= _MAX_CACHED:
                self._cached.clear()
            self._cached[settings] = make()
        return self._cached[settings]


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The variables of a child, and where they come from.

    Each of the host's names is either in `passed` or in `held_back`. Each of the child's names is
    either in `passed` or in `configured`. All three are sorted.
    """

    variables: Variables = field(repr=False)
    passed: tuple[str, ...]
    held_back: tuple[str, ...]
    configured: tuple[str, ...]


def child_environment(
    host: Mapping[str, str],
    policy: str,
    *,
    names: Collection[str] = (),
    allowed: Collection[str] = (),
    configured: Mapping[str, str] = EMPTY_MAPPING,
) -> Environment:
    """Return the environment of an extension, given the variables of the host.

    `names` is the list for the policy `minimal`. `allowed` are names that `filtered` passes
    although they look like secrets, because the manifest requires them. `configured` are the
    variables that the config sets.
    """
    if type(host) is Snapshot:
        return host.child(
            lambda: _child_environment(host, policy, names, allowed, configured),
            policy,
            tuple(names),
            tuple(allowed),
            tuple(configured.items()),
        )
    return _child_environment(host, policy, names, allowed, configured)


def _child_environment(
    host: Mapping[str, str],
    policy: str,
    names: Collection[str],
    allowed: Collection[str],
    configured: Mapping[str, str],
) -> Environment:
    passed = _select_names(host, policy, frozenset(names), frozenset(allowed)) - configured.keys()
    return Environment(
        variables=Variables({name: host[name] for name in sorted(passed)} | dict(configured)),
        passed=tuple(sorted(passed)),
        # Includes names with a configured value: the host's value is not passed.
        held_back=tuple(sorted(host.keys() - passed)),
        configured=tuple(sorted(configured)),
    )


def _select_names(
    host: Mapping[str, str], policy: str, names: frozenset[str], allowed: frozenset[str]
) -> frozenset[str]:
    """Return the names of the host's variables that a policy passes on."""
    match policy:
        case "filtered":
            return frozenset(n for n in host if n in allowed or not looks_secret(n))
        case "minimal":
            return names & host.keys()
        case "declared":
            return frozenset({"PATH"}) & host.keys()
    raise ConfigError(
        "X0103",
        f"there is no environment policy {policy!r}",
        help=f"env_policy is one of {', '.join(POLICIES)}",
    )
