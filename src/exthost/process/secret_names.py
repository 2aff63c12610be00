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


@lru_cache(1024)
def is_secret_name(name: str) -> bool:
    """Return whether a field or variable of this name contains a secret, if its value is text."""
    letters = name.replace("-", "").replace("_", "").lower()
    if letters in _HARMLESS_NAMES:
        return False
    return letters in _SECRET_NAMES or looks_secret(
        _CAMEL_CASE_BOUNDARY.sub("_", name).replace("-", "_")
    )
