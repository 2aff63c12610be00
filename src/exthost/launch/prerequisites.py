"""Checks that an extension passes before it starts: requirements, unique names, settings.

    find_missing_requirements  which required programs are not on PATH, and which required
                               environment variables are not set
    find_name_conflict         whether another extension already has a name that must be unique
    NameOwners                 the same for many extensions, one after the other
    resolve_config             the config for the handshake, with a value for each declared setting

The functions do no I/O themselves: the program lookup and the environment are arguments. Therefore
a listing, a dry run and a start all use the same functions. `find_missing_requirements` reports
everything that is missing at once.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from exthost.errors import Evidence, Refused
from exthost.model.spec import DeclaredSetting, Requires, Spec, UniqueName


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingRequirements:
    """The requirements that are not met, in the order of the manifest. The value is false (`bool`)
    if all are met.

    bins  programs that are not on PATH
    env   environment variables that are not set, or empty
    """

    bins: tuple[str, ...] = ()
    env: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.bins or self.env)

    def message(self) -> str:
        """Return a phrase that names everything that is missing; "" if nothing is."""
        if not self:
            return ""
        phrases = []
        if self.bins:
            phrases.append(f"not on PATH: {', '.join(self.bins)}")
        if self.env:
            phrases.append(f"not set, or empty: {', '.join(self.env)}")
        return f"its requirements are missing ({'; '.join(phrases)})"

    def help(self) -> str:
        """Return what a person can do about the missing requirements."""
        steps = []
        if self.bins:
            steps.append("install the programs, or extend PATH")
        if self.env:
            steps.append("set the variables where the host is started")
        return "; ".join(steps)

    def to_error(self, extension: str) -> Refused:
        """Return the error that names everything that is missing. `extension` is an id."""
        return Refused(
            "X0301",
            self.message(),
            extension=extension,
            help=self.help(),
            evidence=Evidence(details=(*self.bins, *self.env)),
        )


def find_missing_requirements(
    requires: Requires,
    which: Callable[[str], str | None],
    environ: Mapping[str, str],
) -> MissingRequirements:
    """Return the requirements that are not met. `which` returns the path of a program or None, as
    `shutil.which` does."""
    return MissingRequirements(
        bins=tuple(name for name in _without_repeats(requires.bins) if which(name) is None),
        # An empty variable counts as missing, since in shells people often set a variable to the
        # empty string instead of unsetting it.
        env=tuple(name for name in _without_repeats(requires.env) if not environ.get(name)),
    )


class NameOwners:
    """The names of extensions that must be unique, and the id of the extension that has each."""

    def __init__(self, specs: Iterable[Spec] = ()) -> None:
        self._ids: dict[UniqueName, str] = {}
        for spec in specs:
            self.add(spec)

    def add(self, spec: Spec) -> None:
        """Add the names of an extension."""
        self._ids |= dict.fromkeys(spec.unique_names, spec.id)

    def find_conflict(self, spec: Spec) -> Refused | None:
        """Return the error if another extension has a name of this one; None if there is no
        conflict."""
        for unique_name in spec.unique_names:
            owner = self._ids.get(unique_name, spec.id)
            if owner != spec.id:
                return Refused(
                    "X0340",
                    f"the {unique_name.kind} {unique_name.name!r} already belongs to {owner!r}",
                    extension=spec.id,
                    help="only one of the two can run here: disable the other, or change a "
                    "manifest",
                )
        return None


def find_name_conflict(spec: Spec, earlier: Iterable[Spec]) -> Refused | None:
    """Return the error if one of the earlier extensions already has a name of this extension that
    must be unique; None if there is no conflict."""
    if not spec.unique_names:
        return None
    return NameOwners(other for other in earlier if other.id != spec.id).find_conflict(spec)


def resolve_config(spec: Spec, environ: Mapping[str, str]) -> Any:
    """Return the config that the handshake sends to the extension. Each setting that its manifest
    declares gets its value from the first of these sources that has one:

    1. the `config` table that the operator wrote
    2. the environment variables that the setting names, in their order; empty ones do not count
    3. the value stored on this machine for this setting
    4. the default in the manifest

    Raises Refused if a required setting has no value, or if a text is not of the declared type. A
    config that is not a table is returned as it is.
    """
    operator_config = spec.config
    if not spec.settings or not isinstance(operator_config, Mapping):
        return operator_config
    config = dict(operator_config)
    for setting in spec.settings:
        if setting.key in operator_config:
            continue
        text, source = _look_up(setting, spec.stored, environ)
        if text is not None:
            config[setting.key] = _parse_setting(setting, text, source, spec.id)
        elif setting.default is not None:
            config[setting.key] = setting.default
        elif setting.required:
            names = " or ".join(setting.variables)
            raise Refused(
                "X0350",
                f"its setting {setting.key!r} is required, and has no value",
                extension=spec.id,
                help=f"set {names} where the host is started, or store a value for it",
                evidence=Evidence(key=setting.key),
            )
    return config


def _look_up(
    setting: DeclaredSetting, stored_values: Mapping[str, str], environ: Mapping[str, str]
) -> tuple[str | None, str]:
    """Return the text of a setting, None if there is none, and where it comes from (for errors)."""
    for name in setting.variables:
        if environ.get(name):
            return environ[name], name
    return stored_values.get(setting.key), "the stored value"


def _parse_setting(setting: DeclaredSetting, text: str, source: str, extension: str) -> Any:
    """Return the text as a value of the type that the setting declares. Raises Refused; the error
    names the source of the text but does not quote the text, which may be a secret."""
    if setting.kind == "string":
        return text
    try:
        value = json.loads(text.strip().lower())  # lower: people also write True and FALSE
    except (ValueError, RecursionError):
        value = None
    if setting.kind == "bool" and isinstance(value, bool):
        return value
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if setting.kind == "number" and is_number and abs(value) != inf:  # 1e999 is infinite
        return value
    raise Refused(
        "X0351",
        f"its setting {setting.key!r} must be a {setting.kind}, and {source} is not",
        extension=extension,
        help="write true or false" if setting.kind == "bool" else "write a plain number",
        evidence=Evidence(key=setting.key),
    )


def _without_repeats(names: Iterable[str]) -> Iterable[str]:
    return dict.fromkeys(names)
