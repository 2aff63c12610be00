"""Tests of `bench/picture.py`, which draws the picture of the speed in the README (an SVG).

It shows calls per second, and the time of a start, of other MCP clients beside those of exthost.
The value of a row is the ratio of the other client's time to that of exthost (`subject_s`). The
data of the committed picture are beside it (`docs/images/bench.json`).
"""

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from bench.picture import describe_noise, draw, main, make_notes, make_panels, reduce_run

IMAGES = Path(__file__).parent.parent.parent / "docs" / "images"
MACHINE = {"processor": "Chip", "system": "Linux x86_64", "cores": "2", "python": "3.14.1"}


def make_row(key: str, value: float | None, subject_s: float = 1e-4) -> dict[str, Any]:
    """Return a row as `python -m bench --json` prints it. With the default of `subject_s`, exthost
    makes 10,000 calls per second."""
    return {"key": key, "value": value, "subject_s": subject_s, "other_work": 0.0, "unit": "x"}


def make_run(*rows: dict[str, Any]) -> dict[str, Any]:
    """Return the --json output of a run with these rows."""
    return {"machine": {**MACHINE, "kernel": "6.1-secret"}, "rows": list(rows), "ok": True}


def write_run(path: Path, *rows: dict[str, Any]) -> Path:
    """Write the --json output of a run with these rows."""
    path.write_text(json.dumps(make_run(*rows)))
    return path


def read_texts(svg: str) -> list[str | None]:
    """Return the texts of a picture, in order."""
    return [text.text for text in ElementTree.fromstring(svg).iter() if text.tag.endswith("text")]


def test_a_client_that_takes_twice_the_time_makes_half_the_calls() -> None:
    run = make_run(make_row("peer-mcp-rust", 2.0), make_row("peer-mcp-node", None))
    svg = draw(reduce_run(run))
    rects = (e for e in ElementTree.fromstring(svg).iter() if e.tag.endswith("rect"))
    _, own, rust = (float(rect.attrib["width"]) for rect in rects)
    assert rust == pytest.approx(own / 2, abs=0.1)
    assert read_texts(svg)[2:6] == ["exthost", "10,000", "Rust SDK (rmcp)", "5,000"]


def test_the_fastest_is_first_in_both_charts() -> None:
    rows = [make_row("peer-mcp-go", 0.5), make_row("peer-start-go", 0.25, subject_s=4e-3)]
    calls, starts = make_panels(reduce_run(make_run(*rows)))
    assert [(bar.label, round(bar.value)) for bar in calls.bars] == [
        ("Go SDK", 20_000),
        ("exthost", 10_000),
    ]
    assert [(bar.label, round(bar.value)) for bar in starts.bars] == [("Go SDK", 1), ("exthost", 4)]


def test_a_repeated_row_shows_its_median_and_its_extremes() -> None:
    rows = [make_row("peer-start-go", value, subject_s=1e-3) for value in (3.0, 2.0, 5.0)]
    [starts] = make_panels(reduce_run(make_run(*rows)))
    [_, bar] = starts.bars
    assert (bar.low, bar.value, bar.high) == pytest.approx((2, 3, 5))


def test_the_notes_name_the_machine_and_the_number_of_measurements() -> None:
    rows = [make_row("peer-mcp-go", 2.0)] * 5
    notes = make_notes(reduce_run(make_run(*rows)))
    assert any(note.startswith("Each client was measured 5 times, in turn") for note in notes)
    assert "Linux x86_64, 2 cores (Chip), Python 3.14.1." in notes


def test_the_picture_says_how_much_other_programs_used() -> None:
    row = make_row("peer-mcp-go", 2.0)
    assert describe_noise(reduce_run(make_run({**row, "other_work": 0.04}))) == ""
    busy = make_run({**row, "other_work": 0.7})
    note = "Other programs used up to 70% of the cores during the run."
    assert describe_noise(reduce_run(busy)) == note
    busy["machine"]["priority"] = "niceness -15"
    assert describe_noise(reduce_run(busy)).endswith("Priority of the clients: niceness -15.")


def test_calls_and_starts_of_different_runs_make_one_picture(tmp_path: Path) -> None:
    calls = write_run(tmp_path / "calls.json", make_row("peer-mcp-go", 2.0))
    starts = write_run(tmp_path / "starts.json", make_row("peer-start-go", 0.5))
    picture = tmp_path / "bench.svg"
    assert main([str(calls), str(starts), str(picture)]) == 0
    assert read_texts(picture.read_text()).count("Go SDK") == 2


def test_the_data_beside_a_picture_makes_the_same_picture(tmp_path: Path) -> None:
    rows = [make_row("peer-mcp-rust", 2.123456), make_row("peer-start-go", 0.3), make_row("x", 1)]
    run, first, second = (tmp_path / name for name in ("run.json", "first.svg", "second.svg"))
    assert main([str(write_run(run, *rows)), str(first)]) == 0
    data = first.with_suffix(".json")
    assert "secret" not in data.read_text()
    assert main([str(data), str(second)]) == 0
    assert second.read_text() == first.read_text()
    assert second.with_suffix(".json").read_text() == data.read_text()


def test_a_run_without_other_clients_makes_no_picture(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run.json", make_row("help", 2.0))
    assert main([str(run), str(tmp_path / "bench.svg")]) == 1
    assert not (tmp_path / "bench.svg").exists()


def test_the_committed_picture_is_the_one_of_its_data(tmp_path: Path) -> None:
    assert main([str(IMAGES / "bench.json"), str(tmp_path / "bench.svg")]) == 0
    for name in ("bench.svg", "bench.json"):
        assert (tmp_path / name).read_text() == (IMAGES / name).read_text(), "make bench-picture"


def test_the_committed_picture_names_every_client_and_no_path() -> None:
    svg = (IMAGES / "bench.svg").read_text()
    texts = read_texts(svg)
    for client in ("exthost", "Rust SDK (rmcp)", "Go SDK", "mcp-go", "Node SDK", "Python SDK"):
        assert texts.count(client) == 2, client
    assert texts.count("FastMCP") == 2
    contents = svg.replace("http://www.w3.org/2000/svg", "") + (IMAGES / "bench.json").read_text()
    assert not re.search(r"(?<!<)/(?:\w+/)+|\.local\b|://", contents)
