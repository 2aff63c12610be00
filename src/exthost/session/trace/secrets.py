"""Replaces secrets in trace records by `***`.

There are two rules. The value of an environment variable that looks like a secret, or that is
configured as a secret of the extension, is replaced wherever it occurs in a text: as it is, as JSON
writes it, one of its lines, or encoded as base64, as hexadecimal digits or for a URL. Base64 is
recognised also if other bytes are encoded together with the secret, such as a user name, unless it
is broken into lines. Libraries differ in which characters they escape in JSON and in a URL; all of
these forms are recognised, in a text of usual length. A number whose text is a secret is replaced,
too. The whole text, or each text of a list, under a JSON field such as `authorization`, `api_key`
or `password` is replaced. A secret that the extension itself creates, in a field whose name does
not look like that of a secret, is not recognised.
"""

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import quote_from_bytes, unquote

from exthost.model.secret_names import is_secret_name

HIDDEN = "***"

# Where a message shows only the beginning of a text, this is at the end of that beginning.
CUT_MARK = "…"

# A shorter value is not treated as a secret: it would occur in many texts by chance.
MIN_SECRET_CHARACTERS = 6

# Replaces data that is nested too deeply to be searched, but not too deeply to be decoded.
TOO_DEEP = "(a value nested too deeply to be shown)"

# In a longer text, only the usual forms of escaped secrets are recognised: to decode a text of this
# length can take tens of milliseconds.
_MAX_DECODED_CHARACTERS = 64 * 1024

# With fewer values than this, each is searched for by itself, which is then as fast.
_MIN_INDEXED_VALUES = 48

# The values are indexed by the parts of this length that begin in their first N characters. Of the
# parts of a text, each Nth is looked up: wherever a value begins, one of its indexed parts is among
# them. N is as large as the shortest value allows, up to this limit.
_PART_CHARACTERS = 4
_MAX_STEP = 12

# How many parts of a text are looked up at a time, to save memory.
_PARTS_AT_ONCE = 16 * 1024

# The text of a number, as `str` writes it.
_NUMBER = re.compile(r"-?[0-9][0-9.e+-]*")


