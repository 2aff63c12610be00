"""Reads the TOML files that are data of this distribution, beside the modules that use them."""

import tomllib
from pkgutil import get_data
from typing import Any


def read_tables(package: str, file: str) -> dict[str, Any]:
    """Return the document in a TOML file of an importable package."""
    return tomllib.loads(read_text(package, file))


def read_text(package: str, file: str) -> str:
    """Return the text of a file of an importable package."""
    # Not `importlib.resources`, whose import takes longer than reading all tables.
    data = get_data(package, file)
    assert data is not None, f"{file} is installed with {package}"
    return data.decode()
