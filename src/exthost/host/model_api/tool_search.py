"""Finds tools by words: `host.tools.search("weather in a city")`, and `search_tools` of the
gateway.

The index is a full-text table (FTS5) of SQLite in memory. It ranks by BM25 over the names of tools,
their descriptions, the names and descriptions of their arguments, and the words of their extension.
Names are cut into words (`getUserName`, `get_user_name`). The index is made at the first search
after the tools have changed. Only the first words of a long query, and the first part of a long
description, are used, so that no extension and no model can make a search slow.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from exthost.errors import UsageError
from exthost.model.names import prefixed_description

if TYPE_CHECKING:
    import sqlite3

    from exthost.model.offer import RegisteredTool


# A query is cut to this many characters and this many different words. Models write a sentence.
_MAX_QUERY_CHARS: Final = 4000
_MAX_QUERY_WORDS: Final = 40

# How much of each text of a tool is indexed, and how many arguments.
_MAX_TEXT_CHARS: Final = 4000
_MAX_ARGUMENTS: Final = 100

# How much a word counts in each column: name, description, arguments, extension.
_WEIGHTS: Final = (6.0, 3.0, 1.0, 4.0)

# Words that are in most questions and say nothing about a tool.
_STOP_TEXT: Final = """
    a about all an and any are as at be by can could do does for from get give have how i if in into
    is it its let like me my need of on one or our please should show some that the their them then
    there these this to up us use using want was we what when where which who will with would you
    your
"""
_STOP_WORDS: Final = frozenset(_STOP_TEXT.split())

_WORD: Final = re.compile(r"[^\W_]+")
# The places inside a name where a word begins: `getUser`, `HTTPServer`, `v2Api`.
_CASE_CHANGE: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
# Chinese and Japanese have no spaces between words: each character is indexed as a word.
_IDEOGRAPH: Final = re.compile(r"([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff])")

# `porter` indexes words by their stems, "reading" as "read". With the empty `content`, the table
# has only the index: the texts are not needed.
_TABLE: Final = """CREATE VIRTUAL TABLE tools USING fts5(
    name, about, arguments, extension, content = '', tokenize = 'porter unicode61')"""
_RANKED: Final = (
    f"SELECT rowid FROM tools WHERE tools MATCH ? ORDER BY bm25(tools, {_WEIGHTS[0]}, "
    f"{_WEIGHTS[1]}, {_WEIGHTS[2]}, {_WEIGHTS[3]}), rowid LIMIT ?"
)


class ToolSearch:
    """Searches the tools of one host. Any thread may search. The index is kept until a search has
    other tools than the one before."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._tools: list[RegisteredTool] = []
        self._index: sqlite3.Connection | None = None

    def find(
        self, tools: Mapping[str, RegisteredTool], query: str, limit: int
    ) -> dict[str, RegisteredTool]:
        """Return at most `limit` tools that fit the query, the best first. Raises UsageError if
        SQLite has no full-text search."""
        if not isinstance(query, str) or type(limit) is not int or limit < 1:
            raise UsageError(
                "X1844",
                "a search has a text and a limit, a whole number of at least 1",
                help='for example host.tools.search("read a file", limit=8)',
            )
        words = query_words(query)
        if not words or not tools:
            return {}
        expression = " OR ".join(f'"{word}"' for word in words)
        with self._lock:
            listed = list(tools.values())
            if self._index is None or not _are_same(listed, self._tools):
                self._make_index(listed)
            assert self._index is not None
            # A larger limit may be too large for SQLite.
            rows = self._index.execute(_RANKED, (expression, min(limit, len(listed)))).fetchall()
        found = [listed[row[0]] for row in rows]
        return {tool.name: tool for tool in found}

    def _make_index(self, tools: list[RegisteredTool]) -> None:
        """Index these tools in place of the earlier ones. Raises UsageError without FTS5."""
        if self._index is not None:
            self._index.close()
        self._index = None
        import sqlite3

        index = sqlite3.connect(":memory:", check_same_thread=False)
        try:
            index.execute(_TABLE)
        except sqlite3.OperationalError as error:
            index.close()
            raise UsageError(
                "X1845",
                f"SQLite {sqlite3.sqlite_version} has no full-text search: {error}",
                help="use a Python whose SQLite has FTS5, as those of python.org have",
            ) from None
        insert = (
            "INSERT INTO tools (rowid, name, about, arguments, extension) VALUES (?, ?, ?, ?, ?)"
        )
        # The number of a row is the index of its tool in `tools`.
        rows = ((number, *_column_texts(tool)) for number, tool in enumerate(tools))
        index.executemany(insert, rows)
        self._tools, self._index = tools, index

    def __del__(self) -> None:
        if self._index is not None:
            self._index.close()


def _are_same(tools: list[RegisteredTool], others: list[RegisteredTool]) -> bool:
    """Return whether both lists have the same objects: tools that changed are new objects."""
    return len(tools) == len(others) and all(
        tool is other for tool, other in zip(tools, others, strict=True)
    )


def query_words(query: str) -> list[str]:
    """Return the words of a query that are searched for, each once."""
    words = _split(query[:_MAX_QUERY_CHARS])
    significant = dict.fromkeys(word for word in words if word not in _STOP_WORDS)
    return list(significant)[:_MAX_QUERY_WORDS]


def _split(text: str) -> list[str]:
    """Return the words of a text in lower case."""
    spaced = _IDEOGRAPH.sub(r" \1 ", _CASE_CHANGE.sub(" ", text))
    return [word.lower() for word in _WORD.findall(spaced)]


def _column_texts(tool: RegisteredTool) -> tuple[str, str, str, str]:
    """Return the texts of the columns for a tool: name, about, arguments, extension."""
    # The description of a registered tool begins with its extension, which has its own column.
    about = tool.description.removeprefix(prefixed_description(tool.extension, ""))
    annotations = tool.extra.get("annotations")
    titles = [tool.extra.get("title")]
    titles += [annotations.get("title")] if isinstance(annotations, Mapping) else []
    name = " ".join((tool.tool, *(title for title in titles if isinstance(title, str))))
    extension = " ".join((tool.extension, tool.provider, *tool.capabilities))
    arguments = " ".join(_argument_texts(tool.input_schema))
    return _to_words(name), _to_words(about), _to_words(arguments), _to_words(extension)


def _to_words(text: str) -> str:
    """Return the words of a text in lower case, separated by spaces. Long texts are cut."""
    return " ".join(_split(text[:_MAX_TEXT_CHARS]))


def _argument_texts(schema: Any) -> Iterator[str]:
    """Yield the names of a tool's arguments, and their descriptions."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    items: Iterable[tuple[Any, Any]] = properties.items() if isinstance(properties, Mapping) else ()
    for number, (name, property) in enumerate(items):
        if number == _MAX_ARGUMENTS:
            return
        yield str(name)
        about = property.get("description") if isinstance(property, Mapping) else None
        if isinstance(about, str):
            yield about[:200]
