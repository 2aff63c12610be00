"""The gate: is everything there that an extension says it cannot do without?

Owns one question, asked before any process is started: which of the required programs are not on
PATH, and which of the required variables are not set or empty. Pure: how a program is looked up
and what the environment holds are handed in, so that a listing, a dry run and a real start ask
the very same function. It must not know who asks, and it starts nothing.

A second question has the same answer for everyone: does an earlier extension of the host already
have what only one may have (`clash`)?

It never fails. What is missing comes back as a value: warn with its `message()`, or raise its
`refusal()`. All of it is named at once, since nobody wants to install one thing, try again, and be
told about the next.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from exthost.errors import Evidence, Refused
from exthost.model import Requires, Spec

__all__ = ["Missing", "clash", "gate"]


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


def _each_once(names: Iterable[str]) -> Iterable[str]:
    return dict.fromkeys(names)
