"""Recognises the names of fields, variables and options whose values are secrets. Pure."""

import re
from functools import lru_cache

from exthost.process.environment import looks_secret

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


def is_secret_name(name: str) -> bool:
    """Return whether a field or variable of this name contains a secret, if its value is text."""
    is_long = len(name) > _MAX_CACHED_CHARACTERS
    return _is_secret_name(name) if is_long else _is_cached_secret_name(name)


def _is_secret_name(name: str) -> bool:
    letters = name.replace("-", "").replace("_", "").lower()
    if letters in _HARMLESS_NAMES:
        return False
    return letters in _SECRET_NAMES or looks_secret.__wrapped__(  # the result is cached here
        _CAMEL_CASE_BOUNDARY.sub("_", name).replace("-", "_")
    )


_is_cached_secret_name = lru_cache(1024)(_is_secret_name)
