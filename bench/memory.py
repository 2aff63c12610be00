"""The memory of this process, from /proc. Linux only: on other systems the rows are skipped."""

import gc
import resource
from pathlib import Path

from bench.row import NotHere

SELF = Path("/proc/self")
KIB = 1024
MIB = 1024 * 1024


def _field(file: str, name: str) -> int:
    try:
        text = (SELF / file).read_text()
    except OSError as error:
        raise NotHere(f"needs /proc/self/{file}") from error
    for line in text.splitlines():
        label, _, value = line.partition(":")
        if label == name:
            return int(value.split()[0]) * KIB
    raise NotHere(f"/proc/self/{file} has no {name}")


def resident() -> int:
    """Return the resident bytes, counted page by page: VmRSS of `status` may lag by some hundred
    KiB."""
    gc.collect()
    return _field("smaps_rollup", "Rss")


def forget_peak() -> int:
    """Reset the peak; return the resident bytes."""
    gc.collect()
    try:
        # proc(5): 5 resets the peak resident set size.
        (SELF / "clear_refs").write_text("5")
    except OSError as error:
        raise NotHere("cannot reset the peak in /proc/self/clear_refs") from error
    return _field("status", "VmHWM")


def peak() -> int:
    """Return the largest number of resident bytes since `forget_peak`."""
    return _field("status", "VmHWM")


def command_of(pid: int) -> list[str]:
    """Return the command of a process."""
    return Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0").split("\0")


def resident_of(pid: int) -> int:
    """Return the resident bytes of a process."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Rss:"):
            return int(line.split()[1]) * KIB
    raise NotHere(f"/proc/{pid}/smaps_rollup has no Rss")


def allow_files(count: int) -> None:
    """Raise the soft limit of open files: hundreds of children need several each."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        raise NotHere(f"needs {count} open files, the hard limit is {hard}")
    if soft != resource.RLIM_INFINITY and soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
