"""Links to extensions that lie elsewhere, recorded in the search path that has them.

`exthost install --link` makes such a link and records its target. Discovery follows a recorded link
whatever `follow_links` says, and counts its target as inside the search path: a person asked for
just this folder. A link that leads anywhere else than its record says is treated as any other.

The record is a file in the search path. Whoever can write it could put an extension there as well.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path

from exthost.discovery.untrusted_files import read_file
from exthost.errors import ManifestError

__all__ = ["LINKS_FILE", "read_links", "write_links"]

LINKS_FILE = ".exthost-links.json"


def read_links(root: str) -> dict[str, str]:
    """Return the recorded links of a search path: name → real path of the target. A record that
    cannot be read means no links: they are then treated as any other."""
    path = f"{root.rstrip('/')}/{LINKS_FILE}"
    if not os.path.lexists(path):
        return {}
    try:
        data = read_file(path)
        links = json.loads(data) if data else {}
    except (ManifestError, ValueError, RecursionError):
        return {}
    if not isinstance(links, dict):
        return {}
    return {name: target for name, target in links.items() if isinstance(target, str)}


def write_links(root: str, links: Mapping[str, str]) -> None:
    """Replace the record in one step; without links there is none."""
    path = Path(root, LINKS_FILE)
    if not links:
        path.unlink(missing_ok=True)
        return
    beside = path.with_name(f"{LINKS_FILE}.{os.getpid()}")
    beside.write_text(json.dumps(dict(links), indent=2) + "\n", encoding="utf-8")
    beside.replace(path)
