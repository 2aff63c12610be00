"""One line of the soak's table."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple


class Row(NamedTuple):
    """One line of the table. `flat`: memory is to be as before."""

    name: str
    run: Callable[[Path], Awaitable[str]]
    flat: bool = True
