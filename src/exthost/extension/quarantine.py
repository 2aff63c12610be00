"""The error for a call of a tool that is in quarantine.

The lock (`exthost.lock`) records which tools of an extension were approved. A tool that differs
from its record, or has none, is in quarantine: it is neither listed nor called (see
`model.lock_record`).
"""

import shlex

from exthost.errors import Refused
from exthost.model.lock_record import Quarantine


def quarantine_error(extension: str, quarantine: Quarantine) -> Refused:
    """Return the error for a call of the tool."""
    return Refused(
        "X1822",
        f"the tool {quarantine.tool.name!r} is quarantined, since it differs from exthost.lock: "
        f"{quarantine.reason}; exthost approve {shlex.quote(extension)} shows it and asks",
        extension=extension,
        help=f"exthost approve {shlex.quote(extension)}; until then other tools can be called",
    )
