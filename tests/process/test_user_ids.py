"""The user id under which a host with root rights runs an extension, and the paths it can reach.

Each extension gets an id that is computed from its name, between 1,900,000,000 and 2,000,000,000. A
user namespace, such as that of a container, may map fewer ids: lines of (first id inside, first id
outside, count), as in /proc/self/uid_map. Then the id is one from 61,184 to 65,519, if they exist:
these are in the 16 bits that most containers have, and systemd uses them for temporary users.
"""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from exthost.process import user_ids
from exthost.process.user_ids import can_write, find_inaccessible_path, is_kernel_root, user_id

ALL_IDS = ((0, 0, 4294967295),)


def use_id_map(monkeypatch: pytest.MonkeyPatch, *lines: tuple[int, int, int]) -> None:
    monkeypatch.setattr(user_ids, "_read_map", lambda path: lines)


def test_each_extension_has_a_user_that_stays_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    use_id_map(monkeypatch, *ALL_IDS)
    ids = {name: user_id(name) for name in ("a", "b", "toy.server", "\udcff", "")}
    assert len(set(ids.values())) == len(ids)
    # Computed from a hash of the name, so that it is the same on every machine and after an update.
    assert user_id("a") == ids["a"] == 1944962250
    assert all(
        value is not None and 1_900_000_000 <= value < 2_000_000_000 for value in ids.values()
    )


def test_in_a_container_the_user_is_one_of_the_available_ids(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use_id_map(monkeypatch, (0, 1000, 1), (1, 100000, 65535))
    uid = user_id("a")
    assert uid is not None and 61_184 <= uid < 65_520 and not is_kernel_root()


def test_in_a_namespace_with_one_id_no_extension_user_is_available(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Only root is mapped: to root outside in the first map, to an ordinary user in the second.
    use_id_map(monkeypatch, (0, 0, 1))
    assert user_id("a") is None and is_kernel_root()
    use_id_map(monkeypatch, (0, 1000, 1))
    assert user_id("a") is None and not is_kernel_root()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Yield a folder that every user can reach. The folders of pytest are private."""
    with tempfile.TemporaryDirectory(prefix="exthost-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_the_folder_that_a_user_cannot_enter_is_found(open_folder: Path) -> None:
    other_uid = os.geteuid() + 12345
    inner = open_folder / "outer" / "inner"
    inner.mkdir(parents=True)
    for folder in (inner, inner.parent):
        folder.chmod(0o755)
    assert find_inaccessible_path(str(inner), other_uid) == "" and not can_write(
        str(inner), other_uid
    )
    inner.chmod(0o777)
    assert can_write(str(inner), other_uid)
    inner.chmod(0o700)
    assert find_inaccessible_path(str(inner), other_uid) == str(inner)
    assert can_write(str(inner), os.geteuid())
    inner.parent.chmod(0o700)
    assert find_inaccessible_path(str(inner), other_uid) == str(inner.parent)
