"""The registry of user ids, which gives each extension on a machine a different one.

A host with root rights runs each sandboxed extension as another user. The preferred id is computed
from a hash of the name. Two names may have the same hash, so the ids are recorded in a file, as
lines of JSON: [id, name]. The id of the empty name is reserved for sandbox probes, the programs
that check whether a sandbox works.
"""

import errno
import json
import multiprocessing
from pathlib import Path

import pytest

from exthost.process import user_ids, user_registry
from exthost.process.user_registry import allot_user_id, registry_file

# The lines of /proc/self/uid_map: the first id in the namespace, the first outside, and the count.
ALL_IDS = ((0, 0, 4294967295),)
CONTAINER_IDS = ((0, 0, 65536),)


@pytest.fixture(autouse=True)
def no_cache_and_all_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clear the cache of this process, and let all ids of the machine be available."""
    monkeypatch.setattr(user_registry, "_known", {})
    monkeypatch.setattr(user_ids, "_read_map", lambda path: ALL_IDS)


def clear_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clear the cache of the registry, as a restart of the host does."""
    monkeypatch.setattr(user_registry, "_known", {})


def test_extensions_with_the_same_hash_have_different_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Also of "", so this id is reserved.
    monkeypatch.setattr(user_registry, "user_id", lambda extension: 1_900_000_007)
    state = str(tmp_path / "state")
    users = [allot_user_id(state, name) for name in ("a", "b", "c")]
    assert users == [1_900_000_008, 1_900_000_009, 1_900_000_010]
    clear_cache(monkeypatch)
    assert [allot_user_id(state, name) for name in ("c", "b", "a")] == users[::-1]


def test_the_user_of_a_removed_extension_is_not_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = str(tmp_path)
    first_user = allot_user_id(state, "removed")
    clear_cache(monkeypatch)
    # Every extension has the same hash; probes have another user.
    monkeypatch.setattr(user_registry, "user_id", lambda extension: first_user if extension else 0)
    assert allot_user_id(state, "successor") != first_user
    clear_cache(monkeypatch)
    assert allot_user_id(state, "removed") == first_user


def test_an_extension_has_its_preferred_user_if_it_is_free(tmp_path: Path) -> None:
    for name in ("a", "toy.server", "\udcff"):  # the last one from bytes that are not UTF-8
        assert allot_user_id(str(tmp_path), name) == user_ids.user_id(name)
    file = Path(registry_file(str(tmp_path)))
    assert file.stat().st_mode & 0o777 == 0o600
    names = [json.loads(line)[1] for line in file.read_text().splitlines()]
    assert names == ["a", "toy.server", "\udcff"]


def test_another_range_of_ids_has_separate_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user_outside = allot_user_id(str(tmp_path), "a")
    clear_cache(monkeypatch)
    monkeypatch.setattr(user_ids, "_read_map", lambda path: CONTAINER_IDS)
    user_in_container = allot_user_id(str(tmp_path), "a")
    # The ids of a container that no user has: above those of systemd's dynamic users, below nobody.
    assert user_in_container is not None and 61_184 <= user_in_container < 65_520
    assert user_in_container != user_outside
    clear_cache(monkeypatch)
    monkeypatch.setattr(user_ids, "_read_map", lambda path: ALL_IDS)
    assert allot_user_id(str(tmp_path), "a") == user_outside


def test_no_free_user_id_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_registry, "user_id_range", lambda: range(100, 103))
    monkeypatch.setattr(user_registry, "user_id", lambda extension: 101)
    # 101 is reserved for probes.
    assert [allot_user_id(str(tmp_path), name) for name in "ab"] == [102, 100]
    with pytest.raises(OSError, match="every number is taken") as caught:
        allot_user_id(str(tmp_path), "c")
    assert caught.value.errno == errno.ENOSPC
    assert allot_user_id(str(tmp_path), "a") == 102


def test_an_incomplete_last_line_is_dropped(tmp_path: Path) -> None:
    file = Path(registry_file(str(tmp_path)))
    file.write_text('[1900000001, "a"]\n[19000')
    assert allot_user_id(str(tmp_path), "a") == 1_900_000_001
    uid = allot_user_id(str(tmp_path), "b")
    assert file.read_text() == f'[1900000001, "a"]\n[{uid}, "b"]\n'


@pytest.mark.parametrize("line", ["nonsense", "[1]", "[]", "{", "7"])
def test_a_damaged_line_is_an_error_instead_of_a_free_id(tmp_path: Path, line: str) -> None:
    file = Path(registry_file(str(tmp_path)))
    file.write_text(f'[1900000001, "a"]\n{line}\n')
    with pytest.raises(OSError, match="line 2 cannot be read"):
        allot_user_id(str(tmp_path), "b")


def _allot(state: str, names: list[str]) -> list[int | None]:
    return [allot_user_id(state, name) for name in names]


def test_hosts_that_run_at_the_same_time_agree_on_a_user_for_each_extension(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_registry, "user_id", lambda extension: 1_900_000_000)
    names = [f"ext-{number}" for number in range(40)]
    with multiprocessing.get_context("fork").Pool(4) as hosts:
        users_by_host = hosts.starmap(
            _allot, [(str(tmp_path), names[::step]) for step in (1, -1, 3, 7)]
        )
    assert len(set(users_by_host[0])) == len(names)
    assert users_by_host == [users_by_host[0][::step] for step in (1, -1, 3, 7)]
