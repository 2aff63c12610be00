"""Makes the name under which the host registers a tool, and finds the name that was misspelt.

Pure. It does not know the registry, so it cannot see that a name is taken; in that case the
registry keeps the first tool and warns. No function raises: every pair of strings has a registered
name.
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
# The bytes of a cut name that are neither id nor tool: "ext_", two "_" and the hash digits.
_FRAME_BYTES: Final = 12
# The longest id that leaves room for the hash: 64 - len("ext_") - len("_") - 6.
_MAX_ID_BYTES: Final = 53
# A name counts as misspelt if at most one in this many of its characters is wrong.
_CHARACTERS_PER_MISTAKE: Final = 3
# The shortest text that counts as the beginning or the end of a name.
_MIN_PART: Final = 3
# Only so many characters are compared, because the cost is quadratic; typed names are shorter.
_MAX_COMPARED: Final = 100


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
    """Return the candidate that `name` is a misspelling of, whatever its case, or None.

    A misspelling has few wrong, missing, additional or exchanged characters, or is the beginning or
    the end of the candidate. A word that merely resembles a candidate is not a misspelling.
    """
    wanted = _comparable(name)
    best: tuple[int, int, str] | None = None
    for candidate in candidates:
        if candidate == name:
            return candidate
        known = _comparable(candidate)
        limit = max(1, len(wanted) // _CHARACTERS_PER_MISTAKE)
        mistakes = _mistakes(wanted, known, limit)
        if mistakes <= limit and mistakes < len(wanted):
            rank = (mistakes, abs(len(known) - len(wanted)), candidate)
        elif len(wanted) >= _MIN_PART and known.startswith(wanted):
            rank = (limit + 1, len(known), candidate)
        elif len(wanted) > _MIN_PART and known.endswith(wanted):
            rank = (limit + 2, len(known), candidate)
        else:
            continue
        best = rank if best is None else min(best, rank)
    return best[2] if best is not None else None


def _comparable(name: str) -> str:
    return name[:_MAX_COMPARED].casefold().replace("-", "_").lstrip("_")


def _mistakes(word: str, other: str, limit: int) -> int:
    """Return how many characters must be changed, added, removed or exchanged with their neighbour
    to get from one word to the other; more than `limit` if it is more than that."""
    if abs(len(word) - len(other)) > limit:
        return limit + 1
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, a in enumerate(word, 1):
        last, before, row = before, row, [i]
        for j, b in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and (a, word[i - 2]) == (other[j - 2], b):
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
    return row[-1]
