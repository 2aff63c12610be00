"""The progress of a call, in both contracts of nexo. nexo itself does not report progress; this is
an addition of exthost. Extensions that use `exthost.sdk` send it as a notification:

    {"jsonrpc":"2.0","method":"tools/progress","params":{"id":7,"progress":1,"total":3}}
"""

from typing import Any

from exthost.dialects.meanings import Meaning, Progress, Unusable
from exthost.model.empty_mapping import EMPTY_MAPPING


def parse_progress(params: Any) -> Meaning:
    """Parse the params of `tools/progress`."""
    fields = params if type(params) is dict else EMPTY_MAPPING
    progress, total, message = (fields.get(name) for name in ("progress", "total", "message"))
    if type(progress) not in (int, float) or progress is None:
        return Unusable("progress that could not be read")
    return Progress(
        fields.get("id"),
        progress,
        total if type(total) in (int, float) else None,
        message if type(message) is str else "",
    )
