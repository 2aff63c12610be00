"""Reading the beginning of a file that an untrusted package may have written.

The file may be huge, or a pipe that never ends, so the host reads a limited number of bytes, and
only from a regular file.
"""

import os
from pathlib import Path

import pytest

from exthost.process.small_files import first_words, read_start


def test_no_more_than_the_limit_is_read(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(b"0123456789")
    os.truncate(path, 2**40)
    assert read_start(str(path), 10) == b"0123456789"


def test_a_file_that_is_not_regular_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name in ("pipe", "zero", "."):
        with pytest.raises(OSError, match=r"not a regular file|directory"):
            read_start(str(tmp_path / name), 10)
        assert first_words(str(tmp_path / name)) == []


def test_the_words_of_a_shebang_line_are_returned(tmp_path: Path) -> None:
    path = tmp_path / "script"
    path.write_bytes(b"#! /usr/bin/env  -S python3 -u\nprint()\n")
    assert first_words(str(path)) == ["/usr/bin/env", "-S", "python3", "-u"]
    path.write_bytes(b"print()\n")
    assert first_words(str(path)) == []
