"""Names: how a tool is registered in the host, and which known name a wrong one resembles.

Pure, and below everyone: registry, config, command line and errors use it. Knows no registry, so
it cannot see that a name is taken; there the first one wins, with a warning (DESIGN).
Never fails: any two strings have a registered name.
"""

import hashlib
import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Final

# What language-model APIs accept as the name of a tool, and its length there.
MAX_NAME_BYTES: Final = 64
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_-]")
_HASH_DIGITS: Final = 6
# "ext_" + "_" + "_" + the digits: what a cut name holds beside id and tool.
_FRAME_BYTES: Final = 12
# Cut further, an id would leave no room for the hash: 64 - len("ext_") - len("_") - 6.
_MAX_ID_BYTES: Final = 53
# difflib's own threshold: below it the hints are guesses.
_RESEMBLANCE: Final = 0.6


def registered_name(extension_id: str, tool: str) -> str:
    """`ext_{id}_{tool}` in `[A-Za-z0-9_-]`, at most 64 bytes; cut names end in a hash.

    Each character outside the set becomes one `_`, so lengths are bytes and characters alike.
    The hash is taken of the *original* id and tool: two long names that differ only in replaced
    or cut characters stay apart. Short names carry no hash, so `a.b` and `a_b` of one extension
    do collide, and the registry says so.
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
    # A child may send lone surrogates (Node does); they are hashed as they are.
    original = f"{extension_id}\0{tool}".encode(errors="surrogatepass")
    return hashlib.sha256(original).hexdigest()[:_HASH_DIGITS]


def prefixed_description(extension_id: str, text: str) -> str:
    """The description that a registered tool shows: whose it is, then its own words."""
    return f"[ext:{extension_id}] {text}"


def capability_fits(asked: str, offered: str) -> bool:
    """Whether an offered capability is the one that is asked for; `*` on either side is any."""
    return fnmatchcase(offered, _only_stars(asked)) or fnmatchcase(asked, _only_stars(offered))


def _only_stars(pattern: str) -> str:
    # fnmatch's other signs are letters like any other here.
    return pattern.replace("[", "[[]").replace("?", "[?]")


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate that `name` was probably meant to be, or None; upper and lower case agree."""
    import difflib  # only a mistake needs it

    by_folded: dict[str, str] = {}
    for candidate in candidates:
        if candidate == name:
            return candidate
        by_folded.setdefault(candidate.casefold(), candidate)
    close = difflib.get_close_matches(name.casefold(), by_folded, n=1, cutoff=_RESEMBLANCE)
    return by_folded[close[0]] if close else None
