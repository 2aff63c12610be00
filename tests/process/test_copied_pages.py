"""`find_copied_pages`: which pages of memory a forked process does not share with its parent.

A fork shares all pages until one of the processes writes to a page; the kernel then copies it. The
result is pairs of an address and a size in bytes. The host uses it for processes that it forks from
a template (a process that has imported the modules of an extension).
"""

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from exthost.process.copied_pages import find_copied_pages

PAGE = os.sysconf("SC_PAGE_SIZE")
PAGES = 64
WRITTEN = (3, 4, 5, 40)

# Forks a process that writes to some pages of its memory, and prints its pid and their address.
FORKED = f"""
import ctypes, mmap, os, sys
memory = mmap.mmap(-1, {PAGES * PAGE}, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory[:] = b"x" * {PAGES * PAGE}
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
if os.fork() == 0:
    for page in {WRITTEN}:
        memory[page * {PAGE}] = 0
    print(os.getpid(), address, flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(not Path("/proc/self/pagemap").exists(), reason="the kernel has no pagemap")
def test_pages_that_a_forked_process_has_written_to_are_found() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", FORKED], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        pid, address = map(int, process.stdout.readline().split())
        ranges = list(struct.iter_unpack("=QQ", find_copied_pages(pid)))
        process.stdin.close()
    end = address + PAGES * PAGE
    copied = [
        (start - address) // PAGE + page
        for start, size in ranges
        for page in range(size // PAGE)
        if address <= start + page * PAGE < end
    ]
    assert tuple(copied) == WRITTEN


def test_a_process_that_has_ended_has_no_pages() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait(30)
    assert find_copied_pages(process.pid) == b""


def test_a_large_mapping_is_left_out() -> None:
    """A program can map more memory than it has, and the host would look at all of it."""
    program = (  # 0x4000 is MAP_NORESERVE
        "import mmap, sys\n"
        "memory = mmap.mmap(-1, 2**40, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)\n"
        "print(flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdout.readline()
        sizes = [size for _, size in struct.iter_unpack("=QQ", find_copied_pages(process.pid))]
        process.stdin.close()
    assert sum(sizes) < 256 * 2**20
