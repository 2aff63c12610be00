"""The host's own variables, as they are now.

`os.environ` decodes every name and value each time it is read, which is a tenth of a start. They
hardly ever change, so the decoded ones are kept until they do.
"""

import os

from exthost.process.environment import Snapshot

_seen: object = None
_snapshot = Snapshot({})


def our_variables() -> Snapshot:
    """The variables of this process. The same object for as long as none of them has changed."""
    global _seen, _snapshot
    # The encoded ones, as they came from the system: comparing them takes no decoding.
    raw = getattr(os.environ, "_data", None)
    if raw is None or raw != _seen:
        _seen = None if raw is None else dict(raw)
        _snapshot = Snapshot(dict(os.environ))
    return _snapshot
