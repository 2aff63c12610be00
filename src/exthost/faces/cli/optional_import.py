"""Imports modules that need packages of an optional extra, such as `exthost[web]`.

The modules are imported lazily, when an option such as `--web` needs them. So a command without the
option works if the packages are not installed, and starts faster.
"""

import importlib
from typing import Any

from exthost.errors import ConfigError


def import_optional(module: str, *, code: str, feature: str, extra: str) -> Any:
    """Import the module with this full name and return it. If one of its packages is not installed,
    raise ConfigError with the error code `code`. Its message begins with `feature` and its help
    names the `extra` to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        missing_module = error.name or ""
        if missing_module == "exthost" or missing_module.startswith("exthost."):
            raise  # a bug in exthost, which installing the extra would not fix
        raise ConfigError(
            code,
            f"{feature} is not installed: {missing_module or error} is missing",
            help=f"pip install 'exthost[{extra}]'",
        ) from None
