"""Imports the modules of `exthost` that need packages of an optional extra.

The commands import them lazily, so that a command without the option needs no such package and
starts faster.
"""

import importlib
from typing import Any

from exthost.errors import ConfigError


def import_optional(module: str, *, code: str, feature: str, extra: str) -> Any:
    """Return a module. Raises ConfigError with this error code if a package is missing that the
    extra installs; `feature` is the subject of its message."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        missing = error.name or ""
        if missing == "exthost" or missing.startswith("exthost."):
            raise  # a defect of exthost, which no installation mends
        raise ConfigError(
            code,
            f"{feature} is not installed: {missing or error} is missing",
            help=f"pip install 'exthost[{extra}]'",
        ) from None
