"""Finds the pages of memory that a forked process has copied because it wrote to them.

A page that a forked process writes to is copied first. A Python program writes to thousands of the
pages that it shares with its template, since each object has a reference count, and copying them
takes a third of its start. The pages are mostly the same in each process of a program, so the
process of a start that is made in advance can copy them (`WarmStart`).
"""

import os
import struct
from array import array

# How much mapped memory is looked at: a few milliseconds of work. A program can map more than it
# uses. Pages that are left out are copied later, when the program writes to them.
_MAX_BYTES = 256 * 2**20
_MAX_MAPPINGS_BYTES = 2**20

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

# The bits of an entry in /proc/PID/pagemap: the page is in memory, and no other process shares it.
_PRESENT, _EXCLUSIVE = 1 << 63, 1 << 56
_COPIED = _PRESENT | _EXCLUSIVE


def find_copied_pages(pid: int) -> bytes:
    """Return the address and size of each range of private, writable memory of a process that it
    shares with no other process, as packed numbers of 64 bits; b"" if the kernel does not show
    it."""
    try:
        with (
            open(f"/proc/{pid}/maps", "rb") as maps,  # noqa: PTH123 - as in `procfs`
            open(f"/proc/{pid}/pagemap", "rb", buffering=0) as pagemap,  # noqa: PTH123
        ):
            ranges = [
                found
                for start, end in _find_writable(maps.read(_MAX_MAPPINGS_BYTES))
                for found in _find_ranges(start, _read_entries(pagemap.fileno(), start, end))
            ]
    except (OSError, ValueError):  # the process has ended, or the kernel denies it
        return b""
    return b"".join(struct.pack("=QQ", *found) for found in ranges)


def _find_writable(maps: bytes) -> list[tuple[int, int]]:
    """Return start and end of the private, writable mappings, except the stack."""
    mappings, total = [], 0
    for line in maps.splitlines():
        fields = line.split(None, 5)
        if len(fields) < 5 or fields[1] not in (b"rw-p", b"rwxp") or b"[stack" in fields[-1]:
            continue
        start, end = (int(number, 16) for number in fields[0].split(b"-"))
        total += end - start
        if total > _MAX_BYTES:
            break
        mappings.append((start, end))
    return mappings


def _read_entries(pagemap: int, start: int, end: int) -> "array[int]":
    """Return the entries of the pages from one address to another: one number for each page."""
    entries = array("Q")
    size = (end - start) // _PAGE_BYTES * entries.itemsize
    data = os.pread(pagemap, size, start // _PAGE_BYTES * entries.itemsize)
    entries.frombytes(data)
    return entries


def _find_ranges(start: int, entries: "array[int]") -> list[tuple[int, int]]:
    """Return address and size of each range of copied pages in the mapping at `start`."""
    ranges: list[tuple[int, int]] = []
    first = -1
    for number, entry in enumerate(entries):
        is_copied = entry & _COPIED == _COPIED
        if is_copied and first < 0:
            first = number
        elif not is_copied and first >= 0:
            ranges.append((start + first * _PAGE_BYTES, (number - first) * _PAGE_BYTES))
            first = -1
    if first >= 0:
        ranges.append((start + first * _PAGE_BYTES, (len(entries) - first) * _PAGE_BYTES))
    return ranges
