"""Runs a program of the SDK where nothing but the standard library can be imported.

    without_packages.py PROGRAM WORDS…

Modules of the host and of other packages are refused.
"""

import runpy
import sys
from typing import Any

PACKAGES = ("msgspec", "jsonschema_rs", "google", "pydantic", "mcp", "uvloop")
OWN = ("exthost._version", "exthost.sdk", "exthost.authoring.sdk")


class Refuse:
    """An import hook that refuses."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.partition(".")[0] in PACKAGES:
            raise ImportError(f"refused: {name}")
        if name.startswith("exthost.") and name != "exthost.authoring" and not name.startswith(OWN):
            raise ImportError(f"a module of the host: {name}")


sys.meta_path.insert(0, Refuse())
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
