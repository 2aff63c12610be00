"""The keys that an entry, `[overrides.<id>]` and `[defaults]` have in common, and who wins.

An entry's own word goes before that of `[overrides.<id>]`, and that before `[defaults]`; what
none of them says stays None, and the dialect's trait holds. For a discovered extension the
operator's word, overrides and defaults alike, goes before what its manifest says: an extension
must not be able to talk itself out of a limit.

Groups (limits, restart, breaker, pool), `env`, `hooks` and `options` are joined key by key.
Everything else is replaced whole; `permissions` above all, since a policy that is written is
complete: what it does not grant is denied, whatever a table further out would have granted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any

from exthost.documents.problems import WRONG_VALUE, Place
from exthost.documents.readers import (
    Reader,
    choice,
    count,
    duration,
    flag,
    json_table,
    kind,
    size,
    some_duration,
    table,
    text,
    texts,
    variables_or_names,
    words,
)
from exthost.model import (
    EMPTY_MAPPING,
    UNLIMITED,
    Breaker,
    Limits,
    Permissions,
    Pins,
    Pool,
    Restart,
    Spec,
)

_LIMITS: Mapping[str, Reader] = {
    "start": some_duration,
    "handshake": some_duration,
    "call": some_duration,
    "idle": some_duration,
    "write": some_duration,
    "stop": duration,
    "max_message": size,
    "max_in_flight": count(1),
    "cpu": some_duration,
    "nofile": count(1),
    "fsize": size,
    "nproc": count(1),
}


def _retries(value: Any, place: Place) -> int | None:
    """A count, or "unlimited"."""
    return UNLIMITED if value == "unlimited" else count(0)(value, place)


_RESTART: Mapping[str, Reader] = {
    "strategy": choice("never", "immediate", "exponential", "on-demand"),
    "initial_delay": duration,
    "max_delay": duration,
    "max_retries": _retries,
    "window": some_duration,
}

_BREAKER: Mapping[str, Reader] = {
    "failures": count(1),
    "open": some_duration,
    "max_open": some_duration,
    "successes": count(1),
    "count_error_replies": flag,
}

_POOL: Mapping[str, Reader] = {"min": count(0), "max": count(1)}

_PERMISSIONS: Mapping[str, Reader] = {
    "network": flag,
    "filesystem": texts,
    "max_memory": size,
    "max_execution_time": some_duration,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What was said at one level. None, or an empty mapping, means "not said".

    The mappings come from factories because Python 3.11 takes a mapping proxy for mutable.
    """

    limits: Limits = Limits()
    restart: Restart = Restart()
    breaker: Breaker = Breaker()
    pool: Pool = Pool()
    permissions: Permissions | None = None
    sandbox: str | None = None
    env: Mapping[str, str] = field(default_factory=lambda: EMPTY_MAPPING)
    env_policy: str | None = None
    cwd: str | None = None
    args: tuple[str, ...] | None = None
    sha256: str | Pins | None = None
    retry: str | None = None
    start: str | None = None
    lifetime: str | None = None
    on_weaker: str | None = None
    hooks: Mapping[str, str] = field(default_factory=lambda: EMPTY_MAPPING)
    options: Mapping[str, Any] = field(default_factory=lambda: EMPTY_MAPPING)

    def over(self, outer: "Settings") -> "Settings":
        """These settings, with `outer` wherever nothing was said."""
        if outer is NO_SETTINGS:
            return self
        joined: dict[str, Any] = {}
        for one in fields(self):
            mine, theirs = getattr(self, one.name), getattr(outer, one.name)
            joined[one.name] = _joined(mine, theirs)
        return Settings(**joined)

    def onto(self, spec: Spec, **more: Any) -> Spec:
        """The extension with these settings, and what `more` is known, laid over its own.

        `args` replaces every word after the program itself; where there is no program (see
        `entry`), there is nothing to give words to.
        """
        said = more | {
            one: _joined(mine, getattr(spec, one))
            for one in _SHARED
            if (mine := getattr(self, one)) is not None and mine is not _UNSAID[one]
        }
        if self.args is not None and spec.argv:
            said["argv"] = (spec.argv[0], *self.args)
        return replace(spec, **said)


# A Spec has all of them under the same name, but `args`, which are part of its argv.
_SHARED = tuple(one.name for one in fields(Settings) if one.name != "args")

NO_SETTINGS = Settings()

