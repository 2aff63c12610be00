"""Runs a program that is written with the SDK in a Python that can import only the standard library
and the SDK. `test_imports.py` uses it.

    without_packages.py PROGRAM ARGUMENTS…

Importing a module of the host or of another package raises ImportError.
"""

import runpy
import sys
from typing import Any

REFUSED_PACKAGES = ("msgspec", "jsonschema_rs", "google", "pydantic", "mcp", "uvloop")
SDK_MODULES = ("exthost._version", "exthost.sdk", "exthost_sdk")


class RefusingFinder:
    """An import hook that raises ImportError for refused modules."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.partition(".")[0] in REFUSED_PACKAGES:
            raise ImportError(f"refused: {name}")
        if name.startswith("exthost.") and not name.startswith(SDK_MODULES):
            raise ImportError(f"a module of the host: {name}")


sys.meta_path.insert(0, RefusingFinder())
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
