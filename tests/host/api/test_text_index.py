"""The text index: the same is found with and without SQLite's trigrams, and in old files."""

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from exthost.dialects.host_requests import Recall, Remember
from exthost.host.api import memory, text_index

SECONDS = 150
BLOCK = 8


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_BLOCK_RECORDS", BLOCK)


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as opened:
        yield opened


@pytest.fixture
def without_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_index, "has_trigram_index", lambda: False)


def content(n: int) -> str:
    return f'note {n}: {"東京" if n % 10 == 3 else "Straße"} said "go" {"x" * (n % 4)}'


def fill(connection: sqlite3.Connection, numbers: range) -> None:
    for n in numbers:
        memory.append(connection, "a", Remember(content(n), ()), n)


def found(connection: sqlite3.Connection, words: str) -> list[int]:
    wish = Recall(content_contains=words, limit=1000)
    return [item.timestamp_ms for item in memory.query(connection, "a", wish)]


def expected(words: str, records: int) -> list[int]:
    return [n for n in reversed(range(records)) if words.lower() in content(n).lower()]


WORDS = ["note 7", "NOTE", "東京", "京", "STRASSE", "straße", '"go" xxx', "qq", "q", "nothing", '"']


def blocks_read(connection: sqlite3.Connection, words: str) -> int:
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    found(connection, words)
    connection.set_trace_callback(None)
    return sum(statement.startswith("SELECT text FROM text_blocks") for statement in statements)


def test_only_blocks_that_may_contain_the_words_are_read(connection: sqlite3.Connection) -> None:
    fill(connection, range(20 * BLOCK))
    assert {words: found(connection, words) for words in WORDS} == {
        words: expected(words, 20 * BLOCK) for words in WORDS
    }
    assert blocks_read(connection, "note 77") == 1
    assert [blocks_read(connection, words) for words in ("qq", "q", "nothing")] == [0, 0, 0]


def test_words_of_any_length_are_looked_up(connection: sqlite3.Connection) -> None:
    long = " ".join(str(n) for n in range(2000))
    for n in range(2 * BLOCK):
        memory.append(connection, "a", Remember(long if n == 3 else "short", ()), n)
    assert found(connection, long) == [3]
    assert found(connection, long + "!") == []


@pytest.mark.usefixtures("without_index")
def test_without_the_index_every_block_is_read_and_the_same_is_found(
    connection: sqlite3.Connection,
) -> None:
    fill(connection, range(20 * BLOCK))
    for words in WORDS:
        assert found(connection, words) == expected(words, 20 * BLOCK)
    assert blocks_read(connection, "nothing") == 20


def test_a_sqlite_without_the_index_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Old(sqlite3.Connection):
        def execute(self, *_: Any) -> Any:
            raise sqlite3.OperationalError("no such tokenizer: trigram")

    connect = sqlite3.connect
    text_index.has_trigram_index.cache_clear()
    try:
        monkeypatch.setattr(sqlite3, "connect", lambda path: connect(path, factory=Old))
        with caplog.at_level(logging.WARNING):
            assert [text_index.has_trigram_index() for _ in range(3)] == [False] * 3
        assert caplog.text.count("has no trigram index (no such tokenizer: trigram)") == 1
    finally:
        monkeypatch.undo()
        text_index.has_trigram_index.cache_clear()
    assert text_index.has_trigram_index()


def test_an_index_that_is_behind_catches_up_and_nothing_is_missed_meanwhile(
    connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(text_index, "has_trigram_index", lambda: False)
        fill(connection, range(12 * BLOCK))
    reads = []
    for start in range(12 * BLOCK, 16 * BLOCK, BLOCK):
        reads.append(blocks_read(connection, "nothing"))
        for words in WORDS:
            assert found(connection, words) == expected(words, start)
        fill(connection, range(start, start + BLOCK))
    reads.append(blocks_read(connection, "nothing"))
    # Five blocks are indexed with each new one.
    assert reads == [12, 8, 4, 0, 0]
