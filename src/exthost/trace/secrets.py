"""Replaces secrets in trace records by `***`.

There are two rules. The value of an environment variable that looks like a secret, or that is
configured as a secret of the extension, is replaced wherever it occurs in a text: as it is, as JSON
writes it, or one of its lines. A number whose text is a secret is replaced, too. The whole text,
or each text of a list, under a JSON field such as `authorization`, `api_key` or `password` is
replaced. A secret that the extension itself creates, in a field whose name does not look like that
of a secret, is not recognised.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from exthost.process.environment import looks_secret

__all__ = ["HIDDEN", "SecretFilter", "find_secrets", "is_secret_name"]

HIDDEN = "***"

# A shorter value is not treated as a secret: it would occur in many texts by chance.
_MIN_SECRET_CHARACTERS = 6

# Names of fields and variables whose value is a secret, without `-` and `_` and in lower case.
# Further names, such as those that contain "password", are recognised by `looks_secret`.
_SECRET_NAMES = frozenset(
    {"authorization", "token", "apikey", "cookie", "setcookie", "bearer", "pat"}
)

# Names that `looks_secret` recognises although their values are not secrets.
_HARMLESS_NAMES = frozenset({"progresstoken", "nextpagetoken", "pagetoken"})

# The text of a number, as `str` writes it.
_NUMBER = re.compile(r"-?[0-9][0-9.e+-]*")

_CAMEL_CASE_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@lru_cache(1024)
def is_secret_name(name: str) -> bool:
    """Return whether a field or variable of this name contains a secret, if its value is text."""
    letters = name.replace("-", "").replace("_", "").lower()
    if letters in _HARMLESS_NAMES:
        return False
    return letters in _SECRET_NAMES or looks_secret(
        _CAMEL_CASE_BOUNDARY.sub("_", name).replace("-", "_")
    )


class SecretFilter:
    """Hides the secrets in texts and data: `values`, and the text of fields with the name of a
    secret."""

    __slots__ = ("_numbers", "_values")

    def __init__(self, values: Iterable[str] = ()) -> None:
        forms = {form for value in values for form in _find_forms(value)}
        secrets = {form for form in forms if len(form) >= _MIN_SECRET_CHARACTERS}
        # The longest first, because one secret may be a part of another.
        self._values = tuple(sorted(secrets, key=len, reverse=True))
        self._numbers = frozenset(filter(_NUMBER.fullmatch, secrets))

    def text(self, text: str) -> str:
        """Return the text without secrets."""
        for value in self._values:
            if value in text:
                text = text.replace(value, HIDDEN)
        return text

    def data(self, value: Any) -> Any:
        """Return a value as JSON data, without secrets. The value itself is not changed."""
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
            return [self.data(item) for item in value]
        return self.text(str(value))

    def _hide_in_field(self, name: str, value: Any) -> Any:
        if value and isinstance(value, str | list | tuple) and is_secret_name(name):
            # A header may have several values. Other values, such as a schema, are no secrets.
            if isinstance(value, str):
                return HIDDEN
            return [HIDDEN if isinstance(item, str) else self.data(item) for item in value]
        return self.data(value)


def _find_forms(value: str) -> Iterator[str]:
    """Yield the forms in which a secret appears in output: as it is, line by line (each line of
    stderr has a record of its own), and inside a JSON string."""
    yield value
    for line in value.splitlines():
        yield line.strip()
    for is_ascii in (True, False):
        yield json.dumps(value, ensure_ascii=is_ascii)[1:-1]


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
