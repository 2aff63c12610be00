"""Rules for names: the name under which the host registers a tool, the suggestion for a misspelt
name, the match of two capabilities, and the name of an environment variable.

    registered_name("weather", "forecast")          returns "ext_weather_forecast"
    nearest("forcast", ["forecast", "history"])     returns "forecast"
    capability_fits("text.*", "text.summarize")     returns True
    variable_name("api-key")                        returns "API_KEY"

These are pure functions that do not see the registry of tools. If two tools get the same name, the
registry keeps the first one and warns. No function raises: they accept any strings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Final

# The length and characters that language-model APIs accept in the name of a tool.
MAX_NAME_BYTES: Final = 64
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_-]")
_HASH_DIGITS: Final = 6
# The bytes of a shortened name that are neither id nor tool: `ext_{id}_{tool}_{hash}`.
_FRAME_BYTES: Final = len("ext_" + "_" + "_") + _HASH_DIGITS
# The longest id that leaves room for the hash, in a name without the tool: `ext_{id}_{hash}`.
_MAX_ID_BYTES: Final = MAX_NAME_BYTES - len("ext_" + "_") - _HASH_DIGITS
# A name is a misspelling if at most one in this many of its characters is wrong.
_CHARACTERS_PER_MISTAKE: Final = 3
# A text matches the beginning of a name if it has at least this many characters, and the end of a
# name if it has more than that: many names have the same short end, such as `_get`.
_MIN_PART: Final = 3
# Only this many characters are compared, because the time is quadratic. Names that a person types
# are shorter.
_MAX_COMPARED: Final = 100


def registered_name(extension_id: str, tool: str) -> str:
    """Return `ext_{id}_{tool}` in `[A-Za-z0-9_-]`, at most 64 bytes.

    Each character outside the set becomes one `_`, so a name has as many bytes as characters. A
    longer name is shortened and ends in a hash of the *original* id and tool: two long names that
    differ only in replaced or removed characters stay different. Short names have no hash, so `a.b`
    and `a_b` of one extension collide, and the registry warns.
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


def registered_prefix(extension_id: str) -> str:
    """Return the text with which the registered name of each tool of this extension begins."""
    safe_id = _UNSAFE.sub("_", extension_id)
    if len(safe_id) > _MAX_ID_BYTES:
        return f"ext_{safe_id[:_MAX_ID_BYTES]}"
    return f"ext_{safe_id}_"


def _digest(extension_id: str, tool: str) -> str:
    # An extension may send lone surrogates, as Node.js does; they are hashed unchanged.
    original = f"{extension_id}\0{tool}".encode(errors="surrogatepass")
    import hashlib

    return hashlib.sha256(original).hexdigest()[:_HASH_DIGITS]


def prefixed_description(extension_id: str, text: str) -> str:
    """Return the description of a registered tool: its extension's id, then its own description."""
    return f"[ext:{extension_id}] {text}"


def capability_fits(wanted: str, offered: str) -> bool:
    """Return whether an offered capability is the wanted one. `*` on either side matches any."""
    return matches_stars(offered, wanted) or matches_stars(wanted, offered)


def matches_stars(text: str, pattern: str) -> bool:
    """Return whether a text matches a pattern, in which `*` stands for any characters."""
    # Without `*`, the comparison saves `fnmatchcase` the time to compile the pattern.
    return fnmatchcase(text, _only_stars(pattern)) if "*" in pattern else text == pattern


def _only_stars(pattern: str) -> str:
    # The other wildcards of fnmatch are ordinary characters here.
    return pattern.replace("[", "[[]").replace("?", "[?]")


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate of which `name` is a misspelling, ignoring case, or None.

    A misspelling has few wrong, missing, additional or exchanged characters, or is the beginning or
    the end of the candidate. A name with more mistakes than that gives None.
    """
    typed = _normalize(name)
    # The best candidate so far has the lowest rank: the number of mistakes, the difference in
    # length, and the candidate itself. A matching beginning or end counts as more mistakes than any
    # misspelling.
    best: tuple[int, int, str] | None = None
    for candidate in candidates:
        if candidate == name:
            return candidate
        target = _normalize(candidate)
        limit = max(1, len(typed) // _CHARACTERS_PER_MISTAKE)
        # A candidate with more mistakes than the best one is of no use.
        allowed = limit if best is None else min(limit, best[0])
        mistakes = _count_mistakes(typed, target, allowed)
        # The second condition is for names of one character, of which each other one is a mistake.
        if mistakes <= allowed and mistakes < len(typed):
            rank = (mistakes, abs(len(target) - len(typed)), candidate)
        elif len(typed) >= _MIN_PART and target.startswith(typed):
            rank = (limit + 1, len(target), candidate)
        elif len(typed) > _MIN_PART and target.endswith(typed):
            rank = (limit + 2, len(target), candidate)
        else:
            continue
        best = rank if best is None else min(best, rank)
    return best[2] if best is not None else None


def _normalize(name: str) -> str:
    """Return the part of a name that is compared. Case, `-` for `_`, and leading underscores are
    not mistakes."""
    return name[:_MAX_COMPARED].casefold().replace("-", "_").lstrip("_")


def _count_mistakes(word: str, other: str, limit: int) -> int:
    """Return the Damerau-Levenshtein distance (optimal string alignment) of two words, or a number
    over `limit` if the distance is over `limit`."""
    # Each mistake adds, removes or replaces at most one character. Most pairs of words are sorted
    # out by this, which takes far less time than the table: a host may have thousands of tools.
    if abs(len(word) - len(other)) > limit or _count_missing(word, other) > limit:
        return limit + 1
    word, other = _without_common_ends(word, other)
    # The usual table with a row for each character of `word`, of which three rows are kept:
    # `row[j]` is the distance of the beginning of `word` from the first `j` characters of `other`.
    # Only entries that can be at most `limit` are computed: those near the diagonal.
    previous: list[int] = []
    row = [min(j, limit + 1) for j in range(len(other) + 1)]
    for i, a in enumerate(word, 1):
        second_previous, previous = previous, row
        row = [min(i, limit + 1)] + [limit + 1] * len(other)
        for j in range(max(1, i - limit), min(len(other), i + limit) + 1):
            b = other[j - 1]
            cost = min(previous[j] + 1, row[j - 1] + 1, previous[j - 1] + (a != b))
            if i > 1 and j > 1 and (a, word[i - 2]) == (other[j - 2], b):  # two exchanged ones
                cost = min(cost, second_previous[j - 2] + 1)
            row[j] = cost
        if min(row) > limit and min(previous) > limit:
            return limit + 1
    return row[-1]


def _without_common_ends(word: str, other: str) -> tuple[str, str]:
    """Return two words without their common beginning, and then without their common end."""
    shorter = min(len(word), len(other))
    start = next((i for i in range(shorter) if word[i] != other[i]), shorter)
    word, other, shorter = word[start:], other[start:], shorter - start
    end = next((i for i in range(shorter) if word[-1 - i] != other[-1 - i]), shorter)
    return word[: len(word) - end], other[: len(other) - end]


def _count_missing(word: str, other: str) -> int:
    """Return how many characters one of the words has that the other one lacks, in any order; the
    larger number of the two words."""
    remaining = other
    for character in word:
        remaining = remaining.replace(character, "", 1)
    common = len(other) - len(remaining)
    return max(len(word), len(other)) - common


def variable_name(text: str) -> str:
    """Return a name for an environment variable, made of a text: `api-key` becomes `API_KEY`."""
    return "".join(char if char.isascii() and char.isalnum() else "_" for char in text).upper()
