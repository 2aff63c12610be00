"""Which variables a child gets: a pure function of the host's, a policy and the configuration.

Three policies, each a dialect's habit that the configuration may overrule:

- `filtered`: the host's variables, without those whose names look like secrets;
- `minimal`: those of the host's that are on a given list;
- `declared`: of the host's only PATH, without which hardly any program starts.

Configured variables are laid over the result one by one. They replace nothing but themselves, so
that setting one never loses PATH.

Values are secrets until proven otherwise: nothing here shows one, neither a repr nor an error.
What was passed and what was held back is told by name, so that nobody has to guess why a program
does not see its token. Knows nothing of processes; fails only for a policy it does not know.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from exthost.errors import ConfigError
from exthost.model import EMPTY_MAPPING

__all__ = [
    "POLICIES",
    "Environment",
    "Snapshot",
    "Variables",
    "child_environment",
    "looks_secret",
]

POLICIES = ("filtered", "minimal", "declared")

# Environments that a snapshot keeps: most extensions of a host have the same, or one of their own.
_MOST_KEPT = 64

# On the upper-cased name. Suffixes where the word is common elsewhere (KEYBOARD, PATH, AUTHOR);
# anywhere in the name where it hardly ever is.
SECRET_SUFFIXES = (
    "_TOKEN",
    "_KEY",
    "_SECRET",
    "_PASSWORD",
    "_CREDENTIAL",
    "_PAT",
    "_AUTH",
    "_APIKEY",
    "_BEARER",
    "_SESSION",
)
SECRET_WORDS = ("PASSWORD", "SECRET", "CREDENTIAL", "PRIVATE_KEY")


class Variables(dict[str, str]):
    """Names and values, of which only the names show in a repr, a log line or a traceback. Cannot
    be changed: many children may be given the same."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Variables({', '.join(sorted(self))})"

    def _fixed(self, *_: Any, **__: Any) -> Any:
        raise TypeError("the variables of a child are settled")

    __setitem__ = __delitem__ = __ior__ = _fixed
    update = setdefault = pop = popitem = clear = _fixed


class Snapshot(Variables):
    """Variables that nobody changes any more, so that what follows from them is kept."""

    __slots__ = ("_kept",)

    def __init__(self, values: Mapping[str, str]) -> None:
        super().__init__(values)
        self._kept: dict[tuple[object, ...], Environment] = {}

    def child(self, make: "Callable[[], Environment]", *settings: object) -> "Environment":
        """What these settings come to for a child; a host starts many with the same."""
        if settings not in self._kept:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            self._kept[settings] = make()
        return self._kept[settings]


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What a child will see, and how that came about.

    Each name of the host's is either in `passed` or in `held_back`; each name the child sees is
    either in `passed` or in `configured`. All three are sorted.
    """

    variables: Variables = field(repr=False)
    passed: tuple[str, ...]
    held_back: tuple[str, ...]
    configured: tuple[str, ...]


@cache  # the same few names at every start
def looks_secret(name: str) -> bool:
    """Whether a variable's name says that its value is nobody else's business."""
    upper = name.upper()
    return upper.endswith(SECRET_SUFFIXES) or any(word in upper for word in SECRET_WORDS)


def child_environment(
    host: Mapping[str, str],
    policy: str,
    *,
    names: Collection[str] = (),
    allowed: Collection[str] = (),
    configured: Mapping[str, str] = EMPTY_MAPPING,
) -> Environment:
    """The environment of a child.

    `names` is the list of the policy `minimal`. `allowed` are names that `filtered` lets through
    although they look like secrets: what the manifest requires, once that was agreed to.
    """
    if type(host) is Snapshot:
        said = tuple(configured.items())
        return host.child(
            lambda: _child_environment(host, policy, names, allowed, configured),
            policy,
            tuple(names),
            tuple(allowed),
            said,
        )
    return _child_environment(host, policy, names, allowed, configured)


def _child_environment(
    host: Mapping[str, str],
    policy: str,
    names: Collection[str],
    allowed: Collection[str],
    configured: Mapping[str, str],
) -> Environment:
    passed = _from_host(host, policy, frozenset(names), frozenset(allowed)) - configured.keys()
    return Environment(
        variables=Variables({name: host[name] for name in sorted(passed)} | dict(configured)),
        passed=tuple(sorted(passed)),
        # A variable that was configured anew counts too: the host's value did not get through.
        held_back=tuple(sorted(host.keys() - passed)),
        configured=tuple(sorted(configured)),
    )


def _from_host(
    host: Mapping[str, str], policy: str, names: frozenset[str], allowed: frozenset[str]
) -> frozenset[str]:
    """The host's names that a policy lets through."""
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
