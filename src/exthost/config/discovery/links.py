"""The record of symlinks that `exthost install --link` makes in a search directory.

With such a symlink, an extension can be developed outside of the search directory. The record is a
JSON file in the search directory, which maps the name of each symlink to the real path of its
target. Discovery follows a recorded symlink even if `follow_links` is off, and although its target
is outside the search directory, because a user installed exactly that target. If a recorded symlink
leads to another target than the recorded one, the record does not apply to it.

The record needs no additional protection. A user who can write it can also write to the search
directory, and could therefore put an extension there directly.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path

from exthost.config.discovery.untrusted_files import read_file
from exthost.errors import ManifestError

LINKS_FILE = ".exthost-links.json"


def read_links(root: str) -> dict[str, str]:
    """Return the record of a search directory: name of the symlink → real path of its target. The
    result is empty if there is no record, or if the record cannot be read."""
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
    """Replace the record of a search directory atomically. If there are no links, remove it."""
    path = Path(root, LINKS_FILE)
    if not links:
        path.unlink(missing_ok=True)
        return
    # A rename is atomic, so a reader sees the old record or the new one, never a part.
    temp_path = path.with_name(f"{LINKS_FILE}.{os.getpid()}")
    temp_path.write_text(json.dumps(dict(links), indent=2) + "\n", encoding="utf-8")
    temp_path.replace(path)
