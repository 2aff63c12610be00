"""Reading one file that a stranger wrote: what is read, what is refused, and that it ends."""

import os
from pathlib import Path

import pytest

from exthost.config.discovery.untrusted_files import MANIFEST_BYTES, is_inside, read_file
from exthost.errors import ManifestError


def refusal(path: Path) -> ManifestError:
    with pytest.raises(ManifestError) as caught:
        read_file(str(path))
    assert caught.value.code == "X0201"
    assert caught.value.evidence.path == str(path)
    return caught.value


@pytest.mark.parametrize("size", [0, 1, 70_000, MANIFEST_BYTES])
def test_a_file_is_read_whole(tmp_path: Path, size: int) -> None:
    file = tmp_path / "m"
    file.write_bytes(os.urandom(size))
    assert read_file(str(file)) == file.read_bytes()


def test_one_byte_too_many_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "m"
    file.write_bytes(b"x" * (MANIFEST_BYTES + 1))
    assert "larger" in refusal(file).message


def test_a_missing_file_gives_none_instead_of_an_error(tmp_path: Path) -> None:
    assert read_file(str(tmp_path / "m")) is None


def test_a_pipe_without_a_writer_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "m")
    assert "regular file" in refusal(tmp_path / "m").message


def test_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    assert "regular file" in refusal(tmp_path / "m").message


def test_a_link_is_refused_although_its_target_is_fine(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"x")
    (tmp_path / "m").symlink_to("real")
    assert "link" in refusal(tmp_path / "m").message


def test_a_file_whose_stated_size_is_nothing_is_read_all_the_same() -> None:
    # The kernel's own files say that they are empty; so may any that grows while we read.
    assert Path("/proc/version").stat().st_size == 0
    assert read_file("/proc/version") == Path("/proc/version").read_bytes() != b""


def test_a_refusal_of_the_system_is_reported_in_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Tests may run as root, who may read everything: the refusal is played.
    def forbidden(path: str, flags: int) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", forbidden)
    error = refusal(tmp_path / "m")
    monkeypatch.undo()
    assert "permission denied" in error.message


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(b"x")
    (tmp_path / "big").write_bytes(b"x" * (MANIFEST_BYTES + 1))
    before = sorted(os.listdir("/proc/self/fd"))  # noqa: PTH208
    read_file(str(tmp_path / "m"))
    refusal(tmp_path / "big")
    refusal(tmp_path)
    assert sorted(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


@pytest.mark.parametrize(
    ("path", "folder", "inside"),
    [
        ("/a", "/a", True),
        ("/a/b", "/a", True),
        ("/ab", "/a", False),
        ("/", "/a", False),
        ("/a", "/", True),
        ("/", "/", True),
    ],
)
def test_inside_goes_by_whole_names(path: str, folder: str, inside: bool) -> None:
    assert is_inside(path, folder) is inside
