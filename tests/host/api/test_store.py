"""The store of extensions: memories and settings, their order and filters, and a full disk.

Extensions can ask the host to keep records ("memories", with a content and tags) and settings for
them. All are in one SQLite file, which is read and written in a thread: `write` and `read` take a
function of the connection, and return a future.
"""

import os
import sqlite3
import stat
import threading
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from exthost.dialects.host_requests import Recall, Remember
from exthost.errors import ConfigError, UsageError
from exthost.host.api import memory
from exthost.host.api.memory import Memories
from exthost.host.api.store import FILE_NAME, Missing, Store
from exthost.host.api.stored_settings import StoredSettings
from tests.dialects.requirements import shows

SECONDS = 150  # the limit of each wait, generous for a busy machine


def result_of(future: "Future[Any]") -> Any:
    return future.result(SECONDS)


@pytest.fixture
def store(tmp_path: Path) -> Any:
    new_store = Store(str(tmp_path / "home"))
    yield new_store
    new_store.close()


class FakeClock:
    """A clock that a test sets in milliseconds."""

    def __init__(self) -> None:
        self.ms = 1000

    def __call__(self) -> float:
        return self.ms / 1000


def _insert(n: int, connection: sqlite3.Connection) -> int:
    connection.execute("INSERT INTO t VALUES (?)", (n,))
    return n


# -- the store -------------------------------------------------------------------------------


def test_writes_that_wait_together_are_committed_together(store: Store) -> None:
    is_writing, may_end = threading.Event(), threading.Event()

    def slow_write(connection: sqlite3.Connection) -> int:
        is_writing.set()
        may_end.wait(SECONDS)
        return connection.total_changes

    commits = 0

    def count(statement: str) -> None:
        nonlocal commits
        commits += statement == "COMMIT"

    result_of(store.write(lambda c: c.execute("CREATE TABLE t (n)")))
    result_of(store.read(lambda c: c.set_trace_callback(count)))
    first = store.write(slow_write)
    assert is_writing.wait(SECONDS)
    later_writes = [store.write(partial(_insert, n)) for n in range(100)]
    may_end.set()
    assert [result_of(item) for item in (first, *later_writes)][1:] == list(range(100))
    assert commits == 2  # of the slow write, and of all others
    assert result_of(store.read(lambda c: c.execute("SELECT count(*) FROM t").fetchone())) == (100,)


def test_a_failed_write_does_not_affect_other_writes(store: Store) -> None:
    def insert_and_fail(connection: sqlite3.Connection) -> None:
        _insert(7, connection)
        raise ValueError("no")

    futures: list[Future[Any]] = [
        store.write(lambda c: c.execute("CREATE TABLE t (n UNIQUE)").rowcount),
        store.write(partial(_insert, 1)),
        store.write(insert_and_fail),
        store.write(partial(_insert, 1)),
        store.write(partial(_insert, 2)),
    ]
    for index in (0, 1, 4):
        result_of(futures[index])
    with pytest.raises(ValueError, match="no"):
        result_of(futures[2])
    with pytest.raises(ConfigError) as caught:
        result_of(futures[3])
    assert caught.value.code == "X0150" and "UNIQUE" in caught.value.message
    assert result_of(store.read(lambda c: c.execute("SELECT n FROM t").fetchall())) == [(1,), (2,)]


def test_reading_creates_no_file_and_only_the_owner_can_read_it(store: Store) -> None:
    with pytest.raises(Missing):
        result_of(store.read(lambda c: None))
    assert not Path(store.path).exists()
    result_of(store.write(lambda c: c.execute("CREATE TABLE t (n)").rowcount))
    assert stat.S_IMODE(Path(store.path).stat().st_mode) == 0o600
    assert Path(store.path).name == FILE_NAME


def test_the_store_uses_a_write_ahead_log_and_full_synchronisation(store: Store) -> None:
    result_of(store.write(lambda c: c.execute("CREATE TABLE t (n)").rowcount))

    def pragma(name: str) -> Any:
        return result_of(store.read(lambda c: c.execute(f"PRAGMA {name}").fetchone()[0]))

    assert (pragma("journal_mode"), pragma("synchronous")) == ("wal", 2)  # 2 is FULL


@shows("synaps-ask-04")
def test_a_full_disk_fails_new_writes_and_loses_no_earlier_ones(
    store: Store,
) -> None:
    memories = Memories(store)
    result_of(memories.append("a", Remember("kept")))
    # The file cannot grow beyond 30 pages, as if the disk were full.
    result_of(store.read(lambda c: c.execute("PRAGMA max_page_count = 30").fetchone()))
    appends = [memories.append("a", Remember("x" * 16000)) for _ in range(40)]
    append_errors = []
    for append in appends:
        try:
            result_of(append)
        except ConfigError as error:
            append_errors.append(error)
    assert append_errors and "full" in append_errors[0].message
    memories_left = result_of(memories.query("a", Recall(limit=100)))
    assert len(memories_left) == 1 + len(appends) - len(append_errors)
    assert memories_left[-1].content == "kept"
    result_of(store.read(lambda c: c.execute("PRAGMA max_page_count = 100000").fetchone()))
    result_of(memories.append("a", Remember("again")))
    assert result_of(memories.query("a", Recall(limit=1)))[0].content == "again"


