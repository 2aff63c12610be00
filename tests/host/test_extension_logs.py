"""Log files of extensions: complete lines, two files at most, and errors do not affect the host.

The host writes what an extension prints on stderr to a file such as `weather.log`. When the file
has reached FILE_BYTES, it is renamed to `weather.log.1`, and a new one is begun. The host collects
lines, and writes them in the next iteration of the event loop (`_write_pending`).
"""

import asyncio
import errno
import logging
import os
import shutil
import stat
from pathlib import Path

import pytest

from exthost.events import Bus, Exited, LogLine, Spawned, StateChanged
from exthost.host.extension_logs import FILE_BYTES, ExtensionLogs, format_entry, rotated_path


def log_line(text: str, extension: str = "a") -> LogLine:
    return LogLine(extension, "stderr", logging.INFO, text)


def file_names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_an_entry_is_a_line_for_any_text_and_level() -> None:
    assert format_entry(0.0015, logging.INFO, "stderr", "x y") == (
        b"1970-01-01T00:00:00.001Z info stderr x y\n"
    )
    assert format_entry(0, 25, "log", "a\nb") == (
        b"1970-01-01T00:00:00.000Z level-25 log a\n1970-01-01T00:00:00.000Z level-25 log b\n"
    )
    assert format_entry(0, logging.INFO, "log", "\ud800").endswith(b" \\ud800\n")


async def test_each_extension_has_a_file_that_only_its_owner_can_read(tmp_path: Path) -> None:
    bus = Bus()
    logs = ExtensionLogs(bus, lambda extension: str(tmp_path / "logs" / f"{extension}.log"))
    bus.publish(log_line("from a"))
    bus.publish(log_line("from b", "b"))
    logs.close()
    file = tmp_path / "logs" / "a.log"
    assert file.read_text().endswith("info stderr from a\n")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "from b" in (tmp_path / "logs" / "b.log").read_text()
    assert not bus.listeners


async def test_lines_about_processes_on_other_nodes_name_the_node(tmp_path: Path) -> None:
    bus = Bus()
    file = tmp_path / "a.log"
    logs = ExtensionLogs(bus, lambda _: str(file))
    bus.publish(LogLine("a", "stderr", logging.INFO, "hello", "node 7"))
    bus.publish(Spawned("a", 11, ("/bin/x", "secret"), node="node-7"))
    bus.publish(Exited("a", 11, "exited with 0", node="node-7"))
    logs.close()
    assert [line.split(" ", 2)[2] for line in file.read_text().splitlines()] == [
        "stderr@node_7 hello",
        "exthost process 11 on node node-7: /bin/x",
        "exthost process 11 on node node-7 exited with 0",
    ]


async def test_a_flood_of_lines_fills_two_files_and_keeps_the_last_lines(tmp_path: Path) -> None:
    bus = Bus()
    file = tmp_path / "a.log"
    logs = ExtensionLogs(bus, lambda _: str(file))
    for n in range(60):
        for m in range(100):
            bus.publish(log_line(f"{n}.{m} " + "x" * 1000))
        logs._write_pending()
    bus.publish(log_line("the end"))
    logs.close()
    assert file_names(tmp_path) == ["a.log", "a.log.1"]
    assert file.stat().st_size <= FILE_BYTES and rotated_path(file).stat().st_size <= FILE_BYTES
    lines = (rotated_path(file).read_text() + file.read_text()).splitlines()
    assert lines[-1].endswith("the end")
    # The fourth word of a line is its number, such as 59.99.
    numbers = [tuple(map(int, line.split(" ")[3].split("."))) for line in lines[:-1]]
    all_numbers = [(n, m) for n in range(60) for m in range(100)]
    # The two files together have more than 900 lines of 1000 bytes.
    assert numbers == all_numbers[-len(numbers) :] and len(numbers) > 900


async def test_a_write_larger_than_a_file_is_cut_to_complete_lines(tmp_path: Path) -> None:
    bus = Bus()
    file = tmp_path / "a.log"
    logs = ExtensionLogs(bus, lambda _: str(file))
    for n in range(2000):
        bus.publish(log_line(f"{n} " + "x" * 1000))
    logs.close()
    lines = file.read_text().splitlines()
    assert FILE_BYTES * 0.9 < file.stat().st_size <= FILE_BYTES
    assert [int(item.split(" ")[3]) for item in lines] == list(range(2000 - len(lines), 2000))


async def test_a_later_host_appends_to_the_log(tmp_path: Path) -> None:
    for n in range(2):
        bus = Bus()
        logs = ExtensionLogs(bus, lambda _: str(tmp_path / "a.log"))
        bus.publish(log_line(f"run {n}"))
        logs.close()
    first, second = (tmp_path / "a.log").read_text().splitlines()
    assert first.endswith("run 0") and second.endswith("run 1")


