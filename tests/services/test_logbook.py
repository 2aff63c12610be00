"""The log that outlives its extension: whole lines, two files at most, never the host's problem."""

import logging
import stat
from pathlib import Path

import pytest

from exthost.events import Bus, LogLine
from exthost.services.logbook import FILE_BYTES, Logbook, older, record


def line(text: str, extension: str = "a") -> LogLine:
    return LogLine(extension, "stderr", logging.INFO, text)


def names_in(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


def test_a_record_is_a_line_whatever_the_text_and_the_level() -> None:
    assert record(0.0015, logging.INFO, "stderr", "x y") == (
        b"1970-01-01T00:00:00.001Z info stderr x y\n"
    )
    assert record(0, 25, "log", "a\nb") == (
        b"1970-01-01T00:00:00.000Z level-25 log a\n1970-01-01T00:00:00.000Z level-25 log b\n"
    )
    assert record(0, logging.INFO, "log", "\ud800").endswith(b" \\ud800\n")


async def test_each_extension_has_its_own_file_for_its_owner_alone(tmp_path: Path) -> None:
    bus = Bus()
    book = Logbook(bus, lambda extension: str(tmp_path / "logs" / f"{extension}.log"))
    bus.publish(line("from a"))
    bus.publish(line("from b", "b"))
    book.close()
    file = tmp_path / "logs" / "a.log"
    assert file.read_text().endswith("info stderr from a\n")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "from b" in (tmp_path / "logs" / "b.log").read_text()
    assert not bus.kinds


async def test_a_flood_costs_two_files_and_keeps_the_last_lines(tmp_path: Path) -> None:
    bus = Bus()
    file = tmp_path / "a.log"
    book = Logbook(bus, lambda _: str(file))
    for n in range(60):
        for m in range(100):
            bus.publish(line(f"{n}.{m} " + "x" * 1000))
        book._write()
    bus.publish(line("the end"))
    book.close()
    assert names_in(tmp_path) == ["a.log", "a.log.1"]
    assert file.stat().st_size <= FILE_BYTES and older(file).stat().st_size <= FILE_BYTES
    kept = (older(file).read_text() + file.read_text()).splitlines()
    assert kept[-1].endswith("the end")
    numbers = [tuple(map(int, one.split(" ")[3].split("."))) for one in kept[:-1]]
    everything = [(n, m) for n in range(60) for m in range(100)]
    assert numbers == everything[-len(numbers) :] and len(numbers) > 900


async def test_more_in_one_tick_than_a_file_holds_is_cut_to_whole_lines(tmp_path: Path) -> None:
    bus = Bus()
    file = tmp_path / "a.log"
    book = Logbook(bus, lambda _: str(file))
    for n in range(2000):
        bus.publish(line(f"{n} " + "x" * 1000))
    book.close()
    kept = file.read_text().splitlines()
    assert FILE_BYTES * 0.9 < file.stat().st_size <= FILE_BYTES
    assert [int(one.split(" ")[3]) for one in kept] == list(range(2000 - len(kept), 2000))


async def test_a_later_host_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    for n in range(2):
        bus = Bus()
        book = Logbook(bus, lambda _: str(tmp_path / "a.log"))
        bus.publish(line(f"run {n}"))
        book.close()
    assert [one[-5:] for one in (tmp_path / "a.log").read_text().splitlines()] == ["run 0", "run 1"]


async def test_a_log_that_cannot_be_kept_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "logs").write_text("not a folder")
    bus = Bus()
    book = Logbook(bus, lambda _: str(tmp_path / "logs" / "a.log"))
    for _ in range(3):
        bus.publish(line("x"))
        book._write()
    book.close()
    assert caplog.text.count("is not kept") == 1
