"""Shortens a text of an extension for a message. Pure."""


def shorten_to(max_characters: int, text: str) -> str:
    """Return the text, or its beginning and `…` if it is longer. Without that mark, the beginning
    of a secret at the end would not be recognised and hidden."""
    return text if len(text) <= max_characters else f"{text[:max_characters]}…"
