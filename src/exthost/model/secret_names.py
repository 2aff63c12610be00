"""Recognises the names of variables, fields and options whose values are secrets."""

import re
from functools import lru_cache

# A name in upper case looks secret if it ends with one of the suffixes, or contains one of the
# words anywhere. The suffixes are too common inside other names (KEYBOARD, PATH, AUTHOR).
_SUFFIXES = (
    "_TOKEN",
    "_KEY",
    "_PASS",
    "_PWD",
    "_PAT",
    "_AUTH",
    "_APIKEY",
    "_BEARER",
    "_SESSION",
)
_WORDS = ("PASSWORD", "PASSWD", "PASSPHRASE", "SECRET", "CREDENTIAL", "PRIVATE_KEY", "PRIVATEKEY")

# Names of fields and variables whose value is a secret, without `-` and `_` and in lower case.
# Further names, such as those that contain "password", are recognised by `looks_secret`.
_SECRET_NAMES = frozenset(
    {"authorization", "token", "apikey", "cookie", "setcookie", "bearer", "pat"}
)

# Names that `looks_secret` recognises although their values are not secrets.
_HARMLESS_NAMES = frozenset({"progresstoken", "nextpagetoken", "pagetoken"})

_CAMEL_CASE_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


# A longer name is not cached: an extension may choose it, and the cache would keep it.
_MAX_CACHED_CHARACTERS = 256


@lru_cache(1024)  # the same few names at every start
def looks_secret(name: str) -> bool:
    """Return whether a variable's name suggests that its value is a secret."""
    return _looks_secret(name)


def _looks_secret(name: str) -> bool:
    upper = name.upper()
    return upper.endswith(_SUFFIXES) or any(word in upper for word in _WORDS)


def is_secret_name(name: str) -> bool:
    """Return whether a field or variable of this name contains a secret, if its value is text."""
    is_long = len(name) > _MAX_CACHED_CHARACTERS
    return _is_secret_name(name) if is_long else _is_cached_secret_name(name)


def _is_secret_name(name: str) -> bool:
    letters = name.replace("-", "").replace("_", "").lower()
    if letters in _HARMLESS_NAMES:
        return False
    return letters in _SECRET_NAMES or _looks_secret(
        _CAMEL_CASE_BOUNDARY.sub("_", name).replace("-", "_")
    )


_is_cached_secret_name = lru_cache(1024)(_is_secret_name)
