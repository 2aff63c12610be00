"""The store, and memory and config on it: order, filters, groups, and what a bad disk does."""

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

SECONDS = 150


def of(future: "Future[Any]") -> Any:
    return future.result(SECONDS)


@pytest.fixture
def store(tmp_path: Path) -> Any:
    made = Store(str(tmp_path / "home"))
    yield made
    made.close()


class Clock:
    def __init__(self) -> None:
        self.ms = 1000

    def __call__(self) -> float:
        return self.ms / 1000


def _insert(n: int, connection: sqlite3.Connection) -> int:
    connection.execute("INSERT INTO t VALUES (?)", (n,))
    return n


# -- the store -------------------------------------------------------------------------------


def test_writes_that_wait_together_are_committed_together(store: Store) -> None:
    started, gate = threading.Event(), threading.Event()

    def slow(connection: sqlite3.Connection) -> int:
        started.set()
        gate.wait(SECONDS)
        return connection.total_changes

    commits = 0

    def count(statement: str) -> None:
        nonlocal commits
        commits += statement == "COMMIT"

    of(store.write(lambda c: c.execute("CREATE TABLE t (n)")))
    of(store.read(lambda c: c.set_trace_callback(count)))
    first = store.write(slow)
    assert started.wait(SECONDS)
    rest = [store.write(partial(_insert, n)) for n in range(100)]
    gate.set()
    assert [of(item) for item in (first, *rest)][1:] == list(range(100))
    assert commits == 2
    assert of(store.read(lambda c: c.execute("SELECT count(*) FROM t").fetchone())) == (100,)


def test_one_write_that_fails_takes_no_neighbour_with_it(store: Store) -> None:
    def half(connection: sqlite3.Connection) -> None:
        _insert(7, connection)
        raise ValueError("no")

    futures: list[Future[Any]] = [
        store.write(lambda c: c.execute("CREATE TABLE t (n UNIQUE)").rowcount),
        store.write(partial(_insert, 1)),
        store.write(half),
        store.write(partial(_insert, 1)),
        store.write(partial(_insert, 2)),
    ]
    for good in (0, 1, 4):
        of(futures[good])
    with pytest.raises(ValueError, match="no"):
        of(futures[2])
    with pytest.raises(ConfigError) as refused:
        of(futures[3])
    assert refused.value.code == "X0150" and "UNIQUE" in refused.value.message
    assert of(store.read(lambda c: c.execute("SELECT n FROM t").fetchall())) == [(1,), (2,)]


def test_reading_makes_no_file_and_the_file_is_its_owners_alone(store: Store) -> None:
    with pytest.raises(Missing):
        of(store.read(lambda c: None))
    assert not Path(store.path).exists()
    of(store.write(lambda c: c.execute("CREATE TABLE t (n)").rowcount))
    assert stat.S_IMODE(Path(store.path).stat().st_mode) == 0o600
    assert Path(store.path).name == FILE_NAME


def test_it_is_written_with_the_promise_that_it_is_safe(store: Store) -> None:
    of(store.write(lambda c: c.execute("CREATE TABLE t (n)").rowcount))

    def pragma(name: str) -> Any:
        return of(store.read(lambda c: c.execute(f"PRAGMA {name}").fetchone()[0]))

    assert (pragma("journal_mode"), pragma("synchronous")) == ("wal", 2)


@shows("synaps-ask-04")
def test_a_full_disk_fails_unwritten_data_and_loses_nothing_that_was_acknowledged(
    store: Store,
) -> None:
    memories = Memories(store)
    of(memories.append("a", Remember("kept")))
    of(store.read(lambda c: c.execute("PRAGMA max_page_count = 30").fetchone()))
    outcomes = [memories.append("a", Remember("x" * 16000)) for _ in range(40)]
    failed = []
    for outcome in outcomes:
        try:
            of(outcome)
        except ConfigError as error:
            failed.append(error)
    assert failed and "full" in failed[0].message
    kept = of(memories.query("a", Recall(limit=100)))
    assert len(kept) == 1 + len(outcomes) - len(failed) and kept[-1].content == "kept"
    of(store.read(lambda c: c.execute("PRAGMA max_page_count = 100000").fetchone()))
    of(memories.append("a", Remember("again")))
    assert of(memories.query("a", Recall(limit=1)))[0].content == "again"


