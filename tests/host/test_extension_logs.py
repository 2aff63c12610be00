"""Logs that outlive their extensions: whole lines, two files at most, no harm to the host."""

import asyncio
import logging
import shutil
import stat
from pathlib import Path

import pytest

from exthost.events import Bus, LogLine, StateChanged
from exthost.host.extension_logs import FILE_BYTES, ExtensionLogs, format_entry, rotated_path


def line(text: str, extension: str = "a") -> LogLine:
    return LogLine(extension, "stderr", logging.INFO, text)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_record_is_a_line_for_any_text_and_level() -> None:
    assert format_entry(0.0015, logging.INFO, "stderr", "x y") == (
        b"1970-01-01T00:00:00.001Z info stderr x y\n"
    )
    assert format_entry(0, 25, "log", "a\nb") == (
        b"1970-01-01T00:00:00.000Z level-25 log a\n1970-01-01T00:00:00.000Z level-25 log b\n"
    )
    assert format_entry(0, logging.INFO, "log", "\ud800").endswith(b" \\ud800\n")


async def test_each_extension_has_its_own_file_for_its_owner_alone(tmp_path: Path) -> None:
    bus = Bus()
    logs = ExtensionLogs(bus, lambda extension: str(tmp_path / "logs" / f"{extension}.log"))
    bus.publish(line("from a"))
    bus.publish(line("from b", "b"))
    logs.close()
    file = tmp_path / "logs" / "a.log"
    assert file.read_text().endswith("info stderr from a\n")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "from b" in (tmp_path / "logs" / "b.log").read_text()
    assert not bus.listeners


async def test_a_flood_costs_two_files_and_keeps_the_last_lines(tmp_path: Path) -> None:
    bus = Bus()
    file = tmp_path / "a.log"
    logs = ExtensionLogs(bus, lambda _: str(file))
    for n in range(60):
        for m in range(100):
            bus.publish(line(f"{n}.{m} " + "x" * 1000))
        logs._write_pending()
    bus.publish(line("the end"))
    logs.close()
    assert names_in(tmp_path) == ["a.log", "a.log.1"]
    assert file.stat().st_size <= FILE_BYTES and rotated_path(file).stat().st_size <= FILE_BYTES
    kept = (rotated_path(file).read_text() + file.read_text()).splitlines()
    assert kept[-1].endswith("the end")
    numbers = [tuple(map(int, item.split(" ")[3].split("."))) for item in kept[:-1]]
    everything = [(n, m) for n in range(60) for m in range(100)]
    assert numbers == everything[-len(numbers) :] and len(numbers) > 900


async def test_more_in_one_tick_than_a_file_can_take_is_cut_to_whole_lines(tmp_path: Path) -> None:
    bus = Bus()
    file = tmp_path / "a.log"
    logs = ExtensionLogs(bus, lambda _: str(file))
    for n in range(2000):
        bus.publish(line(f"{n} " + "x" * 1000))
    logs.close()
    kept = file.read_text().splitlines()
    assert FILE_BYTES * 0.9 < file.stat().st_size <= FILE_BYTES
    assert [int(item.split(" ")[3]) for item in kept] == list(range(2000 - len(kept), 2000))


async def test_a_later_host_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    for n in range(2):
        bus = Bus()
        logs = ExtensionLogs(bus, lambda _: str(tmp_path / "a.log"))
        bus.publish(line(f"run {n}"))
        logs.close()
    assert [item[-5:] for item in (tmp_path / "a.log").read_text().splitlines()] == [
        "run 0",
        "run 1",
    ]


async def test_a_log_that_cannot_be_kept_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "logs").write_text("not a folder")
    bus = Bus()
    logs = ExtensionLogs(bus, lambda _: str(tmp_path / "logs" / "a.log"))
    for _ in range(3):
        bus.publish(line("x"))
        logs._write_pending()
    logs.close()
    assert caplog.text.count("is not kept") == 1


async def test_a_log_goes_on_when_its_folder_can_be_used_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "logs"
    folder.write_text("not a folder")
    bus = Bus()
    logs = ExtensionLogs(bus, lambda _: str(folder / "a.log"))
    for text in ("lost", "kept", "kept too"):
        bus.publish(line(text))
        logs._write_pending()
        if folder.is_file():
            folder.unlink()
    logs.close()
    assert [item[-5:] for item in (folder / "a.log").read_text().splitlines()] == [" kept", "t too"]
    assert caplog.text.count("is not kept") == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
async def test_a_full_disk_is_logged_once_and_keeps_nothing_in_memory(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bus = Bus()
    logs = ExtensionLogs(bus, lambda _: "/dev/full")
    for n in range(3):
        bus.publish(line(f"{n} " + "x" * 100_000))
        logs._write_pending()
    logs.close()
    assert caplog.text.count("is not kept: No space left on device") == 1


async def test_sizes_are_counted_in_bytes(tmp_path: Path) -> None:
    bus = Bus()
    file = tmp_path / "a.log"
    logs = ExtensionLogs(bus, lambda _: str(file))
    for n in range(30):
        bus.publish(line(f"{n} " + "é" * 50_000))
        logs._write_pending()
    logs.close()
    assert names_in(tmp_path) == ["a.log", "a.log.1"]
    for item in (file, rotated_path(file)):
        assert FILE_BYTES * 0.8 < item.stat().st_size <= FILE_BYTES


async def test_a_link_in_place_of_the_log_is_not_followed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a.log").symlink_to(tmp_path / "other")
    bus = Bus()
    logs = ExtensionLogs(bus, lambda _: str(tmp_path / "a.log"))
    bus.publish(line("x"))
    logs.close()
    assert not (tmp_path / "other").exists() and "is not kept" in caplog.text


@pytest.mark.parametrize("is_moved", [False, True])
async def test_a_file_that_was_deleted_or_moved_is_made_again(
    tmp_path: Path, is_moved: bool
) -> None:
    bus = Bus()
    file = tmp_path / "logs" / "a.log"
    logs = ExtensionLogs(bus, lambda extension: str(file))
    bus.publish(line("first"))
    await asyncio.sleep(0)
    if is_moved:  # as logrotate does
        file.rename(tmp_path / "logs" / "old")
    else:
        shutil.rmtree(file.parent)
    bus.publish(line("second"))
    await asyncio.sleep(0)
    bus.publish(line("third"))
    logs.close()
    assert [item.split()[-1] for item in file.read_text().splitlines()] == ["second", "third"]


async def test_a_log_is_open_only_while_its_extension_has_a_process(tmp_path: Path) -> None:
    bus = Bus()
    file = tmp_path / "a.log"
    logs = ExtensionLogs(bus, lambda extension: str(file))

    def is_open() -> bool:
        descriptors = Path("/proc/self/fd").iterdir()
        return any(fd.is_symlink() and str(fd.readlink()) == str(file) for fd in descriptors)

    before, observed = "discovered", []
    for after in ("admitted", "starting", "ready", "draining", "stopped", "starting", "failed"):
        bus.publish(StateChanged("a", before, after, ""))
        bus.publish(line(f"in {after}"))
        await asyncio.sleep(0)
        before = after
        observed.append((after, is_open()))
    logs.close()
    assert [state for state, is_held in observed if is_held] == [
        "starting", "ready", "draining", "starting",
    ]  # fmt: skip
    assert file.read_text().count(" stderr in ") == len(observed)
