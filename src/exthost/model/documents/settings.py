"""`SettingValues`: the settings of an extension from one place of a config, and their merging.

There are three places, and all of them have the keys of `setting_keys`. An `[[extensions]]` entry
takes precedence over `[overrides.<id>]`, which takes precedence over `[defaults]`. A setting that
is in none of them stays None, and the default of the dialect (the protocol that the extension
speaks) applies. For a discovered extension, overrides and defaults take precedence over its
manifest, because an extension must not be able to remove the operator's limits.

    [defaults]
    limits = { call = "10s", stop = "2s" }

    [[extensions]]
    name = "weather"
    limits = { call = "60s" }       # so its limits are call = "60s" and stop = "2s"

Groups (limits, restart, breaker, pool, tools), `env`, `hooks` and `options` are merged key by key.
Every other setting is replaced as a whole. This includes `permissions`: a `permissions` table
denies everything that it does not grant itself, even if a table of lower precedence grants it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from exthost.model.documents.problems import Place
from exthost.model.documents.readers import Reader, read_table, read_text
from exthost.model.documents.setting_keys import (
    SETTING_KEYS,
    Breaker,
    Limits,
    Pins,
    Pool,
    Restart,
    SharedSettings,
    ToolSettings,
)
from exthost.model.empty_mapping import EMPTY_MAPPING

if TYPE_CHECKING:
    from exthost.model.spec import Spec


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingValues(SharedSettings):
    """The settings from one place."""

    args: tuple[str, ...] | None = None

    def over(self, outer: "SettingValues") -> "SettingValues":
        """Return these settings merged with `outer`, which they take precedence over."""
        if outer is NO_SETTINGS:
            return self
        merged: dict[str, Any] = {}
        for setting in fields(self):
            inner, outer_value = getattr(self, setting.name), getattr(outer, setting.name)
            merged[setting.name] = _merge(inner, outer_value)
        return SettingValues(**merged)

    def restricted_like(self, main: "SettingValues", defaults: "SettingValues") -> "SettingValues":
        """Return these settings of a further program of a package, with at least the restrictions
        of the main program, whose settings are `main`: a package must not leave its sandbox, or the
        pin (digest) of its files, by declaring a further program. A permission that `main` has and
        `defaults` do not have is not granted to the further program."""
        restrictions = SettingValues(on_weaker=main.on_weaker)
        if defaults.permissions is None:
            restrictions = replace(restrictions, permissions=main.permissions, sandbox=main.sandbox)
        pins = main.sha256
        if isinstance(pins, Pins) and (pins.package or pins.manifest):
            shared_pins = Pins(package=pins.package, manifest=pins.manifest)
            restrictions = replace(restrictions, sha256=shared_pins)
        return self.over(restrictions)

    def apply_to(self, spec: "Spec", **other_fields: Any) -> "Spec":
        """Return the Spec merged with these settings, which take precedence. `other_fields` are
        further fields of the Spec to replace.

        `args` replaces all arguments of the program. A disabled entry may have no program (see
        `config.entry`); its `args` are ignored, and so are those of a remote server.
        """
        changes = dict(other_fields)
        for name in _SPEC_SETTINGS:
            value = getattr(self, name)
            if value is not None and value is not _NOT_SET[name]:
                changes[name] = _merge(value, getattr(spec, name))
        if self.args is not None and spec.argv and spec.source != "http":
            changes["argv"] = (spec.argv[0], *self.args)
        return replace(spec, **changes)


# The settings that a Spec has under the same name. `args` become part of its argv.
_SPEC_SETTINGS = tuple(setting.name for setting in fields(SharedSettings))

NO_SETTINGS = SettingValues()

# The value of each setting that is not set.
_NOT_SET: Mapping[str, Any] = {name: getattr(NO_SETTINGS, name) for name in _SPEC_SETTINGS}


def _merge(inner: Any, outer: Any) -> Any:
    """Return one setting, merged from two places. `inner` takes precedence over `outer`."""
    if isinstance(inner, Limits | Restart | Breaker | Pool | ToolSettings):
        return inner.over(outer)
    if isinstance(inner, Mapping):
        return MappingProxyType({**outer, **inner}) if inner or outer else EMPTY_MAPPING
    return outer if inner is None else inner


@lru_cache(maxsize=16)  # all entries of a config have the same folder
def setting_readers(folder: str | None) -> Mapping[str, Reader]:
    """Return the reader of each key of `setting_keys`. A relative cwd is relative to `folder`."""

    def read_cwd(value: Any, place: Place) -> str | None:
        path = read_text(value, place)
        return None if path is None else resolve_path(folder, path)

    return {**SETTING_KEYS, "cwd": read_cwd}


def read_settings(value: Any, place: Place, folder: str | None) -> SettingValues:
    """Read a table that may have only the keys of `setting_keys`."""
    return make_settings(read_table(value, place, setting_readers(folder)))


def make_settings(read_values: Mapping[str, Any]) -> SettingValues:
    """Return the settings with these values, which a reader returned. None means that a value is
    wrong and its problem is already reported; it is left out."""
    values = {key: item for key, item in read_values.items() if item is not None}
    for key in ("env", "hooks", "options"):
        if key in values:
            values[key] = MappingProxyType(values[key])
    return SettingValues(**values)


def resolve_path(folder: str | None, path: str) -> str:
    """Return the path, joined to `folder` if it is relative. With None, the path is returned
    unchanged. `..` is kept, because the folder before it may be a symlink."""
    return path if folder is None else str(PurePosixPath(folder, path))
