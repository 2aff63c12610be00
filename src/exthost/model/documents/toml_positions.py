"""Finds the line of each key in a TOML text, for error messages.

For the text

    name = "demo"
    [[extensions]]
    limits = { call = "10s" }

`find_key_lines` returns, among others, `("name",): 1`, `("extensions", 0): 2` and
`("extensions", 0, "limits", "call"): 3`.

The standard library's TOML parser does not keep positions, so this module reads the text a second
time after that parser has accepted it. It relies on the text being valid, and checks nothing.
Escapes in quoted keys are not decoded, so a key with escapes is not found; `find_line` then returns
the line of the table that contains it.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

KeyPath: TypeAlias = tuple[str | int, ...]

_TOKEN = re.compile(
    # Multi-line strings first, because they begin like an empty string. The text of one may end
    # with one or two quotes, before the three that close it.
    r'"""(?:\\.|(?!""")[^\\])*"{3,5}'
    r"|'''(?:(?!''').)*'{3,5}"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|\#[^\n]*"  # a comment
    r"|[\n\[\]{}=,.]"
    r"|[^\s\[\]{}=,.#\"']+",  # a bare key, or a part of a number, date or boolean
    re.DOTALL,
)


@dataclass(slots=True)
class _OpenBracket:
    """An array or inline table whose closing bracket has not been read yet. `index` is the index of
    the current item of an array."""

    path: KeyPath
    is_array: bool
    index: int = 0


def find_line(lines: Mapping[KeyPath, int], path: KeyPath) -> int:
    """Return the line of `path`, or of the nearest table or list that contains it; 0 if unknown."""
    for length in range(len(path), 0, -1):
        line = lines.get(path[:length])
        if line is not None:
            return line
    return 0


def find_key_lines(text: str) -> dict[KeyPath, int]:
    """Return the line of every key path and array item of a valid TOML text."""
    scanner = _Scanner()
    for token, line in _tokens(text):
        scanner.feed(token, line)
    return scanner.lines


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    """Yield each token except comments, and the line on which it begins."""
    line = 1
    for match in _TOKEN.finditer(text):
        token = match[0]
        if not token.startswith("#"):
            yield token, line
        line += token.count("\n")


class _Scanner:
    """Takes one token after the other, and collects the lines of keys. Between two tokens the
    position is in a table header, in a key before its `=`, or in a value."""

    def __init__(self) -> None:
        self.lines: dict[KeyPath, int] = {}
        self.implied: set[KeyPath] = set()  # tables that have no header yet: `a` after [a.b]
        self.last_item: dict[KeyPath, int] = {}  # [[array]] → index of its latest table
        self.table: KeyPath = ()  # the table of the latest header
        self.open_brackets: list[_OpenBracket] = []  # the innermost last
        self.keys: list[str] = []  # the parts of the dotted key that is being read
        self.key_line = 0  # the line on which that key begins
        self.header_brackets = 0  # 1 in a [table] header, 2 in an [[array]] header
        self.in_value = False
        self.value_path: KeyPath = ()

    def feed(self, token: str, line: int) -> None:
        if self.in_value:
            self._feed_value(token, line)
        elif token == "=":
            self._begin_value()
        elif token == "[":
            self.header_brackets += 1
        elif token == "]":
            if self.keys:
                self._enter_table()
        elif token == "}":
            self._close_bracket()
        elif token == "\n":
            # Outside a value, a line end has no effect but to end a header (TOML 1.1).
            self.header_brackets = 0
        elif token not in {".", ","}:
            if not self.keys:
                self.key_line = line
            self.keys.append(_unquote(token))

    def _enter_table(self) -> None:
        """Handle the end of a header, whose keys have been read."""
        *outer, name = self.keys
        path = (*self._resolve((), outer), name)
        if self.header_brackets > 1:
            self.last_item[path] = self.last_item.get(path, -1) + 1
        self.table = self._resolve((), self.keys)
        for length in range(1, len(path)):  # `[a.b.c]` also creates the tables `a` and `a.b`
            if path[:length] not in self.lines:
                self.lines[path[:length]] = self.key_line
                self.implied.add(path[:length])
        if path in self.implied:
            self.implied.remove(path)
            self.lines[path] = self.key_line
        # The line of an array is that of its first header, hence `setdefault`; each item has the
        # line of its own header.
        self.lines.setdefault(path, self.key_line)
        self.lines.setdefault(self.table, self.key_line)
        self.keys = []

    def _resolve(self, base: KeyPath, keys: list[str]) -> KeyPath:
        """Return the path of header keys: `[a.b]` under `[[a]]` means the latest item of `a`."""
        for key in keys:
            base = (*base, key)
            if base in self.last_item:
                base = (*base, self.last_item[base])
        return base

    def _begin_value(self) -> None:
        """Handle the `=` after a key. A dotted key `a.b` also creates the table `a`."""
        base = self.open_brackets[-1].path if self.open_brackets else self.table
        for key in self.keys:
            base = (*base, key)
            self.lines.setdefault(base, self.key_line)
        self.keys = []
        self.in_value = True
        self.value_path = base

    def _feed_value(self, token: str, line: int) -> None:
        innermost = self.open_brackets[-1] if self.open_brackets else None
        path = self.value_path
        if innermost is not None and innermost.is_array and token not in {"]", ",", "\n"}:
            path = (*innermost.path, innermost.index)  # the token belongs to this item
            self.lines.setdefault(path, line)
        if token in {"[", "{"}:
            self.open_brackets.append(_OpenBracket(path, is_array=token == "["))
            self.in_value = token == "["  # in an inline table, a key comes first
        elif token in {"]", "}"}:
            self._close_bracket()
        elif token == "," and innermost is not None:
            innermost.index += 1
            self.in_value = innermost.is_array
        elif token == "\n" and innermost is None:
            self.in_value = False

    def _close_bracket(self) -> None:
        if self.open_brackets:
            self.open_brackets.pop()
        # The closed array or table was itself a value, which ends at the next comma or line end.
        self.in_value = True


def _unquote(key: str) -> str:
    return key[1:-1] if key[0] in "\"'" else key
