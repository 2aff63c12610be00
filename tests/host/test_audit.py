"""The audit file: one line of JSON for each record, and reported errors.

An extension chooses some of the names and texts in a record, and must not end a line with them.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from exthost.events import Bus
from exthost.host.audit import Audit


def record(name: str) -> dict[str, Any]:
    return {"extension": name, "context": None}


@pytest.mark.parametrize("end", ["\n", "\r", "\v", "\f", "\x1c", "\x85", "\u2028", "\u2029", "\0"])
def test_no_name_ends_a_line_or_controls_a_terminal(tmp_path: Path, end: str) -> None:
    name = f'a{end}{{"extension":"forged"}}{end}\x1b[2J\x9b2J\u202e\ud800'
    audit = Audit(str(tmp_path / "audit"), Bus())
    for _ in range(2):
        audit.write(record(name))
    audit.close()
    text = (tmp_path / "audit").read_text()
    assert [json.loads(line) for line in text.splitlines()] == [record(name)] * 2
    assert text.isascii() and text.replace("\n", "").isprintable()


def test_a_line_that_is_cut_off_is_reported_and_the_next_one_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    audit = Audit(str(tmp_path / "audit"), Bus())
    write = os.write
    with monkeypatch.context() as patch:  # the disk is full after some bytes
        patch.setattr(os, "write", lambda fd, line: write(fd, line[:5]))
        audit.write(record("cut"))
    audit.write(record("whole"))
    audit.close()
    assert "is cut off" in caplog.text
    cut, whole = (tmp_path / "audit").read_text().splitlines()
    assert (len(cut), json.loads(whole)) == (5, record("whole"))
