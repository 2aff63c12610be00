"""`Row`: one test of the soak, which is a row of the table that it prints."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple


class Row(NamedTuple):
    """One test. `run` takes a folder for its files, and returns a text about what it did, or
    raises. If `flat` is true, the memory of this process must not have grown afterwards."""

    name: str
    run: Callable[[Path], Awaitable[str]]
    flat: bool = True