@shows("synaps-ask-04")
def test_a_store_that_cannot_be_made_is_reported_with_its_place_and_reason(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file, not a folder")
    store = Store(str(tmp_path / "home"))
    try:
        with pytest.raises(ConfigError) as refused:
            of(Memories(store).append("a", Remember("x")))
        assert refused.value.code == "X0150" and str(tmp_path) in refused.value.message
        (tmp_path / "home").unlink()
        of(Memories(store).append("a", Remember("x")))  # mended: it goes on
    finally:
        store.close()


def test_a_file_that_is_not_a_database_is_reported_and_not_changed(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    path.write_bytes(b"not a database at all" * 100)
    store = Store(str(tmp_path))
    try:
        with pytest.raises(ConfigError, match="not a database"):
            of(Memories(store).append("a", Remember("x")))
    finally:
        store.close()
    assert path.read_bytes() == b"not a database at all" * 100


@pytest.mark.parametrize("version", [1, 7])
def test_a_store_of_another_format_is_left_alone(store: Store, version: int) -> None:
    of(store.write(lambda c: c.execute(f"PRAGMA user_version = {version}").rowcount))
    store.close()
    with pytest.raises(ConfigError, match=f"format {version}"):
        of(Memories(store).append("a", Remember("x")))


def test_it_can_be_closed_and_asked_again(store: Store) -> None:
    memories = Memories(store)
    of(memories.append("a", Remember("one")))
    store.close()
    store.close()
    assert [item.content for item in of(memories.query("a", Recall()))] == ["one"]


# -- memory ----------------------------------------------------------------------------------


@shows("synaps-ask-01", "synaps-ask-02")
def test_memories_are_found_by_content_and_tags(store: Store) -> None:
    clock = Clock()
    memories = Memories(store, clock)
    for ms, content, tags in (
        (1000, "Straße in LIMA", ("city", "place:peru")),
        (2000, "weather", ("place:chile",)),
        (3000, "lima beans", ()),
    ):
        clock.ms = ms
        assert of(memories.append("a", Remember(content, tags, {"n": ms}))) == ms
    of(memories.append("b", Remember("lima elsewhere", ("city",))))

    def found(**wish: Any) -> list[int]:
        return [item.timestamp_ms for item in of(memories.query("a", Recall(**wish)))]

    assert found() == [3000, 2000, 1000]
    assert found(limit=2) == [3000, 2000] and found(limit=0) == []
    assert found(content_contains="Lima") == [3000, 1000]
    assert found(content_contains="STRAßE") == [1000] and found(content_contains="") == found()
    assert found(tag_prefix="place:") == [2000, 1000] and found(tag_prefix="city") == [1000]
    assert found(tag_prefix="") == [2000, 1000] and found(tag_prefix="plac%") == []
    assert found(since_ms=2000) == [3000, 2000] and found(until_ms=2000) == [2000, 1000]
    assert found(since_ms=2**64 - 1) == [] and found(until_ms=2**64 - 1) == found()
    assert found(content_contains="lima", tag_prefix="place", until_ms=1000) == [1000]
    first = of(memories.query("a", Recall(tag_prefix="city")))[0]
    assert (first.tags, first.meta) == (("city", "place:peru"), {"n": 1000})
    assert of(memories.query("nobody", Recall())) == []


def test_times_never_go_backwards(store: Store) -> None:
    clock = Clock()
    memories = Memories(store, clock)
    of(memories.append("a", Remember("first")))
    clock.ms = 10
    assert of(memories.append("a", Remember("second"))) == 1000
    assert [item.content for item in of(memories.query("a", Recall()))] == ["second", "first"]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    tags=st.lists(
        st.lists(st.text("ab\ud7ff\ue000\U0010ffff", max_size=3), max_size=3), max_size=30
    ),
    prefix=st.text("ab\ud7ff\ue000\U0010ffff", max_size=3),
    limit=st.integers(1, 5),
    few=st.integers(0, 40),
)
def test_every_way_to_look_for_tags_finds_the_same(
    tags: list[list[str]], prefix: str, limit: int, few: int
) -> None:
    connection = sqlite3.connect(":memory:")
    for n, some in enumerate(tags):
        memory.append(connection, "a", Remember(str(n), tuple(some)), n)
    expected = [
        str(n)
        for n, some in reversed(list(enumerate(tags)))
        if any(item.startswith(prefix) for item in some)
    ][:limit]
    before = memory._FEW_MATCHES, memory._FEW_TAGS
    try:
        for ways in ((10_000, 100), (few, 100), (few, 0), (0, 0)):
            memory._FEW_MATCHES, memory._FEW_TAGS = ways
            found = memory.query(connection, "a", Recall(tag_prefix=prefix, limit=limit))
            assert [item.content for item in found] == expected, ways
    finally:
        memory._FEW_MATCHES, memory._FEW_TAGS = before
        connection.close()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    contents=st.lists(st.text('aAbBß\u0130\n\0"', max_size=6), max_size=40),
    words=st.text('aAbBß\u0130\n\0"', min_size=1, max_size=4),
    since=st.none() | st.integers(0, 40),
    until=st.none() | st.integers(0, 40),
    tagged=st.booleans(),
)
def test_content_is_found_in_blocks_and_outside_of_them_alike(
    contents: list[str], words: str, since: int | None, until: int | None, tagged: bool
) -> None:
    connection = sqlite3.connect(":memory:")
    before = memory._BLOCK_RECORDS, memory._FEW_MATCHES
    memory._BLOCK_RECORDS, memory._FEW_MATCHES = 7, 3
    try:
        for at, content in enumerate(contents):
            memory.append(connection, "a", Remember(content, ("t",)), at)
        wish = Recall(words, "t" if tagged else None, since, until)
        found = [item.timestamp_ms for item in memory.query(connection, "a", wish)]
    finally:
        memory._BLOCK_RECORDS, memory._FEW_MATCHES = before
        connection.close()
    inside = range(since or 0, len(contents) if until is None else min(until + 1, len(contents)))
    expected = [at for at in inside if words.lower() in contents[at].lower()]
    assert found == expected[::-1]


