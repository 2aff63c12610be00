"""The gate: is everything there that an extension says it cannot do without?

Owns one question, asked before any process is started: which of the required programs are not on
PATH, and which of the required variables are not set or empty. Pure: how a program is looked up
and what the environment holds are handed in, so that a listing, a dry run and a real start ask
the very same function. It must not know who asks, and it starts nothing.

A second question has the same answer for everyone: does an earlier extension of the host already
have what only one may have (`clash`)? A third, for those that want to be told values when they
start: where is each of them found (`configured`)?

The first two never fail. What is missing comes back as a value: warn with its `message()`, or
raise its `refusal()`. All of it is named at once, since nobody wants to install one thing, try
again, and be told about the next.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from exthost.errors import Evidence, Refused
from exthost.model import Requires, Setting, Spec

__all__ = ["Missing", "clash", "configured", "gate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """What is not there, in the manifest's own order. False when there is nothing to say."""

    bins: tuple[str, ...] = ()
    env: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.bins or self.env)

    def message(self) -> str:
        """One sentence that names every missing thing; "" when nothing is missing."""
        if not self:
            return ""
        parts = []
        if self.bins:
            parts.append(f"not on PATH: {', '.join(self.bins)}")
        if self.env:
            parts.append(f"not set, or empty: {', '.join(self.env)}")
        return f"what it requires is not there ({'; '.join(parts)})"

    def help(self) -> str:
        """What a person can do about it."""
        steps = []
        if self.bins:
            steps.append("install the programs, or extend PATH")
        if self.env:
            steps.append("set the variables where the host is started")
        return "; ".join(steps)

    def refusal(self, extension: str) -> Refused:
        """The same as an error, for the caller who has to stop here."""
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
    """What of `requires` is missing. `which` finds a program, as `shutil.which` does."""
    return Missing(
        bins=tuple(name for name in _each_once(requires.bins) if which(name) is None),
        # A variable that is set to nothing is how shells spell "unset" in a hurry.
        env=tuple(name for name in _each_once(requires.env) if not environ.get(name)),
    )


def clash(spec: Spec, before: Iterable[Spec]) -> Refused | None:
    """Why this extension cannot be there beside those before it; None: it can."""
    taken = {claim: other.id for other in before if other.id != spec.id for claim in other.claims}
    for claim in spec.claims:
        if claim in taken:
            return Refused(
                "X0340",
                f"the {claim.kind} {claim.name!r} is already that of {taken[claim]!r}",
                extension=spec.id,
                help="only one of the two can run here: disable the other, or change a manifest",
            )
    return None


def configured(spec: Spec, environ: Mapping[str, str]) -> Any:
    """The config that an extension is told: what a person wrote for it, then each setting from
    the first place that has it. Raises Refused for one that is required and nowhere to be found."""
    written = spec.config
    if not spec.settings or not isinstance(written, Mapping):
        return written
    told = dict(written)
    for setting in spec.settings:
        if setting.key in written:
            continue
        text, place = _found(setting, spec.stored, environ)
        if text is not None:
            told[setting.key] = _typed(setting, text, place, spec.id)
        elif setting.default is not None:
            told[setting.key] = setting.default
        elif setting.required:
            names = " or ".join(setting.variables)
            raise Refused(
                "X0350",
                f"its setting {setting.key!r} is required, and has no value",
                extension=spec.id,
                help=f"set {names} where the host is started, or store a value for it",
                evidence=Evidence(key=setting.key),
            )
    return told


def _found(
    setting: Setting, stored: Mapping[str, str], environ: Mapping[str, str]
) -> tuple[str | None, str]:
    for name in setting.variables:
        if environ.get(name):
            return environ[name], name
    return stored.get(setting.key), "the stored value"


def _typed(setting: Setting, text: str, place: str, extension: str) -> Any:
    """The value in this text, of the type that the setting declares. The text itself is never
    shown: it may be a secret."""
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
        f"its setting {setting.key!r} must be a {setting.kind}, and {place} is none",
        extension=extension,
        help="write true or false" if setting.kind == "bool" else "write a plain number",
        evidence=Evidence(key=setting.key),
    )


def _each_once(names: Iterable[str]) -> Iterable[str]:
    return dict.fromkeys(names)
