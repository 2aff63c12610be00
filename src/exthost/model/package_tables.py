"""Reads the TOML files that are data of this distribution, beside the modules that use them."""

import tomllib
from importlib import resources
from typing import Any


def read_tables(package: str, file: str) -> dict[str, Any]:
    """Return the document in a TOML file of an importable package."""
    return tomllib.loads(resources.files(package).joinpath(file).read_text("utf-8"))