@shows("synaps-ask-04")
def test_a_store_that_cannot_be_created_is_reported_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file, not a folder")
    store = Store(str(tmp_path / "home"))
    try:
        with pytest.raises(ConfigError) as caught:
            result_of(Memories(store).append("a", Remember("x")))
        assert caught.value.code == "X0150" and str(tmp_path) in caught.value.message
        (tmp_path / "home").unlink()
        result_of(Memories(store).append("a", Remember("x")))  # the folder can be created now
    finally:
        store.close()


def test_a_file_that_is_not_a_database_is_reported_and_not_changed(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    path.write_bytes(b"not a database at all" * 100)
    store = Store(str(tmp_path))
    try:
        with pytest.raises(ConfigError, match="not a database"):
            result_of(Memories(store).append("a", Remember("x")))
    finally:
        store.close()
    assert path.read_bytes() == b"not a database at all" * 100


@pytest.mark.parametrize("version", [1, 7])
def test_a_store_of_another_format_is_refused(store: Store, version: int) -> None:
    result_of(store.write(lambda c: c.execute(f"PRAGMA user_version = {version}").rowcount))
    store.close()
    with pytest.raises(ConfigError, match=f"format {version}"):
        result_of(Memories(store).append("a", Remember("x")))


def test_a_closed_store_opens_again_when_it_is_used(store: Store) -> None:
    memories = Memories(store)
    result_of(memories.append("a", Remember("one")))
    store.close()
    store.close()
    assert [item.content for item in result_of(memories.query("a", Recall()))] == ["one"]


# -- memory ----------------------------------------------------------------------------------


@shows("synaps-ask-01", "synaps-ask-02")
def test_memories_are_found_by_content_and_tags(store: Store) -> None:
    clock = FakeClock()
    memories = Memories(store, clock)
    for ms, content, tags in (
        (1000, "Straße in LIMA", ("city", "place:peru")),
        (2000, "weather", ("place:chile",)),
        (3000, "lima beans", ()),
    ):
        clock.ms = ms
        assert result_of(memories.append("a", Remember(content, tags, {"n": ms}))) == ms
    result_of(memories.append("b", Remember("lima elsewhere", ("city",))))

    def find(**criteria: Any) -> list[int]:
        """Return the timestamps of the memories that match."""
        return [item.timestamp_ms for item in result_of(memories.query("a", Recall(**criteria)))]

    assert find() == [3000, 2000, 1000]
    assert find(limit=2) == [3000, 2000] and find(limit=0) == []
    assert find(content_contains="Lima") == [3000, 1000]
    assert find(content_contains="STRAßE") == [1000] and find(content_contains="") == find()
    assert find(tag_prefix="place:") == [2000, 1000] and find(tag_prefix="city") == [1000]
    assert find(tag_prefix="") == [2000, 1000] and find(tag_prefix="plac%") == []
    assert find(since_ms=2000) == [3000, 2000] and find(until_ms=2000) == [2000, 1000]
    assert find(since_ms=2**64 - 1) == [] and find(until_ms=2**64 - 1) == find()
    assert find(content_contains="lima", tag_prefix="place", until_ms=1000) == [1000]
    first = result_of(memories.query("a", Recall(tag_prefix="city")))[0]
    assert (first.tags, first.meta) == (("city", "place:peru"), {"n": 1000})
    assert result_of(memories.query("nobody", Recall())) == []


def test_timestamps_never_decrease(store: Store) -> None:
    clock = FakeClock()
    memories = Memories(store, clock)
    result_of(memories.append("a", Remember("first")))
    clock.ms = 10
    assert result_of(memories.append("a", Remember("second"))) == 1000
    assert [item.content for item in result_of(memories.query("a", Recall()))] == [
        "second",
        "first",
    ]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    tags=st.lists(
        st.lists(st.text("ab\ud7ff\ue000\U0010ffff", max_size=3), max_size=3), max_size=30
    ),
    prefix=st.text("ab\ud7ff\ue000\U0010ffff", max_size=3),
    limit=st.integers(1, 5),
    few_matches=st.integers(0, 40),
)
def test_every_strategy_to_find_tags_has_the_same_result(
    tags: list[list[str]], prefix: str, limit: int, few_matches: int
) -> None:
    connection = sqlite3.connect(":memory:")
    for n, tags_of_memory in enumerate(tags):
        memory.insert_record(connection, "a", Remember(str(n), tuple(tags_of_memory)), n)
    expected = [
        str(n)
        for n, tags_of_memory in reversed(list(enumerate(tags)))
        if any(item.startswith(prefix) for item in tags_of_memory)
    ][:limit]
    before = memory._FEW_MATCHES, memory._FEW_TAGS
    try:
        # The strategy depends on how many records match, and how many different tags they have.
        for limits in ((10_000, 100), (few_matches, 100), (few_matches, 0), (0, 0)):
            memory._FEW_MATCHES, memory._FEW_TAGS = limits
            memories = memory.find_records(connection, "a", Recall(tag_prefix=prefix, limit=limit))
            assert [item.content for item in memories] == expected, limits
    finally:
        memory._FEW_MATCHES, memory._FEW_TAGS = before
        connection.close()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    contents=st.lists(st.text('aAbBß\u0130\n\0"', max_size=6), max_size=40),
    text=st.text('aAbBß\u0130\n\0"', min_size=1, max_size=4),
    since=st.none() | st.integers(0, 40),
    until=st.none() | st.integers(0, 40),
    has_tag=st.booleans(),
)
def test_content_is_found_within_and_outside_of_blocks(
    contents: list[str], text: str, since: int | None, until: int | None, has_tag: bool
) -> None:
    connection = sqlite3.connect(":memory:")
    """The contents of many records are searched as one text, a block. New records have none yet."""
    before = memory._BLOCK_RECORDS, memory._FEW_MATCHES
    memory._BLOCK_RECORDS, memory._FEW_MATCHES = 7, 3
    try:
        for time, content in enumerate(contents):
            memory.insert_record(connection, "a", Remember(content, ("t",)), time)
        criteria = Recall(text, "t" if has_tag else None, since, until)
        times_found = [item.timestamp_ms for item in memory.find_records(connection, "a", criteria)]
    finally:
        memory._BLOCK_RECORDS, memory._FEW_MATCHES = before
        connection.close()
    last_time = len(contents) - 1 if until is None else min(until, len(contents) - 1)
    times = range(since or 0, last_time + 1)
    expected = [time for time in times if text.lower() in contents[time].lower()]
    assert times_found == expected[::-1]  # the newest first


