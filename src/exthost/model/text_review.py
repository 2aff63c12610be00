"""Shows a person what changed in a text, and what the text hides. Pure: no model and no network.

`word_diff` marks the words that were added and removed. `find_hidden_parts` names what a reader of
a tool's description does not see, or would not expect: invisible and bidirectional characters, HTML
comments, terminal codes, very long lines, and the names of other tools.
"""

import difflib
import re
import unicodedata
from collections.abc import Iterable

# A description of this length is shown as a whole; of a longer one, only the changed words are.
_SHOWN_CHARACTERS = 4000

# A diff of more words takes seconds. It is then shown as a text that was replaced.
_MAX_WORDS = 4000

# How many unchanged words are shown around a change.
_CONTEXT_WORDS = 6

# A reader does not scroll further to the right.
_MAX_LINE = 500

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
        return f"[-{before[:_SHOWN_CHARACTERS]}-]{{+{after[:_SHOWN_CHARACTERS]}+}}"
    parts = []
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for operation, a, b, c, d in matcher.get_opcodes():
        if operation == "equal":
            parts.append(_shorten(old[a:b]))
            continue
        removed, added = "".join(old[a:b]), "".join(new[c:d])
        parts += [f"[-{removed}-]" if removed else "", f"{{+{added}+}}" if added else ""]
    return "".join(parts)


def _words(text: str) -> list[str]:
    return re.findall(r"\s+|\w+|[^\w\s]", text)


def _shorten(words: list[str]) -> str:
    if len(words) <= 4 * _CONTEXT_WORDS:
        return "".join(words)
    return "".join((*words[: 2 * _CONTEXT_WORDS], " … ", *words[-2 * _CONTEXT_WORDS :]))


def find_hidden_parts(text: str, other_tools: Iterable[str] = ()) -> list[str]:
    """Return what a text hides, one sentence part each. `other_tools` are the names of the tools of
    other extensions."""
    flags = []
    if bidi := [character for character in text if character in _BIDI]:
        flags.append(f"characters that change the direction of text: {_name(bidi)}")
    invisible = [
        character
        for character in text
        if character not in _BIDI
        and (
            _INVISIBLE.match(character)
            or (unicodedata.category(character) == "Cf" and character not in _ORDINARY)
            or unicodedata.category(character) in ("Co", "Cn", "Cs")
        )
    ]
    # Between ASCII letters a joiner joins nothing.
    invisible += re.findall(r"(?<=[\x00-\x7f])[\u200c\u200d\u00ad]", text)
    if invisible:
        flags.append(f"invisible characters: {_name(invisible)}")
    if "\x1b" in text or "\x9b" in text:
        flags.append("terminal codes (ANSI)")
    controls = [c for c in text if unicodedata.category(c) == "Cc" and c not in "\n\t\r\x1b\x9b"]
    if controls or re.search(r"\r(?!\n)", text):
        flags.append(f"control characters: {_name(controls or [chr(13)])}")
    if comment := re.search(r"<!--.*?(?:-->|$)", text, re.DOTALL):
        flags.append(f"an HTML comment: {_excerpt(comment[0])}")
    if tag := re.search(r"<(?:important|system|secret|instructions?)\b[^>]*>", text, re.IGNORECASE):
        flags.append(f"a tag that addresses the model: {_excerpt(tag[0])}")
    longest = max(map(len, text.split("\n")), default=0)
    if longest > _MAX_LINE:
        flags.append(f"a line of {longest} characters")
    if re.search(r"\S[ \t\u00a0\u2000-\u200a\u3000]{40,}\S|\n\s*(?:\n\s*){9,}\S", text):
        flags.append("text after a long gap")
    words = set(re.findall(r"[A-Za-z0-9_.:-]+", text))
    stripped = {word.strip(".:-") for word in words}
    if named := sorted(name for name in set(other_tools) if _is_telling(name) and name in stripped):
        shown = ", ".join(named[:5]) + (" …" if len(named) > 5 else "")
        flags.append(f"the names of other tools of this host: {shown}")
    return flags


def _is_telling(name: str) -> bool:
    """Return whether a word is the name of a tool, and unlikely to be an ordinary word."""
    return bool(re.search(r"[_.:-]|[a-z][A-Z]|[0-9]", name)) and len(name) > 3


def _name(characters: Iterable[str]) -> str:
    found = list(dict.fromkeys(characters))
    names = [f"U+{ord(c):04X}" for c in found[:5]]
    return ", ".join(names) + (" …" if len(found) > 5 else "")


def _excerpt(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:60]}…"
