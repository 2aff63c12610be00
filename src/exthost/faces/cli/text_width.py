"""The width of text on a terminal, in columns: Chinese, Japanese and Korean characters and most
emoji take two, combining marks none."""

import unicodedata


def text_width(text: str) -> int:
    """Return how many columns a text takes. It must not have control characters."""
    return len(text) if text.isascii() else sum(map(_character_width, text))


def pad(text: str, width: int) -> str:
    """Return the text with spaces after it, so that it takes at least `width` columns."""
    return text + " " * (width - text_width(text))


def truncate(text: str, width: int) -> str:
    """Return the text. Cut it if it takes more than `width` columns; it then ends with "…"."""
    if text_width(text) <= width:
        return text
    columns = 1  # of the ellipsis
    for index, character in enumerate(text):
        columns += _character_width(character)
        if columns > width:
            return f"{text[:index]}…"
    return text


def _character_width(character: str) -> int:
    if unicodedata.east_asian_width(character) in "WF":
        return 2
    # Vowels and final consonants of Korean are drawn below the first letter of their syllable.
    is_combined = "\u1160" <= character <= "\u11ff"
    return 0 if is_combined or unicodedata.category(character) in ("Mn", "Me", "Cf") else 1