@pytest.mark.more
def test_an_answer_that_does_not_fit_into_a_message_is_refused(store: Store) -> None:
    memories = Memories(store)
    for _ in range(250):
        last = memories.append("a", Remember("x" * 16_000))
    result_of(last)
    with pytest.raises(UsageError) as caught:
        result_of(memories.query("a", Recall(limit=2**64 - 1)))
    assert caught.value.code == "X1350"
    assert len(result_of(memories.query("a", Recall()))) == 50


# -- config ----------------------------------------------------------------------------------


@shows("synaps-ask-03")
def test_a_million_empty_memories_do_not_fit_into_an_answer(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "_MAX_ANSWER_BYTES", 100_000)  # so that a thousand are enough
    memories = Memories(store)
    for future in [memories.append("n", Remember("")) for _ in range(1000)]:
        result_of(future)
    with pytest.raises(UsageError) as caught:
        result_of(memories.query("n", Recall(limit=10**9)))
    assert caught.value.code == "X1350"
    assert len(result_of(memories.query("n", Recall(limit=500)))) == 500


def test_settings_are_separate_and_changes_are_reported_to_subscribers(store: Store) -> None:
    stored = StoredSettings(store)
    reports: list[tuple[str, str]] = []
    unsubscribe = stored.subscribe(
        "a", frozenset({"k"}), lambda key, value: reports.append((key, value))
    )
    all_keys: list[str] = []
    stored.subscribe("a", None, lambda key, value: all_keys.append(key))
    with pytest.raises(Missing):
        result_of(stored.get("a", "k"))
    for extension, key, value in (("a", "k", "1"), ("b", "k", "2"), ("a", "other", "3")):
        result_of(stored.set(extension, key, value))
        stored.report_change(extension, key, value)
    unsubscribe()
    unsubscribe()
    stored.report_change("a", "k", "4")
    assert (reports, all_keys) == ([("k", "1")], ["k", "other", "k"])
    assert result_of(stored.get("a", "k")) == "1"
    assert result_of(stored.get("a", "nothing")) is None
    assert result_of(stored.get_many("a", ("k", "other", "none"))) == {"k": "1", "other": "3"}


def test_a_store_waits_for_another_host_that_creates_the_file(tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / FILE_NAME, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")  # locks the file against other writers
    store = Store(str(tmp_path))
    commit_later = threading.Timer(0.2, lambda: other.execute("COMMIT"))
    try:
        append = Memories(store).append("a", Remember("x"))
        commit_later.start()
        result_of(append)
    finally:
        commit_later.join()
        store.close()
        other.close()


def test_two_hosts_share_one_file(tmp_path: Path) -> None:
    stores = [Store(str(tmp_path)), Store(str(tmp_path))]
    try:
        appends = [
            Memories(store).append("a", Remember(f"{n}")) for n in range(50) for store in stores
        ]
        for request in appends:
            result_of(request)
        for store in stores:
            assert len(result_of(Memories(store).query("a", Recall(limit=200)))) == 100
    finally:
        for store in stores:
            store.close()
    assert os.listdir(tmp_path) == [FILE_NAME]  # noqa: PTH208 - no write-ahead log remains