def test_an_answer_that_does_not_fit_into_a_message_is_refused(store: Store) -> None:
    memories = Memories(store)
    for _ in range(250):
        last = memories.append("a", Remember("x" * 16_000))
    of(last)
    with pytest.raises(UsageError) as refused:
        of(memories.query("a", Recall(limit=2**64 - 1)))
    assert refused.value.code == "X1350"
    assert len(of(memories.query("a", Recall()))) == 50


# -- config ----------------------------------------------------------------------------------


@shows("synaps-ask-03")
def test_configs_are_separate_and_changes_are_reported_to_subscribers(store: Store) -> None:
    configs = StoredSettings(store)
    reports: list[tuple[str, str]] = []
    end = configs.subscribe("a", frozenset({"k"}), lambda key, value: reports.append((key, value)))
    everything: list[str] = []
    configs.subscribe("a", None, lambda key, value: everything.append(key))
    with pytest.raises(Missing):
        of(configs.get("a", "k"))
    for extension, key, value in (("a", "k", "1"), ("b", "k", "2"), ("a", "other", "3")):
        of(configs.set(extension, key, value))
        configs.report_change(extension, key, value)
    end()
    end()
    configs.report_change("a", "k", "4")
    assert (reports, everything) == ([("k", "1")], ["k", "other", "k"])
    assert of(configs.get("a", "k")) == "1" and of(configs.get("a", "nothing")) is None
    assert of(configs.get_many("a", ("k", "other", "none"))) == {"k": "1", "other": "3"}


def test_a_host_that_makes_the_file_at_the_same_moment_is_waited_for(tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / FILE_NAME, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    store = Store(str(tmp_path))
    done = threading.Timer(0.2, lambda: other.execute("COMMIT"))
    try:
        kept = Memories(store).append("a", Remember("x"))
        done.start()
        of(kept)
    finally:
        done.join()
        store.close()
        other.close()


def test_two_hosts_share_one_file(tmp_path: Path) -> None:
    stores = [Store(str(tmp_path)), Store(str(tmp_path))]
    try:
        asked = [
            Memories(store).append("a", Remember(f"{n}")) for n in range(50) for store in stores
        ]
        for request in asked:
            of(request)
        for store in stores:
            assert len(of(Memories(store).query("a", Recall(limit=200)))) == 100
    finally:
        for store in stores:
            store.close()
    assert os.listdir(tmp_path) == [FILE_NAME]  # noqa: PTH208 - and no log is left behind
