"""The filter and the selection of the table of extensions that `exthost run` and `exthost top` show
on a terminal. A person changes both by keys. Does no I/O.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from exthost.faces.cli.top_layout import DEFAULT_ORDER, ORDERS, order_rows

# By key: how many rows the selection moves.
_MOVES = {"up": -1, "k": -1, "down": 1, "j": 1, "page-up": -10, "page-down": 10}


class TableSelection:
    """The filter and the selection of one table. Arrow keys select, `/` begins a filter, Enter ends
    typing the filter, Esc clears it, and `o` chooses the next order of the rows.

    id         the id of the selected extension; "" for none
    pattern    the text of the filter; "" for none
    is_typing  whether the filter is being typed
    order      the name of the order of the rows
    """

    def __init__(self) -> None:
        self.id = ""
        self.pattern = ""
        self.is_typing = False
        self.order = DEFAULT_ORDER

    def filter_rows(self, rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Return the rows that match the filter, in the chosen order."""
        return order_rows(rows, self.pattern, self.order)

    def find_index(self, rows: Sequence[Mapping[str, Any]]) -> int:
        """Return the index of the selected extension in these rows. An extension stays selected
        when the order of rows changes; if it is no longer there, the first row becomes selected."""
        ids = [row["id"] for row in rows]
        if self.id not in ids:
            self.id = ids[0] if ids else ""
        return ids.index(self.id) if ids else 0

    def handle_key(self, key: str, rows: Sequence[Mapping[str, Any]]) -> bool:
        """Handle a key that selects or filters. Return False for any other key."""
        if self.is_typing:
            self._type(key)
        elif key in _MOVES:
            filtered = self.filter_rows(rows)
            if filtered:
                index = max(0, min(len(filtered) - 1, self.find_index(filtered) + _MOVES[key]))
                self.id = filtered[index]["id"]
        elif key == "/":
            self.is_typing, self.pattern = True, ""
        elif key == "escape":
            self.pattern = ""
        elif key == "o":
            names = list(ORDERS)
            self.order = names[(names.index(self.order) + 1) % len(names)]
        else:
            return False
        return True

    def _type(self, key: str) -> None:
        """Handle a key while the filter is being typed."""
        if key in ("enter", "escape", "ctrl-c", ""):  # "" is Ctrl-D, or a closed terminal
            self.is_typing = False
            if key != "enter":
                self.pattern = ""
        elif key == "backspace":
            self.pattern = self.pattern[:-1]
        elif len(key) == 1 and key.isprintable():
            self.pattern += key
