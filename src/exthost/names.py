"""Names: the name under which the host registers a tool, and the known name nearest to a wrong one.

Pure; registry, config, command line and errors use it. It does not know the registry, so it cannot
see that a name is taken: the registry keeps the first tool and warns. Never fails: every pair of
strings has a registered name.
"""

import hashlib
import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Final

# The length and characters that language-model APIs accept in the name of a tool.
MAX_NAME_BYTES: Final = 64
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_-]")
_HASH_DIGITS: Final = 6
# "ext_" + "_" + "_" + the hash digits: the part of a cut name that is neither id nor tool.
_FRAME_BYTES: Final = 12
# The longest id that leaves room for the hash: 64 - len("ext_") - len("_") - 6.
_MAX_ID_BYTES: Final = 53
# difflib's own default: suggestions below it are rarely right.
_RESEMBLANCE: Final = 0.6


def registered_name(extension_id: str, tool: str) -> str:
    """Return `ext_{id}_{tool}` in `[A-Za-z0-9_-]`, at most 64 bytes. A cut name ends in a hash.

    Each character outside the set becomes one `_`, so a name has as many bytes as characters. The
    hash is that of the *original* id and tool: two long names that differ only in replaced or cut
    characters stay different. Short names have no hash, so `a.b` and `a_b` of one extension
    collide, and the registry warns.
    """
    safe_id, safe_tool = _UNSAFE.sub("_", extension_id), _UNSAFE.sub("_", tool)
    name = f"ext_{safe_id}_{safe_tool}"
    if len(name) <= MAX_NAME_BYTES:
        return name
    digest = _digest(extension_id, tool)
    room = MAX_NAME_BYTES - _FRAME_BYTES - len(safe_id)
    if room >= 0:
        return f"ext_{safe_id}_{safe_tool[:room]}_{digest}"
    return f"ext_{safe_id[:_MAX_ID_BYTES]}_{digest}"


def _digest(extension_id: str, tool: str) -> str:
    # A child may send lone surrogates (Node does); they are hashed unchanged.
    original = f"{extension_id}\0{tool}".encode(errors="surrogatepass")
    return hashlib.sha256(original).hexdigest()[:_HASH_DIGITS]


def prefixed_description(extension_id: str, text: str) -> str:
    """Return the description of a registered tool: its extension's id, then its own description."""
    return f"[ext:{extension_id}] {text}"


def capability_fits(wanted: str, offered: str) -> bool:
    """Return whether an offered capability is the wanted one. `*` on either side matches any."""
    return fnmatchcase(offered, _only_stars(wanted)) or fnmatchcase(wanted, _only_stars(offered))


def _only_stars(pattern: str) -> str:
    # The other wildcards of fnmatch are ordinary characters here.
    return pattern.replace("[", "[[]").replace("?", "[?]")


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate most similar to `name`, whatever its case, or None."""
    import difflib  # here, because only a mistake needs it

    by_folded: dict[str, str] = {}
    for candidate in candidates:
        if candidate == name:
            return candidate
        by_folded.setdefault(candidate.casefold(), candidate)
    close = difflib.get_close_matches(name.casefold(), by_folded, n=1, cutoff=_RESEMBLANCE)
    return by_folded[close[0]] if close else None
