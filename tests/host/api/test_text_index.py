"""The text index: the same is found with and without SQLite's trigrams, and in old files."""

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from exthost.dialects.host_requests import Recall, Remember
from exthost.host.api import memory, text_index
from exthost.host.api.memory import Memories
from exthost.host.api.store import FILE_NAME, Store

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
    return [one.timestamp_ms for one in memory.query(connection, "a", wish)]


def expected(words: str, records: int) -> list[int]:
    return [n for n in reversed(range(records)) if words.lower() in content(n).lower()]


WORDS = ["note 7", "NOTE", "東京", "京", "STRASSE", "straße", '"go" xxx', "qq", "q", "nothing", '"']


def blocks_read(connection: sqlite3.Connection, words: str) -> int:
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    found(connection, words)
    connection.set_trace_callback(None)
    return sum(one.startswith("SELECT text FROM text_blocks") for one in statements)


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


def write_format_1(path: Path, records: int) -> None:
    """Write a store as the first format had it; the hashes of the blocks are not read any more."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript("""
            CREATE TABLE namespaces (
                id INTEGER PRIMARY KEY, name TEXT UNIQUE,
                closed INTEGER NOT NULL DEFAULT 0, bytes INTEGER NOT NULL DEFAULT 0);
            CREATE TABLE records_1 (
                id INTEGER PRIMARY KEY, at INTEGER NOT NULL, content TEXT NOT NULL,
                tags TEXT NOT NULL, meta TEXT);
            CREATE INDEX records_1_at ON records_1 (at);
            CREATE TABLE tags_1 (tag TEXT, record INTEGER, PRIMARY KEY (tag, record)) WITHOUT ROWID;
            CREATE TABLE chapters_1 (first INTEGER PRIMARY KEY, text BLOB NOT NULL);
            CREATE TABLE signs_1 (first INTEGER PRIMARY KEY, bits BLOB NOT NULL);
            PRAGMA user_version = 1;
        """)
        rows = [(n + 1, n, content(n), '["t"]', '{"n":1}') for n in range(records)]
        connection.executemany("INSERT INTO records_1 VALUES (?, ?, ?, ?, ?)", rows)
        connection.executemany("INSERT INTO tags_1 VALUES ('t', ?)", [(row[0],) for row in rows])
        closed = records - records % BLOCK
        for first in range(0, closed, BLOCK):
            texts = [content(n).lower().encode() for n in range(first, first + BLOCK)]
            connection.execute(
                "INSERT INTO chapters_1 VALUES (?, ?)", (first + 1, b"\xff".join(texts))
            )
            connection.execute("INSERT INTO signs_1 VALUES (?, ?)", (first + 1, b"\0"))
        connection.execute("INSERT INTO namespaces VALUES (1, 'a', ?, 10)", (closed,))


def test_a_store_of_the_first_format_is_taken_over_without_loss(tmp_path: Path) -> None:
    records = 10 * BLOCK + 3
    write_format_1(tmp_path / FILE_NAME, records)
    store = Store(str(tmp_path))
    try:
        memories = Memories(store, lambda: 10**9)

        def stored(words: str) -> list[int]:
            wish = Recall(content_contains=words, limit=1000)
            return [one.timestamp_ms for one in memories.query("a", wish).result(SECONDS)]

        for words in WORDS:
            assert stored(words) == expected(words, records)
        everything = memories.query("a", Recall(limit=1000)).result(SECONDS)
        assert [one.content for one in everything] == [content(n) for n in reversed(range(records))]
        assert everything[0].tags == ("t",) and everything[0].meta == {"n": 1}
        for n in range(3 * BLOCK):
            memories.append("a", Remember(f"new {n}", ())).result(SECONDS)
        for words in WORDS:
            assert stored(words) == expected(words, records)
        assert len(stored("new ")) == 3 * BLOCK

        def tables(opened: sqlite3.Connection) -> set[str]:
            return {row[0] for row in opened.execute("SELECT name FROM sqlite_master")}

        names = store.read(tables).result(SECONDS)
        assert not {"chapters_1", "signs_1"} & names and "text_index_1" in names
    finally:
        store.close()


def test_two_hosts_that_open_an_old_store_at_once_take_it_over_once(tmp_path: Path) -> None:
    write_format_1(tmp_path / FILE_NAME, 5 * BLOCK)
    stores = [Store(str(tmp_path)) for _ in range(4)]
    try:
        wish = Recall(content_contains="note", limit=1000)
        asked = [Memories(store).query("a", wish) for store in stores]
        assert [len(one.result(SECONDS)) for one in asked] == [5 * BLOCK] * 4
    finally:
        for store in stores:
            store.close()
