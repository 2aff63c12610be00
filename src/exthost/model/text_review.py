"""Shows a person what changed in a text, and what the text hides. It asks no model and does no I/O.

`exthost approve` uses it for the descriptions of tools, which a model follows and a person
approves. `word_diff` marks the words that were added and removed. `find_hidden_parts` names what a
reader of a tool's description does not see, or would not expect: invisible and bidirectional
characters, HTML comments, terminal codes, very long lines, and the names of other tools.
"""

import difflib
import re
import unicodedata
from collections.abc import Iterable

# How many characters are shown of a part that is too long for a diff of its words.
_SHOWN_CHARACTERS = 4000

# A diff of more words takes seconds. The part that differs is then shown as replaced.
_MAX_WORDS = 4000

# How many unchanged words are shown around a change.
_CONTEXT_WORDS = 6

# A longer line is suspicious: a reader does not scroll further to the right.
_MAX_LINE = 500

# Characters that change the direction of text, so that it is shown in another order.
_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")

# Characters of the category "format" that ordinary text has: joiners of scripts and emoji.
_ORDINARY = frozenset("\u200c\u200d\u00ad")

# Letters that have no width, and characters that show nothing: fillers, variation selectors, tags.
_INVISIBLE = re.compile(
    "[\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\uffa0\ufe00-\ufe0e\U000e0000-\U000e0fff]"
)


def word_diff(before: str, after: str) -> str:
    """Return a text in which `[-removed-]` and `{+added+}` mark the words that differ."""
    old, new = _words(before), _words(after)
    if len(old) + len(new) > _MAX_WORDS:
        return _long_diff(old, new)
    parts = []
    # Spaces, and the most frequent words of a long text, do not count as common words of the two
    # texts: with them, a diff of a thousand words took minutes.
    matcher = difflib.SequenceMatcher(str.isspace, old, new)
    for operation, old_start, old_end, new_start, new_end in matcher.get_opcodes():
        if operation == "equal":
            parts.append(_shorten(old[old_start:old_end]))
            continue
        parts.append(_mark(old[old_start:old_end], new[new_start:new_end]))
    return "".join(parts)


def _long_diff(old: list[str], new: list[str]) -> str:
    """Return the words from the first to the last one that differs as removed and added, each cut
    to `_SHOWN_CHARACTERS`."""
    shorter = min(len(old), len(new))
    start = next((i for i in range(shorter) if old[i] != new[i]), shorter)
    rest = range(1, shorter - start + 1)
    length = next((i - 1 for i in rest if old[-i] != new[-i]), shorter - start)
    old_end, new_end = len(old) - length, len(new) - length
    changed = _mark(old[start:old_end], new[start:new_end], _SHOWN_CHARACTERS)
    return f"{_shorten(old[:start])}{changed}{_shorten(old[old_end:])}"


def _mark(old: list[str], new: list[str], limit: int | None = None) -> str:
    """Return these words marked as removed and added, each cut to `limit` characters."""
    removed, added = (
        text if limit is None or len(text) <= limit else f"{text[:limit]}…"
        for text in ("".join(old), "".join(new))
    )
    return (f"[-{removed}-]" if removed else "") + (f"{{+{added}+}}" if added else "")


def _words(text: str) -> list[str]:
    """Return the words of a text, and the spaces and signs between them."""
    return re.findall(r"\s+|\w+|[^\w\s]", text)


def _shorten(words: list[str]) -> str:
    """Return unchanged words as text. Of many words, only those beside the changes are shown. Each
    word and the space after it are two items of the list."""
    if len(words) <= 4 * _CONTEXT_WORDS:
        return "".join(words)
    return "".join((*words[: 2 * _CONTEXT_WORDS], " … ", *words[-2 * _CONTEXT_WORDS :]))


def find_hidden_parts(text: str, other_tools: Iterable[str] = ()) -> list[str]:
    """Return what a text hides, one sentence part each, such as "an HTML comment: <!-- … -->".
    `other_tools` are the names of the tools of other extensions."""
    flags = []
    if bidi := [character for character in text if character in _BIDI]:
        flags.append(f"characters that change the direction of text: {_code_points(bidi)}")
    invisible = [character for character in text if _is_invisible(character)]
    # After an ASCII letter a joiner joins nothing.
    invisible += re.findall(r"(?<=[\x00-\x7f])[\u200c\u200d\u00ad]", text)
    if invisible:
        flags.append(f"invisible characters: {_code_points(invisible)}")
    if "\x1b" in text or "\x9b" in text:
        flags.append("terminal codes (ANSI)")
    controls = [c for c in text if unicodedata.category(c) == "Cc" and c not in "\n\t\r\x1b\x9b"]
    has_lone_carriage_return = re.search(r"\r(?!\n)", text) is not None
    if controls or has_lone_carriage_return:
        code_points = _code_points(controls or ["\r"])
        flags.append(f"control characters: {code_points}")
    if comment := re.search(r"<!--.*?(?:-->|$)", text, re.DOTALL):
        flags.append(f"an HTML comment: {_excerpt(comment[0])}")
    tag = re.search(r"<(?:important|system|secret|instructions?)\b", text, re.IGNORECASE)
    tag_end = text.find(">", tag.end()) if tag else -1
    if tag and tag_end >= 0:
        flags.append(f"a tag that addresses the model: {_excerpt(text[tag.start() : tag_end + 1])}")
    longest = max(map(len, text.split("\n")), default=0)
    if longest > _MAX_LINE:
        flags.append(f"a line of {longest} characters")
    gaps = re.findall(r"\s+", text.rstrip())
    if any(gap.count("\n") >= 10 for gap in gaps) or re.search(
        r"\S[ \t\u00a0\u2000-\u200a\u3000]{40,}\S", text
    ):
        flags.append("text after a long gap")
    words = set(re.findall(r"[A-Za-z0-9_.:-]+", text))
    stripped = {word.strip(".:-") for word in words}
    if named := sorted(name for name in set(other_tools) if _is_telling(name) and name in stripped):
        shown = ", ".join(named[:5]) + (" …" if len(named) > 5 else "")
        flags.append(f"the names of other tools of this host: {shown}")
    return flags


def _is_invisible(character: str) -> bool:
    """Return whether a character shows nothing, and does not change the direction of text."""
    if character in _BIDI:
        return False
    category = unicodedata.category(character)
    return (
        _INVISIBLE.match(character) is not None
        or (category == "Cf" and character not in _ORDINARY)  # a formatting character
        or category in ("Co", "Cn", "Cs")  # private use, not assigned, half a surrogate pair
    )


def _is_telling(name: str) -> bool:
    """Return whether the name of a tool is unlikely to be an ordinary word."""
    return bool(re.search(r"[_.:-]|[a-z][A-Z]|[0-9]", name)) and len(name) > 3


def _code_points(characters: Iterable[str]) -> str:
    """Return the code points of characters as text, each once, at most five."""
    different = list(dict.fromkeys(characters))
    code_points = [f"U+{ord(character):04X}" for character in different[:5]]
    return ", ".join(code_points) + (" …" if len(different) > 5 else "")


def _excerpt(text: str) -> str:
    """Return the beginning of a text on one line."""
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:60]}…"
