"""Replaces secrets in trace records by `***`. Pure.

There are two rules. The value of an environment variable that looks like a secret, or that is
configured as a secret of the extension, is replaced wherever it occurs in a text. The whole text
under a JSON field such as `authorization`, `api_key` or `password` is replaced. A secret that the
extension itself creates, under a field name that does not look like one, is not recognised.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from exthost.process.environment import looks_secret

__all__ = ["HIDDEN", "SecretFilter", "find_secrets", "is_secret_name"]

HIDDEN = "***"

# A shorter value is not treated as a secret: it would occur in many texts by chance.
_SHORTEST = 6

_NAMES = frozenset({"authorization", "token", "apikey", "cookie", "setcookie", "bearer", "pat"})

# Field names that look like those of secrets, but are not.
_HARMLESS = frozenset({"progresstoken", "nextpagetoken", "pagetoken"})

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@lru_cache(1024)
def is_secret_name(name: str) -> bool:
    """Return whether a member of this name holds a secret, if it is text."""
    plain = name.replace("-", "").replace("_", "").lower()
    if plain in _HARMLESS:
        return False
    return plain in _NAMES or looks_secret(_CAMEL.sub("_", name).replace("-", "_"))


class SecretFilter:
    """Hides these values, and what stands under the name of a secret."""

    __slots__ = ("_values",)

    def __init__(self, values: Iterable[str] = ()) -> None:
        # The longest first, because one secret may be a part of another.
        known = {value for value in values if len(value) >= _SHORTEST}
        self._values = tuple(sorted(known, key=len, reverse=True))

    def text(self, text: str) -> str:
        """Return the text without secrets."""
        for value in self._values:
            if value in text:
                text = text.replace(value, HIDDEN)
        return text

    def data(self, value: Any) -> Any:
        """Return a value as data, without secrets. What was given stays as it is."""
        kind = type(value)
        if kind is str:
            return self.text(value) if self._values else value
        if value is None or kind in (int, float, bool):
            return value
        if isinstance(value, Mapping):
            return {str(key): self._member(str(key), item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.data(item) for item in value]
        return self.text(str(value))

    def _member(self, name: str, value: Any) -> Any:
        if isinstance(value, str) and value and is_secret_name(name):
            return HIDDEN
        return self.data(value)


def find_secrets(
    variables: Mapping[str, str], secret_names: Iterable[str], config: Any
) -> Iterator[str]:
    """Yield the secrets among what an extension is given: its variables of these names, those with
    the name of a secret, and what stands under such a name in its config."""
    names = frozenset(secret_names)
    for name, value in variables.items():
        if name in names or is_secret_name(name):
            yield value
    yield from _secrets_in(config)


def _secrets_in(config: Any) -> Iterator[str]:
    if isinstance(config, Mapping):
        for name, value in config.items():
            if isinstance(value, str) and is_secret_name(str(name)):
                yield value
            else:
                yield from _secrets_in(value)
    elif isinstance(config, list | tuple):
        for value in config:
            yield from _secrets_in(value)
