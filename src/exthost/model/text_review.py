"""Shows a person what changed in a text, and what the text hides. It asks no model and does no I/O.

`exthost approve` uses it for the descriptions of tools, which a model follows and a person
approves. `word_diff` marks the words that were added and removed. `find_hidden_parts` names what a
reader of a tool's description does not see, or would not expect: invisible and bidirectional
characters, letters of other scripts that look Latin, HTML comments, terminal codes, very long
lines, and the names of other tools.
"""

import re
import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

# How many characters of a removed text are shown. An added text is shown as a whole, because a
# person approves it.
_REMOVED_CHARACTERS = 4000

# How often a part of two texts is divided at words that it has only once. This limits the time: an
# extension can send any texts, and the host compares them too, for its page.
_MAX_DIVISIONS = 8

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

# Letters of the Cyrillic, Greek and Armenian scripts that look like Latin ones, without accents.
_LOOK_LATIN = frozenset(
    "\u0430\u0441\u0435\u043e\u0440\u0445\u0443\u0455\u0456\u0458\u04bb\u0501\u051b\u051d"
    "\u04cf\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0425\u0423\u0405"
    "\u0406\u0408\u050c\u051a\u051c\u04c0"
    "\u03b1\u03b9\u03ba\u03bd\u03bf\u03c1\u03c5\u03f2\u03f3\u0391\u0392\u0395\u0396\u0397"
    "\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03f9\u037f"
    "\u0578\u057d\u0570\u0585\u0581\u0566\u057c\u0555\u054d\u053c"
)


def word_diff(before: str, after: str) -> str:
    """Return a text in which `[-removed-]` and `{+added+}` mark the words that differ. Takes a time
    that is proportional to the length of the texts."""
    old, new = _words(before), _words(after)
    parts: list[str] = []
    equal: list[str] = []  # the words since the last change
    old_index = new_index = 0
    for old_start, new_start, size in (*_equal_parts(old, new), (len(old), len(new), 0)):
        removed = "".join(old[old_index:old_start])
        added = "".join(new[new_index:new_start])
        if len(removed) > _REMOVED_CHARACTERS:
            rest = len(removed) - _REMOVED_CHARACTERS
            removed = f"{removed[:_REMOVED_CHARACTERS]} … {rest} more characters"
        if removed or added:
            parts += [_shorten(equal), f"[-{removed}-]" if removed else ""]
            parts.append(f"{{+{added}+}}" if added else "")
            equal = []
        old_index, new_index = old_start + size, new_start + size
        equal += old[old_start:old_index]
    return "".join((*parts, _shorten(equal)))


def _equal_parts(
    old: Sequence[str], new: Sequence[str], divisions: int = 0
) -> Iterator[tuple[int, int, int]]:
    """Yield the parts that two texts have in common, in their order, as the index of the first word
    in each text and the number of words. These are the beginning and the end, and what is found in
    the same way between the words that both texts have only once."""
    shorter = min(len(old), len(new))
    start = next((n for n in range(shorter) if old[n] != new[n]), shorter)
    shorter -= start
    end = next((n for n in range(shorter) if old[-1 - n] != new[-1 - n]), shorter)
    old_end, new_end = len(old) - end, len(new) - end
    if start:
        yield 0, 0, start
    if divisions < _MAX_DIVISIONS:
        bounds = [
            (start + old_index, start + new_index)
            for old_index, new_index in _find_anchors(old[start:old_end], new[start:new_end])
        ]
        if bounds:
            bounds = [(start, start), *bounds, (old_end, new_end)]
        for (old_from, new_from), (old_to, new_to) in pairwise(bounds):
            between = old[old_from:old_to], new[new_from:new_to]
            for old_index, new_index, size in _equal_parts(*between, divisions + 1):
                yield old_from + old_index, new_from + new_index, size
    if end:
        yield old_end, new_end, end


def _find_anchors(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Return the indexes of the words that each text has only once and that have the same order in
    both: as many of these words as possible."""
    old_counts, new_counts = Counter(old), Counter(new)
    new_indexes = {word: index for index, word in enumerate(new) if new_counts[word] == 1}
    # The longest increasing subsequence. `ends` has, for each length, the smallest index in the new
    # text at which a sequence of this length ends, and `chains` that sequence, from its end.
    ends: list[int] = []
    chains: list[_Chain] = []
    for old_index, word in enumerate(old):
        new_index = new_indexes.get(word)
        if new_index is None or old_counts[word] != 1:
            continue
        length = bisect_left(ends, new_index)
        chain = _Chain(old_index, new_index, chains[length - 1] if length else None)
        ends[length : length + 1] = [new_index]  # replaces the item, or appends it
        chains[length : length + 1] = [chain]
    anchors = []
    link = chains[-1] if chains else None
    while link is not None:
        anchors.append((link.old_index, link.new_index))
        link = link.before
    return anchors[::-1]


class _Chain(NamedTuple):
    """A word that two texts have in common, and the chain of the words before it."""

    old_index: int
    new_index: int
    before: "_Chain | None"


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
    if lookalikes := [] if text.isascii() else _lookalikes(text):
        flags.append(f"letters of other scripts that look Latin: {_code_points(lookalikes)}")
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
    # Not a part of the pattern, which would search the rest once more after each such tag.
    if tag is not None and (end := text.find(">", tag.end())) >= 0:
        flags.append(f"a tag that addresses the model: {_excerpt(text[tag.start() : end + 1])}")
    longest = max(map(len, text.split("\n")), default=0)
    if longest > _MAX_LINE:
        flags.append(f"a line of {longest} characters")
    # There is text after every gap, because `rstrip` removes the last one. A pattern that looks for
    # it too would try all ways to divide many empty lines.
    if re.search(r"\S[^\S\n]{40,}\S|(?:\n[^\S\n]*){10}", text.rstrip()):
        flags.append("text after a long gap")
    words = set(re.findall(r"[A-Za-z0-9_.:-]+", text))
    stripped = {word.strip(".:-") for word in words}
    if named := sorted(filter(_is_telling, stripped.intersection(other_tools))):
        shown = ", ".join(named[:5]) + (" …" if len(named) > 5 else "")
        flags.append(f"the names of other tools of this host: {shown}")
    return flags


def _lookalikes(text: str) -> list[str]:
    """Return the letters that look Latin, and are in words whose other letters are Latin."""
    lookalikes = []
    # Decomposed, a letter with an accent is the letter and a mark, which is removed.
    decomposed = unicodedata.normalize("NFD", text)
    unmarked = "".join(c for c in decomposed if not unicodedata.combining(c))
    for word in re.findall(r"[^\W\d_]+", unmarked):
        candidates = [letter for letter in word if letter in _LOOK_LATIN]
        others = [letter for letter in word if letter not in _LOOK_LATIN] if candidates else []
        if others and all(unicodedata.name(letter, "").startswith("LATIN ") for letter in others):
            lookalikes += candidates
    return lookalikes


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
