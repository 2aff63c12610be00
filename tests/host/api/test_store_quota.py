"""The storage quota of each extension is counted at every write, and enforced.

Extensions can ask the host to keep records ("memories") and settings for them, in a SQLite file.
`limits.store` of an extension is its quota in bytes. A write takes place in a thread, so that the
methods return a future.
"""

from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from exthost.dialects.host_requests import Recall, Remember
from exthost.host.api.memory import Memories
from exthost.host.api.store import Store
from exthost.host.api.store_quota import QuotaExceeded, record_bytes, setting_bytes, used
from exthost.host.api.stored_settings import StoredSettings

SECONDS = 150  # the limit of each wait, generous for a busy machine
QUOTA = 20_000  # bytes


def result_of(future: "Future[Any]") -> Any:
    return future.result(SECONDS)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    new_store = Store(str(tmp_path))
    yield new_store
    new_store.close()


def bytes_used(store: Store, extension: str) -> int:
    return int(result_of(store.read(lambda connection: used(connection, extension))))


@pytest.mark.parametrize(
    "record",
    [
        Remember("x" * 1000),
        Remember("é" * 500),
        Remember(""),
        Remember("x", ("t" * 500,)),
        Remember("x", meta={"m": "y" * 1000}),
    ],
    ids=["content", "characters of two bytes", "nothing", "tags", "meta"],
)
def test_records_over_the_quota_are_refused_and_stored_records_are_kept(
    store: Store, record: Remember
) -> None:
    memories = Memories(store)
    stored = 0
    with pytest.raises(QuotaExceeded, match=f"of {QUOTA} bytes"):
        for _ in range(1000):
            result_of(memories.append("a", record, QUOTA))
            stored += 1
    assert QUOTA / 2 < bytes_used(store, "a") <= QUOTA
    assert len(result_of(memories.query("a", Recall(limit=1000)))) == stored


def test_each_extension_has_its_own_quota(store: Store) -> None:
    memories = Memories(store)
    result_of(memories.append("a", Remember("x" * 9000), QUOTA))
    with pytest.raises(QuotaExceeded):
        result_of(memories.append("a", Remember("x" * 9000), QUOTA))
    result_of(memories.append("b", Remember("x" * 9000), QUOTA))


def test_writes_that_are_committed_together_do_not_exceed_the_quota(store: Store) -> None:
    memories = Memories(store)
    futures = [memories.append("a", Remember("x" * 1000), QUOTA) for _ in range(50)]
    refused_writes = [
        future for future in futures if isinstance(future.exception(SECONDS), QuotaExceeded)
    ]
    assert len(futures) - len(refused_writes) == QUOTA // record_bytes("x" * 1000, "[]", None)


def test_only_the_current_value_of_a_setting_is_counted(store: Store) -> None:
    settings = StoredSettings(store)
    result_of(settings.set("a", "key", "v" * 19_000, QUOTA))
    with pytest.raises(QuotaExceeded):
        result_of(settings.set("a", "other", "v" * 2000, QUOTA))
    result_of(settings.set("a", "key", "w" * 19_000, QUOTA))
    # A smaller value is accepted even over a lowered quota.
    result_of(settings.set("a", "key", "short", 10))
    assert bytes_used(store, "a") == setting_bytes("key", "short")


def test_settings_of_the_operator_are_counted_but_never_refused(store: Store) -> None:
    result_of(StoredSettings(store).set("a", "key", "v" * 2 * QUOTA))
    assert bytes_used(store, "a") > QUOTA
    with pytest.raises(QuotaExceeded):
        result_of(Memories(store).append("a", Remember(""), QUOTA))
