"""Checks before a start: required programs and variables, unique names, settings.

    gate        which required programs are not on PATH, which required variables are not set
    clash       whether another extension already has a name that only one may have
    configured  the values of an extension's settings

Pure: the lookup of programs and the environment are arguments, so that a listing, a dry run and a
start use the same functions. `gate` and `clash` return what is wrong as a value. `gate` reports
everything that is missing at once.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from exthost.errors import Evidence, Refused
from exthost.spec import DeclaredSetting, Requires, Spec

__all__ = ["Missing", "clash", "configured", "gate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """What is missing, in the order of the manifest. False if nothing is."""

    bins: tuple[str, ...] = ()
    env: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.bins or self.env)

    def message(self) -> str:
        """Return one sentence that names everything that is missing; "" if nothing is."""
        if not self:
            return ""
        parts = []
        if self.bins:
            parts.append(f"not on PATH: {', '.join(self.bins)}")
        if self.env:
            parts.append(f"not set, or empty: {', '.join(self.env)}")
        return f"its requirements are missing ({'; '.join(parts)})"

    def help(self) -> str:
        """Return what a person can do about it."""
        steps = []
        if self.bins:
            steps.append("install the programs, or extend PATH")
        if self.env:
            steps.append("set the variables where the host is started")
        return "; ".join(steps)

    def refusal(self, extension: str) -> Refused:
        """Return the same as an error."""
        return Refused(
            "X0301",
            self.message(),
            extension=extension,
            help=self.help(),
            evidence=Evidence(details=(*self.bins, *self.env)),
        )


def gate(
    requires: Requires,
    which: Callable[[str], str | None],
    environ: Mapping[str, str],
) -> Missing:
    """Return what of `requires` is missing. `which` finds a program, as `shutil.which` does."""
    return Missing(
        bins=tuple(name for name in _each_once(requires.bins) if which(name) is None),
        # In shells, people often set a variable to nothing instead of unsetting it.
        env=tuple(name for name in _each_once(requires.env) if not environ.get(name)),
    )


def clash(spec: Spec, before: Iterable[Spec]) -> Refused | None:
    """Return why this extension cannot run beside the ones before it; None if it can."""
    if not spec.unique_names:
        return None
    taken = {
        claim: other.id for other in before if other.id != spec.id for claim in other.unique_names
    }
    for claim in spec.unique_names:
        if claim in taken:
            return Refused(
                "X0340",
                f"the {claim.kind} {claim.name!r} already belongs to {taken[claim]!r}",
                extension=spec.id,
                help="only one of the two can run here: disable the other, or change a manifest",
            )
    return None


def configured(spec: Spec, environ: Mapping[str, str]) -> Any:
    """Return the config that is sent to an extension: what a person wrote, then each setting from
    the first source that has it. Raises Refused if a required setting has no value."""
    written = spec.config
    if not spec.settings or not isinstance(written, Mapping):
        return written
    config = dict(written)
    for setting in spec.settings:
        if setting.key in written:
            continue
        text, source = _look_up(setting, spec.stored, environ)
        if text is not None:
            config[setting.key] = _typed(setting, text, source, spec.id)
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
    setting: DeclaredSetting, stored: Mapping[str, str], environ: Mapping[str, str]
) -> tuple[str | None, str]:
    for name in setting.variables:
        if environ.get(name):
            return environ[name], name
    return stored.get(setting.key), "the stored value"


def _typed(setting: DeclaredSetting, text: str, source: str, extension: str) -> Any:
    """Return the value of this text in the type that the setting declares. Errors do not contain
    the text: it may be a secret."""
    if setting.kind == "string":
        return text
    try:
        value = json.loads(text.strip().lower())
    except (ValueError, RecursionError):
        value = None
    if setting.kind == "bool" and isinstance(value, bool):
        return value
    if setting.kind == "number" and isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise Refused(
        "X0351",
        f"its setting {setting.key!r} must be a {setting.kind}, and {source} is not",
        extension=extension,
        help="write true or false" if setting.kind == "bool" else "write a plain number",
        evidence=Evidence(key=setting.key),
    )


def _each_once(names: Iterable[str]) -> Iterable[str]:
    return dict.fromkeys(names)
