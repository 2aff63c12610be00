"""The text index: searches have the same results with and without the trigram index of SQLite.

The host keeps records for extensions, which can search their contents. The contents of BLOCK
records are stored as one text, a block. An index of trigrams (sequences of three characters) says
which blocks may contain the text of a search. SQLite before 3.34 does not have such an index: then
every block is read.
"""

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from exthost.dialects.host_requests import Recall, Remember
from exthost.host.api import memory, text_index

BLOCK = 8  # records


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_BLOCK_RECORDS", BLOCK)


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as database:
        yield database


@pytest.fixture
def without_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_index, "has_trigram_index", lambda: False)


def content_of(n: int) -> str:
    """Return the content of the record with the number n, which is also its time."""
    return f'note {n}: {"東京" if n % 10 == 3 else "Straße"} said "go" {"x" * (n % 4)}'


def add_records(connection: sqlite3.Connection, numbers: range) -> None:
    for n in numbers:
        memory.insert_record(connection, "a", Remember(content_of(n), ()), n)


def search(connection: sqlite3.Connection, text: str) -> list[int]:
    """Return the times of the records that the search finds."""
    criteria = Recall(content_contains=text, limit=1000)
    return [item.timestamp_ms for item in memory.find_records(connection, "a", criteria)]


def expected_times(text: str, records: int) -> list[int]:
    """Return the times of the records that contain this text, the newest first."""
    return [n for n in reversed(range(records)) if text.lower() in content_of(n).lower()]


SEARCH_TEXTS = [
    "note 7",
    "NOTE",
    "東京",
    "京",
    "STRASSE",
    "straße",
    '"go" xxx',
    "qq",
    "q",
    "nothing",
    '"',
]


def count_blocks_read(connection: sqlite3.Connection, text: str) -> int:
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    search(connection, text)
    connection.set_trace_callback(None)
    return sum(statement.startswith("SELECT text FROM text_blocks") for statement in statements)


def test_only_blocks_that_may_contain_the_text_are_read(connection: sqlite3.Connection) -> None:
    add_records(connection, range(20 * BLOCK))
    assert {text: search(connection, text) for text in SEARCH_TEXTS} == {
        text: expected_times(text, 20 * BLOCK) for text in SEARCH_TEXTS
    }
    assert count_blocks_read(connection, "note 77") == 1
    assert [count_blocks_read(connection, text) for text in ("qq", "q", "nothing")] == [0, 0, 0]


def test_texts_of_any_length_are_found(connection: sqlite3.Connection) -> None:
    long_text = " ".join(str(n) for n in range(2000))
    for n in range(2 * BLOCK):
        memory.insert_record(connection, "a", Remember(long_text if n == 3 else "short", ()), n)
    assert search(connection, long_text) == [3]
    assert search(connection, long_text + "!") == []


@pytest.mark.usefixtures("without_index")
def test_without_the_index_every_block_is_read(
    connection: sqlite3.Connection,
) -> None:
    add_records(connection, range(20 * BLOCK))
    for text in SEARCH_TEXTS:
        assert search(connection, text) == expected_times(text, 20 * BLOCK)
    assert count_blocks_read(connection, "nothing") == 20


def test_a_sqlite_without_the_index_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class OldConnection(sqlite3.Connection):
        def execute(self, *_: Any) -> Any:
            raise sqlite3.OperationalError("no such tokenizer: trigram")

    connect = sqlite3.connect
    text_index.has_trigram_index.cache_clear()
    try:
        monkeypatch.setattr(sqlite3, "connect", lambda path: connect(path, factory=OldConnection))
        with caplog.at_level(logging.WARNING):
            assert [text_index.has_trigram_index() for _ in range(3)] == [False] * 3
        assert caplog.text.count("has no trigram index (no such tokenizer: trigram)") == 1
    finally:
        monkeypatch.undo()
        text_index.has_trigram_index.cache_clear()
    assert text_index.has_trigram_index()


def test_an_incomplete_index_is_completed_and_finds_everything_meanwhile(
    connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(text_index, "has_trigram_index", lambda: False)
        add_records(connection, range(12 * BLOCK))
    blocks_read_each_time = []
    for start in range(12 * BLOCK, 16 * BLOCK, BLOCK):
        blocks_read_each_time.append(count_blocks_read(connection, "nothing"))
        for text in SEARCH_TEXTS:
            assert search(connection, text) == expected_times(text, start)
        add_records(connection, range(start, start + BLOCK))
    blocks_read_each_time.append(count_blocks_read(connection, "nothing"))
    # With each new block, four older blocks are indexed.
    assert blocks_read_each_time == [12, 8, 4, 0, 0]
