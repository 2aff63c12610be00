"""The keys that an entry, `[overrides.<id>]` and `[defaults]` share, and which takes precedence.

A setting in an entry takes precedence over `[overrides.<id>]`, and that over `[defaults]`. One that
is in none of them stays None, and the dialect's default applies. For a discovered extension,
overrides and defaults take precedence over its manifest: an extension must not be able to remove
the operator's limits.

Groups (limits, restart, breaker, pool), `env`, `hooks` and `options` are merged key by key. Every
other setting is replaced as a whole, and so is `permissions`: a policy is complete, and denies what
it does not grant, whatever an outer table grants.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any

from exthost.documents.problems import Place
from exthost.documents.readers import Reader, read_table, read_text
from exthost.documents.setting_keys import SETTING_KEYS
from exthost.empty_mapping import EMPTY_MAPPING
from exthost.spec import Breaker, Limits, Permissions, Pins, Pool, Restart, Spec


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of one level. None, or an empty mapping, means that one is not set.

    The mappings come from factories because Python 3.11 rejects a mapping proxy as a default.
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
        """Return these settings, with the value of `outer` for each that is not set."""
        if outer is NO_SETTINGS:
            return self
        merged: dict[str, Any] = {}
        for setting in fields(self):
            inner, outer_value = getattr(self, setting.name), getattr(outer, setting.name)
            merged[setting.name] = _merged(inner, outer_value)
        return Settings(**merged)

    def apply_to(self, spec: Spec, **more: Any) -> Spec:
        """Return the extension with these settings applied over its own, and with `more` replaced.

        `args` replaces every argument of the program. A disabled entry may have no program (see
        `config.entry`); its `args` are ignored.
        """
        changes = more | {
            name: _merged(value, getattr(spec, name))
            for name in _SHARED
            if (value := getattr(self, name)) is not None and value is not _NOT_SET[name]
        }
        if self.args is not None and spec.argv:
            changes["argv"] = (spec.argv[0], *self.args)
        return replace(spec, **changes)


# A Spec has each setting under the same name, except `args`, which are part of its argv.
_SHARED = tuple(setting.name for setting in fields(Settings) if setting.name != "args")

NO_SETTINGS = Settings()

# The value of each setting that is not set.
_NOT_SET: Mapping[str, Any] = {name: getattr(NO_SETTINGS, name) for name in _SHARED}


def _merged(inner: Any, outer: Any) -> Any:
    if isinstance(inner, Limits | Restart | Breaker | Pool):
        return inner.over(outer)
    if isinstance(inner, Mapping):
        return MappingProxyType({**outer, **inner}) if inner or outer else EMPTY_MAPPING
    return outer if inner is None else inner


@lru_cache(maxsize=16)  # one folder for all the entries of a config
def setting_readers(folder: str | None) -> Mapping[str, Reader]:
    """Return the reader of each shared key. A relative cwd is relative to `folder`."""

    def cwd(value: Any, place: Place) -> str | None:
        path = read_text(value, place)
        return None if path is None else resolve_path(folder, path)

    return {**SETTING_KEYS, "cwd": cwd}


def read_settings(value: Any, place: Place, folder: str | None) -> Settings:
    """Read a table that may have only the shared keys."""
    return make_settings(read_table(value, place, setting_readers(folder)))


def make_settings(read: Mapping[str, Any]) -> Settings:
    """Return the settings with these values. A None is left out: its mistake has been recorded."""
    values = {key: item for key, item in read.items() if item is not None}
    for key in ("env", "hooks", "options"):
        if key in values:
            values[key] = MappingProxyType(values[key])
    return Settings(**values)


def resolve_path(folder: str | None, path: str) -> str:
    """Return a path relative to `folder`. A `..` is kept, since it may lead through a link."""
    return path if folder is None else str(PurePosixPath(folder, path))
