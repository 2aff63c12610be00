"""The picture of the speed shows the measured clients as shares of exthost."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench.picture import describe_noise, main, make_bars


def write_run(path: Path, *values: tuple[str, float | None]) -> Path:
    """Write a run with these rows and values, as `python -m bench --json` does."""
    rows = [
        {"key": key, "value": value, "quartiles": [value, value and 2 * value]}
        for key, value in values
    ]
    path.write_text(json.dumps({"rows": rows}))
    return path


def test_a_client_that_is_half_as_fast_has_half_a_bar(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run.json", ("peer-mcp-rust", 2.0), ("peer-mcp-node", None))
    picture = tmp_path / "bench.svg"
    assert main([str(run), str(picture)]) == 0
    svg = ElementTree.fromstring(picture.read_text())
    _, own, rust = (float(bar.attrib["width"]) for bar in svg.iter() if bar.tag.endswith("rect"))
    assert rust == pytest.approx(own / 2, abs=0.1)
    texts = [text.text for text in svg.iter() if text.tag.endswith("text")]
    assert texts[1:] == ["exthost", "1", "Rust SDK (rmcp)", "0.5 of exthost"]


def test_a_faster_client_is_drawn_first(tmp_path: Path) -> None:
    rows = {"peer-mcp-go": {"value": 0.5, "quartiles": [None, None]}}
    assert [bar.label for bar in make_bars(rows)] == ["Go SDK", "exthost"]


def test_the_picture_says_how_much_other_programs_used() -> None:
    row = {"value": 2.0, "quartiles": [None, None]}
    assert describe_noise({"peer-mcp-go": {**row, "other_work": 0.04}}) == ""
    note = describe_noise({"peer-mcp-go": {**row, "other_work": 0.7}})
    assert note == "Other programs used up to 70% of the cores during the run."


def test_a_run_without_other_clients_makes_no_picture(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run.json", ("help", 2.0))
    assert main([str(run), str(tmp_path / "bench.svg")]) == 1
    assert not (tmp_path / "bench.svg").exists()
