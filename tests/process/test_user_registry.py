"""No two extensions have the same user, whatever ids they choose."""

import errno
import json
import multiprocessing
from pathlib import Path

import pytest

from exthost.process import user_ids, user_registry
from exthost.process.user_registry import allot_user_id, registry_file

WHOLE = ((0, 0, 4294967295),)
CONTAINER = ((0, 0, 65536),)


@pytest.fixture(autouse=True)
def new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what this process has looked up; all ids are those of the machine."""
    monkeypatch.setattr(user_registry, "_known", {})
    monkeypatch.setattr(user_ids, "_read_map", lambda path: WHOLE)


def restart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_registry, "_known", {})


def test_ids_of_the_same_hash_have_different_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_registry, "user_id", lambda extension: 1_900_000_007)
    state = str(tmp_path / "state")
    users = [allot_user_id(state, name) for name in ("a", "b", "c")]
    assert users == [1_900_000_008, 1_900_000_009, 1_900_000_010], "the first is that of trials"
    restart(monkeypatch)
    assert [allot_user_id(state, name) for name in ("c", "b", "a")] == users[::-1]


def test_a_user_stays_taken_after_its_extension_was_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = str(tmp_path)
    first = allot_user_id(state, "removed")
    restart(monkeypatch)
    monkeypatch.setattr(user_registry, "user_id", lambda extension: extension and first)
    assert allot_user_id(state, "successor") != first
    restart(monkeypatch)
    assert allot_user_id(state, "removed") == first


def test_an_id_has_its_preferred_user_where_it_is_free(tmp_path: Path) -> None:
    for name in ("a", "toy.server", "\udcff"):
        assert allot_user_id(str(tmp_path), name) == user_ids.user_id(name)
    file = Path(registry_file(str(tmp_path)))
    assert file.stat().st_mode & 0o777 == 0o600
    names = [json.loads(line)[1] for line in file.read_text().splitlines()]
    assert names == ["a", "toy.server", "\udcff"]


def test_another_range_of_ids_has_records_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = allot_user_id(str(tmp_path), "a")
    restart(monkeypatch)
    monkeypatch.setattr(user_ids, "_read_map", lambda path: CONTAINER)
    inside = allot_user_id(str(tmp_path), "a")
    assert inside is not None and inside != outside and 61_184 <= inside < 65_520
    restart(monkeypatch)
    monkeypatch.setattr(user_ids, "_read_map", lambda path: WHOLE)
    assert allot_user_id(str(tmp_path), "a") == outside


def test_when_every_number_is_taken_that_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_registry, "user_id_range", lambda: range(100, 103))
    monkeypatch.setattr(user_registry, "user_id", lambda extension: 101)
    assert [allot_user_id(str(tmp_path), name) for name in "ab"] == [102, 100]
    with pytest.raises(OSError, match="every number is taken") as caught:
        allot_user_id(str(tmp_path), "c")
    assert caught.value.errno == errno.ENOSPC
    assert allot_user_id(str(tmp_path), "a") == 102


def test_a_line_that_was_not_written_to_its_end_is_dropped(tmp_path: Path) -> None:
    file = Path(registry_file(str(tmp_path)))
    file.write_text('[1900000001, "a"]\n[19000')
    assert allot_user_id(str(tmp_path), "a") == 1_900_000_001
    uid = allot_user_id(str(tmp_path), "b")
    assert file.read_text() == f'[1900000001, "a"]\n[{uid}, "b"]\n'


@pytest.mark.parametrize("line", ["nonsense", "[1]", "[]", "{", "7"])
def test_a_damaged_line_is_an_error_instead_of_a_free_number(tmp_path: Path, line: str) -> None:
    file = Path(registry_file(str(tmp_path)))
    file.write_text(f'[1900000001, "a"]\n{line}\n')
    with pytest.raises(OSError, match="line 2 cannot be read"):
        allot_user_id(str(tmp_path), "b")


def _allot(state: str, names: list[str]) -> list[int | None]:
    return [allot_user_id(state, name) for name in names]


def test_hosts_that_run_at_once_never_give_one_user_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_registry, "user_id", lambda extension: 1_900_000_000)
    names = [f"ext-{number}" for number in range(40)]
    with multiprocessing.get_context("fork").Pool(4) as hosts:
        allotted = hosts.starmap(_allot, [(str(tmp_path), names[::step]) for step in (1, -1, 3, 7)])
    assert len(set(allotted[0])) == len(names)
    assert allotted[1] == allotted[0][::-1] and allotted[2] == allotted[0][::3]
