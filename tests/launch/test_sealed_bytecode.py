"""The compiled modules of a locked package are stored only in the folder that is made for them.

The interpreter that compiles them may be a program of the package, which can write anything: lines
of JSON, `[folder, name, size]`, each followed by a module of that size.
"""

import io
import json
import os
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

import pytest

from exthost.launch import bytecode_compiler
from exthost.launch.sealed_bytecode import _store

PACKAGE = "/srv/demo"
CACHED = "helper.cpython-311.pyc"


def store(tmp_path: Path, *rows: Any, data: bytes = b"") -> Path:
    """Store the output of a compiler, which consists of these rows and this module."""
    lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
    result = tmp_path / "state" / "sealed-0"
    output = b"".join(line + b"\n" for line in lines) + data
    _store(result, output, PACKAGE, {f"{PACKAGE}/helper.py"})
    return result


def test_a_module_and_a_link_to_one_of_the_standard_library_are_stored(tmp_path: Path) -> None:
    rows = (["/usr/lib/python3", "", None], [PACKAGE, CACHED, 3])
    result = store(tmp_path, *rows, data=b"abc")
    assert (result / "srv/demo" / CACHED).read_bytes() == b"abc"
    assert str((result / "usr/lib/python3").readlink()) == "/usr/lib/python3/__pycache__"


@pytest.mark.parametrize(
    "row",
    [
        ["../../out", CACHED, None],
        ["/../out", CACHED, None],
        ["/a", "../b", None],
        [PACKAGE, CACHED, -60],
        [PACKAGE, CACHED, "3"],
        [PACKAGE, None, 3],
        [PACKAGE],
        7,
        b"[" * 100_000,
    ],
)
def test_a_wrong_line_is_an_error_and_nothing_is_stored(tmp_path: Path, row: Any) -> None:
    with pytest.raises(ValueError, match=r"wrong line|unpack"):
        store(tmp_path, row)
    assert [path.name for path in tmp_path.rglob("*")] == ["state"]


def test_nothing_is_written_below_a_stored_link(tmp_path: Path) -> None:
    outside = tmp_path / "lib"
    (outside / "__pycache__").mkdir(parents=True)
    rows = ([str(outside), "", None], [f"{outside}/further", "x", None])
    with pytest.raises(ValueError, match="not a module"):
        store(tmp_path, *rows)
    assert not [*(outside / "__pycache__").iterdir()]


def test_a_pipe_in_the_place_of_a_module_is_left_out(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "module.py").touch()
    for name in ("pipe.py", "module.py"):
        compiled = Path(cache_from_source(str(tmp_path / name)))
        compiled.parent.mkdir(exist_ok=True)
        compiled.touch()
    output = io.BytesIO()
    bytecode_compiler.main(str(tmp_path), output)
    assert b'"module.' in output.getvalue() and b'"pipe.' not in output.getvalue()