# What each is where nothing was said of it.
_UNSAID: Mapping[str, Any] = {one: getattr(NO_SETTINGS, one) for one in _SHARED}


def _joined(mine: Any, theirs: Any) -> Any:
    if isinstance(mine, Limits | Restart | Breaker | Pool):
        return mine.over(theirs)
    if isinstance(mine, Mapping):
        return MappingProxyType({**theirs, **mine}) if mine or theirs else EMPTY_MAPPING
    return theirs if mine is None else mine


@lru_cache(maxsize=16)  # one folder for all the entries of a config
def readers(folder: str | None) -> Mapping[str, Reader]:
    """How each shared key is read; a relative cwd counts from `folder`."""

    def cwd(value: Any, place: Place) -> str | None:
        said = text(value, place)
        return None if said is None else within(folder, said)

    return {
        "limits": lambda value, place: Limits(**table(value, place, _LIMITS)),
        "restart": lambda value, place: Restart(**table(value, place, _RESTART)),
        "breaker": lambda value, place: Breaker(**table(value, place, _BREAKER)),
        "pool": _pool,
        "permissions": _permissions,
        "sandbox": choice("strict", "best-effort", "off"),
        "env": variables_or_names,
        "env_policy": choice("filtered", "minimal", "declared"),
        "cwd": cwd,
        "args": words,
        "sha256": _pins,
        "retry": choice("never", "once"),
        "start": choice("eager", "lazy"),
        "lifetime": choice("tree", "plain"),
        "on_weaker": choice("refuse", "warn"),
        "hooks": hook_policy,
        "options": json_table,
    }


def settings(value: Any, place: Place, folder: str | None) -> Settings:
    """A table of shared keys and no others."""
    return settings_of(table(value, place, readers(folder)))


def settings_of(read: Mapping[str, Any]) -> Settings:
    """Settings from keys that have been read; None means that one was wrong, and was noted."""
    said = {key: item for key, item in read.items() if item is not None}
    for key in ("env", "hooks", "options"):
        if key in said:
            said[key] = MappingProxyType(said[key])
    return Settings(**said)


def within(folder: str | None, path: str) -> str:
    """A path as seen from `folder`; `..` is kept, since it may lead through a link."""
    return path if folder is None else str(PurePosixPath(folder, path))


def hook_policy(value: Any, place: Place) -> dict[str, str]:
    """What follows when a hook fails, by its kind; "*" is every other kind that may block.

    `{ on_failure = "closed" }` is for all of them, `{ before_message = { on_failure = "open" } }`
    for one.
    """
    if not isinstance(value, Mapping):
        place.wrong(WRONG_VALUE, f"must be a table, and is {kind(value)}")
        return {}
    read: dict[str, str] = {}
    for key, item in value.items():
        if isinstance(key, str) and key.startswith("before_"):
            said = table(item, place.at(key), _ON_FAILURE).get("on_failure")
        else:
            said, key = table({key: item}, place, _ON_FAILURE).get("on_failure"), "*"
        if said is not None:
            read[key] = said
    return read


_ON_FAILURE: Mapping[str, Reader] = {"on_failure": choice("closed", "open")}


def _pool(value: Any, place: Place) -> Pool:
    pool = Pool(**table(value, place, _POOL))
    if pool.min is not None and pool.max is not None and pool.min > pool.max:
        place.wrong(WRONG_VALUE, f"min ({pool.min}) must not be more than max ({pool.max})")
    return pool


def _permissions(value: Any, place: Place) -> Permissions | None:
    # Permissions has real defaults, so a key that was wrong must not be passed on as None.
    read = table(value, place, _PERMISSIONS)
    return Permissions(**{key: item for key, item in read.items() if item is not None})


def _pins(value: Any, place: Place) -> str | Pins | None:
    """One digest, or a table of them."""
    if not isinstance(value, Mapping):
        return _sha256(value, place)
    read = table(value, place, dict.fromkeys(Pins._fields, _sha256))
    return Pins(**{key: item for key, item in read.items() if item is not None})


def _sha256(value: Any, place: Place) -> str | None:
    digits = set("0123456789abcdefABCDEF")
    if not isinstance(value, str) or len(value) != 64 or not digits.issuperset(value):
        what = f"is {len(value)} characters" if isinstance(value, str) else f"is {kind(value)}"
        place.wrong(WRONG_VALUE, f"must be the 64 hexadecimal digits of a SHA-256, and {what}")
        return None
    return value.lower()
