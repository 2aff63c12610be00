"""Reads the section `[trust]`: which extensions are started without asking the user.

    [trust]
    lock = "enforce"
    new = "ask"

The lock (`exthost.lock`) records the approved properties of each extension. The settings are
applied by `discovery.locked_specs`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from exthost.model.documents.keys import Key, one_of
from exthost.model.documents.problems import Place
from exthost.model.documents.readers import read_table


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustSettings:
    """The settings of `[trust]`. None means that a setting is not set.

    lock  what happens to an extension that differs from its record in the lock
    new   what happens to a discovered extension that neither the config nor the lock names
    """

    lock: Literal["enforce", "warn", "off"] | None = None
    new: Literal["ask", "refuse", "allow"] | None = None


DEFAULT_TRUST = TrustSettings()

TRUST_KEYS: Mapping[str, Key] = {
    "lock": Key(
        one_of("enforce", "warn", "off"),
        "What happens to an extension that differs from its record in `exthost.lock`: it is not "
        "started (enforce), or the difference is reported (warn).",
        '"warn"',
        '("enforce" once there is a lock file)',
    ),
    "new": Key(
        one_of("ask", "refuse", "allow"),
        "What happens to a discovered extension that neither the config nor the lock names. On a "
        "terminal, `ask` shows what it is, and asks once; elsewhere it refuses.",
        '"ask"',
        '("allow"; "refuse" once there is a lock file)',
    ),
}


def read_trust(value: Any, place: Place) -> TrustSettings:
    """Read the section."""
    return TrustSettings(**read_table(value, place, TRUST_KEYS))
