"""Reading a file that is not trusted: its size and kind are checked, and reading never blocks.

Manifests of extensions are such files: discovery finds them in folders to which others may write.
"""

import os
from pathlib import Path

import pytest

from exthost.config.discovery.untrusted_files import MANIFEST_BYTES, is_inside, read_file
from exthost.errors import ManifestError


def read_error(path: Path) -> ManifestError:
    """Return the error for a file that is refused."""
    with pytest.raises(ManifestError) as caught:
        read_file(str(path))
    assert caught.value.code == "X0201"  # that of all errors in reading a manifest
    assert caught.value.evidence.path == str(path)
    return caught.value


@pytest.mark.parametrize("size", [0, 1, 70_000, MANIFEST_BYTES])
def test_a_file_is_read_whole(tmp_path: Path, size: int) -> None:
    file = tmp_path / "m"
    file.write_bytes(os.urandom(size))
    assert read_file(str(file)) == file.read_bytes()


def test_a_file_that_is_one_byte_too_large_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "m"
    file.write_bytes(b"x" * (MANIFEST_BYTES + 1))
    assert "larger" in read_error(file).message


def test_a_missing_file_is_none_instead_of_an_error(tmp_path: Path) -> None:
    assert read_file(str(tmp_path / "m")) is None


def test_a_pipe_without_a_writer_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "m")
    assert "regular file" in read_error(tmp_path / "m").message


def test_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    assert "regular file" in read_error(tmp_path / "m").message


def test_a_link_to_a_valid_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"x")
    (tmp_path / "m").symlink_to("real")
    assert "link" in read_error(tmp_path / "m").message


def test_a_file_whose_reported_size_is_zero_is_read() -> None:
    # Files of the kernel report the size 0, and any file can grow while it is read.
    assert Path("/proc/version").stat().st_size == 0
    assert read_file("/proc/version") == Path("/proc/version").read_bytes() != b""


def test_an_error_of_the_system_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The user root can read every file, so the error of the system is simulated.
    def refuse(path: str, flags: int) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    error = read_error(tmp_path / "m")
    monkeypatch.undo()
    assert "permission denied" in error.message


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(b"x")
    (tmp_path / "big").write_bytes(b"x" * (MANIFEST_BYTES + 1))
    before = sorted(os.listdir("/proc/self/fd"))  # noqa: PTH208
    read_file(str(tmp_path / "m"))
    read_error(tmp_path / "big")
    read_error(tmp_path)
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
def test_is_inside_compares_whole_names(path: str, folder: str, inside: bool) -> None:
    assert is_inside(path, folder) is inside
