"""The quota of each extension in the store: counted with every write, and enforced."""

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

SECONDS = 150
QUOTA = 20_000


def of(future: "Future[Any]") -> Any:
    return future.result(SECONDS)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(str(tmp_path))
    yield made
    made.close()


def in_use(store: Store, extension: str) -> int:
    return int(of(store.read(lambda connection: used(connection, extension))))


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
def test_records_stop_at_the_quota_and_stored_ones_are_kept(store: Store, record: Remember) -> None:
    memories = Memories(store)
    stored = 0
    with pytest.raises(QuotaExceeded, match=f"of {QUOTA} bytes"):
        for _ in range(1000):
            of(memories.append("a", record, QUOTA))
            stored += 1
    assert QUOTA / 2 < in_use(store, "a") <= QUOTA
    assert len(of(memories.query("a", Recall(limit=1000)))) == stored


def test_each_extension_has_a_quota_of_its_own(store: Store) -> None:
    memories = Memories(store)
    of(memories.append("a", Remember("x" * 9000), QUOTA))
    with pytest.raises(QuotaExceeded):
        of(memories.append("a", Remember("x" * 9000), QUOTA))
    of(memories.append("b", Remember("x" * 9000), QUOTA))


def test_writes_that_are_committed_together_do_not_pass_the_quota(store: Store) -> None:
    memories = Memories(store)
    futures = [memories.append("a", Remember("x" * 1000), QUOTA) for _ in range(50)]
    refused = [future for future in futures if isinstance(future.exception(SECONDS), QuotaExceeded)]
    assert len(futures) - len(refused) == QUOTA // record_bytes("x" * 1000, "[]", None)


def test_a_setting_counts_as_it_is_now_and_can_be_made_smaller_when_full(store: Store) -> None:
    settings = StoredSettings(store)
    of(settings.set("a", "key", "v" * 19_000, QUOTA))
    with pytest.raises(QuotaExceeded):
        of(settings.set("a", "other", "v" * 2000, QUOTA))
    of(settings.set("a", "key", "w" * 19_000, QUOTA))
    of(settings.set("a", "key", "short", 10))  # the operator lowered the quota meanwhile
    assert in_use(store, "a") == setting_bytes("key", "short")


def test_the_operators_records_are_counted_and_never_refused(store: Store) -> None:
    of(StoredSettings(store).set("a", "key", "v" * 2 * QUOTA))
    assert in_use(store, "a") > QUOTA
    with pytest.raises(QuotaExceeded):
        of(Memories(store).append("a", Remember(""), QUOTA))