class SecretFilter:
    """Hides the secrets in texts and data: `values`, and the text of fields with the name of a
    secret."""

    __slots__ = ("_index", "_numbers", "_parts", "_shortest", "_step", "_values")

    def __init__(self, values: Iterable[str] = ()) -> None:
        forms = {form for value in values for form in _find_forms(value)}
        secrets = {form for form in forms if len(form) >= MIN_SECRET_CHARACTERS}
        # The longest first, because one secret may be a part of another.
        self._values = tuple(sorted(secrets, key=len, reverse=True))
        self._numbers = frozenset(filter(_NUMBER.fullmatch, secrets))
        self._shortest = len(self._values[-1]) if self._values else 0
        self._step = min(self._shortest - _PART_CHARACTERS + 1, _MAX_STEP)
        # The numbers of the values, by each part of their beginning; empty if there are few values.
        self._index: dict[str, list[int]] = {}
        if len(self._values) >= _MIN_INDEXED_VALUES:
            for number, value in enumerate(self._values):
                for start in range(self._step):
                    part = value[start : start + _PART_CHARACTERS]
                    self._index.setdefault(part, []).append(number)
        self._parts = frozenset(self._index)

    def text(self, text: str) -> str:
        """Return the text without secrets. The beginning of a secret is hidden as well if `…`
        follows it, which marks the place at which a text was shortened."""
        if self._values and self._shortest <= len(text) <= _MAX_DECODED_CHARACTERS:
            for escape, code in (("%", _PERCENT_CODED), ("\\", _JSON_ESCAPE)):
                if escape in text:
                    text = self._hide_escaped(text, code)
        for value in self._find_values(text):
            text = text.replace(value, HIDDEN)
        if self._values and CUT_MARK in text:
            *parts, rest = text.split(CUT_MARK)
            text = CUT_MARK.join([*map(self._hide_end, parts), rest])
        return text

    def _find_values(self, text: str) -> list[str]:
        """Return the secrets that the text contains, the longest first."""
        if len(text) < self._shortest:
            return []
        if not self._index:
            return [value for value in self._values if value in text]
        numbers: set[int] = set()
        step = self._step
        for start in range(0, len(text), _PARTS_AT_ONCE * step):
            end = min(start + _PARTS_AT_ONCE * step, len(text))
            parts = [text[at : at + _PART_CHARACTERS] for at in range(start, end, step)]
            for part in self._parts.intersection(parts):
                numbers.update(self._index[part])
        return [value for number in sorted(numbers) if (value := self._values[number]) in text]

    def _hide_escaped(self, text: str, code: re.Pattern[str]) -> str:
        """Return the text without secrets of which any characters are escaped. `code` matches an
        escaped character: `_PERCENT_CODED` or `_JSON_ESCAPE`."""
        plain = code.sub(_unescape, text)
        values = self._find_values(plain)
        if code is _PERCENT_CODED and "+" in plain:  # in the body of a form, a space is `+`
            spaced = (value.replace(" ", "+") for value in self._values if " " in value)
            values += [value for value in spaced if value in plain]
        if not values:
            return text
        places: list[int] = []  # where each character of `plain` begins in the text
        end = 0
        for match in code.finditer(text):
            places += range(end, match.start() + 1)
            end = match.end()
        places += range(end, len(text) + 1)
        spans: list[tuple[int, int]] = []
        for value in values:
            start = plain.find(value)
            while start >= 0:
                spans.append((places[start], places[start + len(value)]))
                start = plain.find(value, start + len(value))
        hidden, end = "", 0
        for start, stop in sorted(spans):
            hidden += text[end:start]
            if start >= end:
                hidden += HIDDEN
            end = max(end, stop)
        return hidden + text[end:]

    def cut_text(self, text: str) -> str:
        """Return a text that was cut at its beginning, its end or both, without secrets and
        without the parts of secrets at its ends. Parts of fewer than MIN_SECRET_CHARACTERS are not
        recognised."""
        text = text.strip("\ufffd")  # a character of several bytes that was cut
        if len(text) >= MIN_SECRET_CHARACTERS and any(text in value for value in self._values):
            return HIDDEN
        return self._hide_beginning(self._hide_end(self.text(text)))

    def _hide_end(self, text: str) -> str:
        """Return the text without the beginning of a secret at its end."""
        for value in self._values:
            beginning = value[:MIN_SECRET_CHARACTERS]
            start = text.find(beginning, max(0, len(text) - len(value)))
            while start >= 0:
                if value.startswith(text[start:]):
                    return text[:start] + HIDDEN
                start = text.find(beginning, start + 1)
        return text

    def _hide_beginning(self, text: str) -> str:
        """Return the text without the end of a secret at its beginning."""
        for value in self._values:
            ending = value[-MIN_SECRET_CHARACTERS:]
            start = text.rfind(ending, 0, len(value))
            while start >= 0:
                end = start + len(ending)
                if value.endswith(text[:end]):
                    return HIDDEN + text[end:]
                start = text.rfind(ending, 0, end - 1)
        return text

    def data(self, value: Any) -> Any:
        """Return a value as JSON data, without secrets. The value itself is not changed. A value
        that is nested too deeply to be searched becomes `TOO_DEEP`."""
        try:
            return self._hide_in_data(value)
        except RecursionError:
            return TOO_DEEP

    def content(self, value: Any) -> Any:
        """Return what an extension has sent, without secret values. Unlike in a trace, the texts of
        fields with the name of a secret stay, and so does a value that is not JSON data and that
        contains no secret."""
        try:
            return self._hide_in_content(value)
        except RecursionError:
            return TOO_DEEP

    def _hide_in_data(self, value: Any) -> Any:
        value_type = type(value)
        if value_type is str:
            return self.text(value) if self._values else value
        if value_type is int or value_type is float:
            return HIDDEN if self._numbers and str(value) in self._numbers else value
        if value is None or value_type is bool:
            return value
        if isinstance(value, Mapping):
            return {
                self.text(str(key)): self._hide_in_field(str(key), item)
                for key, item in value.items()
            }
        if isinstance(value, list | tuple):
            return [self._hide_in_data(item) for item in value]
        return self.text(str(value))

    def _hide_in_content(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            hide = self._hide_in_content
            return {hide(key): hide(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._hide_in_content(item) for item in value]
        hidden = self._hide_in_data(value)
        return value if hidden == str(value) else hidden

    def _hide_in_field(self, name: str, value: Any) -> Any:
        if value and isinstance(value, str | list | tuple) and is_secret_name(name):
            # A header may have several values. Other values, such as a schema, are not secrets.
            if isinstance(value, str):
                return HIDDEN
            hide = self._hide_in_data
            return [HIDDEN if isinstance(item, str) else hide(item) for item in value]
        return self._hide_in_data(value)


def _find_forms(value: str) -> Iterator[str]:
    """Yield the forms in which a secret appears in output: as it is, line by line (each line of
    stderr has a separate record), inside a JSON string, and encoded."""
    yield value
    for line in value.splitlines():
        yield line.strip()
    for is_ascii in (True, False):
        yield json.dumps(value, ensure_ascii=is_ascii)[1:-1]
    # A lone surrogate is a byte of a variable that is not text. Any other cannot be encoded.
    data = value.encode("utf-8", "surrogateescape") if _can_encode(value) else b""
    if len(data) >= MIN_SECRET_CHARACTERS:
        yield data.hex()
        yield data.hex().upper()
        yield from _find_url_forms(data)
        for form in _find_base64_forms(data):
            yield form
            yield form.translate(_URL_SAFE_BASE64)


def _can_encode(value: str) -> bool:
    return not any("\ud800" <= char < "\udc80" or "\udcff" < char < "\ue000" for char in value)


# Translates base64 to the alphabet that is used in URLs.
_URL_SAFE_BASE64 = str.maketrans("+/", "-_")


def _find_base64_forms(data: bytes) -> Iterator[str]:
    """Yield the base64 of these bytes, with and without padding, and the digits that it has in the
    base64 of a longer text. Three bytes are four digits, so these depend on the number of bytes
    before the secret, and the digits at both ends depend on other bytes, too."""
    whole = base64.b64encode(data).decode()
    yield whole
    yield whole.rstrip("=")
    for bytes_before in range(3):
        digits = base64.b64encode(bytes(bytes_before) + data).decode()
        # A digit has 6 bits. These are the digits whose bits all belong to `data`.
        first = (bytes_before * 8 + 5) // 6
        end = (bytes_before + len(data)) * 8 // 6
        yield digits[first:end]


def _find_url_forms(data: bytes) -> Iterator[str]:
    """Yield these bytes with percent-encoding, as the usual functions of URL libraries write it."""
    for form in (
        quote_from_bytes(data, safe=""),
        quote_from_bytes(data, safe="/"),
        quote_from_bytes(data, safe="!*'()"),  # encodeURIComponent of JavaScript
        quote_from_bytes(data, safe="").replace("%20", "+"),  # the body of a form
    ):
        yield form
        yield _PERCENT_CODE.sub(lambda code: code[0].lower(), form)


_PERCENT_CODE = re.compile("%[0-9A-F]{2}")

# A character as percent codes, which are its bytes in UTF-8.
_PERCENT_CODED = re.compile(
    "%[0-7][0-9a-f]|%[cd][0-9a-f]%[89ab][0-9a-f]"
    "|%e[0-9a-f](?:%[89ab][0-9a-f]){2}|%f[0-7](?:%[89ab][0-9a-f]){3}",
    re.IGNORECASE,
)

# An escaped character in a string of JSON. Characters beyond U+FFFF are two codes.
_JSON_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|\\u[0-9a-fA-F]{4}|\\[\"\\/bfnrt]"
)


def _unescape(match: re.Match[str]) -> str:
    """Return the character of a match of one of these patterns; U+FFFD if it has none."""
    return _decode_escape(match[0])


@lru_cache(1024)
def _decode_escape(code: str) -> str:
    character = unquote(code) if code[0] == "%" else str(json.loads(f'"{code}"'))
    return character if len(character) == 1 else "\ufffd"


def find_secrets(
    variables: Mapping[str, str], secret_names: Iterable[str], config: Any
) -> Iterator[str]:
    """Yield the secrets that an extension gets from its host.

    variables     its environment variables
    secret_names  the variables that are configured as secrets; variables with the name of a secret
                  are secrets as well
    config        its config; the texts in fields with the name of a secret are secrets
    """
    names = frozenset(secret_names)
    for name, value in variables.items():
        if name in names or is_secret_name(name):
            yield value
    yield from _find_in_config(config)


def _find_in_config(config: Any) -> Iterator[str]:
    if isinstance(config, Mapping):
        for name, value in config.items():
            if isinstance(value, str) and is_secret_name(str(name)):
                yield value
            else:
                yield from _find_in_config(value)
    elif isinstance(config, list | tuple):
        for value in config:
            yield from _find_in_config(value)
