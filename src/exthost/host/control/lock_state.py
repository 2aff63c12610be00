"""Describes how an extension compares with the lock of its config, as data for `exthost status`.

The lock (`exthost.lock`) records what a person has approved of each extension: code, permissions
and tools. A tool that differs from its record is in quarantine: it is neither listed nor called.
"""

from typing import Any

from exthost.extension.extension import Extension
from exthost.model.change_text import describe_change

# The codes of errors because of which the lock did not let an extension start (`errors.toml`): it
# differs from its record or cannot be compared with it, or it has no record.
_CHANGED_CODES = frozenset(("X1820", "X1821", "X1827"))
_UNLOCKED_CODES = frozenset(("X1823", "X1824", "X1825"))


def lock_state(extension: Extension) -> str:
    """Return "locked", "changed", "quarantined" (one of its tools is), or "unlocked" if the lock
    has no record of it; "" if there is no lock."""
    code = extension.cause.code if extension.cause is not None else ""
    if code in _CHANGED_CODES:
        return "changed"
    if code in _UNLOCKED_CODES:
        return "unlocked"
    if extension.quarantined:
        return "quarantined"
    return "locked" if extension.spec.lock is not None else ""


def describe_quarantine(extension: Extension) -> list[dict[str, Any]]:
    """Return the tools in quarantine, each with what differs from the lock."""
    return [
        {
            "name": extension.internals.registered_name(quarantine.tool.name),
            "tool": name,
            "extension": extension.id,
            "changes": [describe_change(change) for change in quarantine.changes],
        }
        for name, quarantine in extension.quarantined.items()
    ]
