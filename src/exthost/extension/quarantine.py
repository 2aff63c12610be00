"""The error for a call of a tool that is in quarantine: the tool differs from the lock of the
config, or is new (see `model.lock_record`)."""

import shlex

from exthost.errors import Refused
from exthost.model.lock_record import Quarantine

__all__ = ["quarantine_error"]


def quarantine_error(extension: str, tool: str, quarantine: Quarantine) -> Refused:
    """Return the error for a call of this tool."""
    return Refused(
        "X1822",
        f"the tool {tool!r} is quarantined: {quarantine.reason}",
        extension=extension,
        help=f"see what changed and approve it: exthost approve {shlex.quote(extension)}",
    )