async def test_a_log_that_cannot_be_written_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "logs").write_text("not a folder")
    bus = Bus()
    logs = ExtensionLogs(bus, lambda _: str(tmp_path / "logs" / "a.log"))
    for _ in range(3):
        bus.publish(log_line("x"))
        logs._write_pending()
    logs.close()
    assert caplog.text.count("is not kept") == 1


async def test_a_log_continues_when_its_folder_can_be_used_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "logs"
    folder.write_text("not a folder")
    bus = Bus()
    logs = ExtensionLogs(bus, lambda _: str(folder / "a.log"))
    for text in ("lost", "kept", "kept too"):
        bus.publish(log_line(text))
        logs._write_pending()
        if folder.is_file():
            folder.unlink()
    logs.close()
    note, kept, also_kept = (folder / "a.log").read_text().splitlines()
    assert "lines before this one were lost (1): " in note and "is not a folder" in note
    assert kept.endswith(" kept") and also_kept.endswith(" kept too")
    assert caplog.text.count("is not kept") == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
async def test_a_full_disk_is_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bus = Bus()
    logs = ExtensionLogs(bus, lambda _: "/dev/full")
    for n in range(3):
        bus.publish(log_line(f"{n} " + "x" * 100_000))
        logs._write_pending()
    logs.close()
    assert caplog.text.count("is not kept: No space left on device") == 1


async def test_a_line_that_fits_only_in_part_is_not_kept_and_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = 120  # bytes; the first line fits
    really_write = os.write

    def write_what_fits(fd: int, data: memoryview) -> int:
        nonlocal room
        if room == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        count = really_write(fd, data[:room])
        room -= count
        return count

    monkeypatch.setattr(os, "write", write_what_fits)
    bus = Bus()
    logs = ExtensionLogs(bus, lambda _: str(tmp_path / "a.log"))
    for text in ("kept", "x" * 100, "lost"):
        bus.publish(log_line(text))
    logs._write_pending()
    room = 10_000
    bus.publish(log_line("last"))
    logs._write_pending()
    logs.close()
    first, note, last = (tmp_path / "a.log").read_text().splitlines()
    assert first.endswith(" kept") and last.endswith(" last")
    assert "lines before this one were lost (2): No space left on device" in note


async def test_sizes_are_counted_in_bytes(tmp_path: Path) -> None:
    bus = Bus()
    file = tmp_path / "a.log"
    logs = ExtensionLogs(bus, lambda _: str(file))
    for n in range(30):
        bus.publish(log_line(f"{n} " + "é" * 50_000))
        logs._write_pending()
    logs.close()
    assert file_names(tmp_path) == ["a.log", "a.log.1"]
    for item in (file, rotated_path(file)):
        assert FILE_BYTES * 0.8 < item.stat().st_size <= FILE_BYTES


async def test_a_link_in_place_of_the_log_is_not_followed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a.log").symlink_to(tmp_path / "other")
    bus = Bus()
    logs = ExtensionLogs(bus, lambda _: str(tmp_path / "a.log"))
    bus.publish(log_line("x"))
    logs.close()
    assert not (tmp_path / "other").exists() and "is not kept" in caplog.text


@pytest.mark.parametrize("is_moved", [False, True])
async def test_a_file_that_was_deleted_or_moved_is_created_again(
    tmp_path: Path, is_moved: bool
) -> None:
    bus = Bus()
    file = tmp_path / "logs" / "a.log"
    logs = ExtensionLogs(bus, lambda extension: str(file))
    bus.publish(log_line("first"))
    await asyncio.sleep(0)
    if is_moved:  # logrotate does this
        file.rename(tmp_path / "logs" / "old")
    else:
        shutil.rmtree(file.parent)
    bus.publish(log_line("second"))
    await asyncio.sleep(0)
    bus.publish(log_line("third"))
    logs.close()
    assert [item.split()[-1] for item in file.read_text().splitlines()] == ["second", "third"]


async def test_a_log_is_open_only_while_its_extension_has_a_process(tmp_path: Path) -> None:
    bus = Bus()
    file = tmp_path / "a.log"
    logs = ExtensionLogs(bus, lambda extension: str(file))

    def is_open() -> bool:
        descriptors = Path("/proc/self/fd").iterdir()
        return any(fd.is_symlink() and str(fd.readlink()) == str(file) for fd in descriptors)

    before, is_open_by_state = "discovered", []
    for after in ("admitted", "starting", "ready", "draining", "stopped", "starting", "failed"):
        bus.publish(StateChanged("a", before, after, ""))
        bus.publish(log_line(f"in {after}"))
        await asyncio.sleep(0)
        before = after
        is_open_by_state.append((after, is_open()))
    logs.close()
    assert [state for state, was_open in is_open_by_state if was_open] == [
        "starting", "ready", "draining", "starting",
    ]  # fmt: skip
    assert file.read_text().count(" stderr in ") == len(is_open_by_state)
