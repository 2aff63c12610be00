"""Which extensions a table shows, and which of them is selected. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from exthost.cli.top_layout import order_rows

__all__ = ["TableSelection"]

_MOVES = {"up": -1, "k": -1, "down": 1, "j": 1, "page-up": -10, "page-down": 10}


class TableSelection:
    """The state of a table's keys: arrows select, `/` begins a filter, Esc clears it."""

    def __init__(self) -> None:
        self.id = ""
        self.pattern = ""
        self.is_typing = False

    def shown(self, rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Return the rows that the filter leaves, those in trouble first."""
        return order_rows(rows, self.pattern)

    def index(self, shown: Sequence[Mapping[str, Any]]) -> int:
        """Return where the selected extension is: it stays selected while others move."""
        ids = [row["id"] for row in shown]
        if self.id not in ids:
            self.id = ids[0] if ids else ""
        return ids.index(self.id) if ids else 0

    def handle(self, key: str, rows: Sequence[Mapping[str, Any]]) -> bool:
        """Select or filter by a key. Return False for a key that means something else."""
        if self.is_typing:
            self._type(key)
        elif key in _MOVES:
            shown = self.shown(rows)
            if shown:
                index = max(0, min(len(shown) - 1, self.index(shown) + _MOVES[key]))
                self.id = shown[index]["id"]
        elif key == "/":
            self.is_typing, self.pattern = True, ""
        elif key == "escape":
            self.pattern = ""
        else:
            return False
        return True

    def _type(self, key: str) -> None:
        if key in ("enter", "escape", "ctrl-c", ""):
            self.is_typing = False
            if key != "enter":
                self.pattern = ""
        elif key == "backspace":
            self.pattern = self.pattern[:-1]
        elif len(key) == 1 and key.isprintable():
            self.pattern += key
