"""Recognises the names of variables, fields and options whose values are secrets."""

import re
from functools import cache, lru_cache

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


@cache  # the same few names at every start
def looks_secret(name: str) -> bool:
    """Return whether a variable's name suggests that its value is a secret."""
    upper = name.upper()
    return upper.endswith(_SUFFIXES) or any(word in upper for word in _WORDS)


@lru_cache(1024)
def is_secret_name(name: str) -> bool:
    """Return whether a field or variable of this name contains a secret, if its value is text."""
    letters = name.replace("-", "").replace("_", "").lower()
    if letters in _HARMLESS_NAMES:
        return False
    return letters in _SECRET_NAMES or looks_secret(
        _CAMEL_CASE_BOUNDARY.sub("_", name).replace("-", "_")
    )
