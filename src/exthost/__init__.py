"""exthost: one host for extensions that run as child processes, whichever dialect they speak.

These are all the names a user needs; each is imported when it is first asked for, so that
`exthost --help` does not pay for asyncio.
"""

import importlib
import logging
from typing import TYPE_CHECKING, Any

from exthost._version import __version__

if TYPE_CHECKING:
    from exthost import errors as errors
    from exthost.connection import connect as connect

logging.getLogger("exthost").addHandler(logging.NullHandler())

_HOMES = {
    "connect": "exthost.connection",
    "errors": "exthost.errors",
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'exthost' has no attribute {name!r}")
    module = importlib.import_module(home)
    value = module if name == home.rpartition(".")[2] else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
