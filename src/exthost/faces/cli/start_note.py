"""Prints a message on the terminal if an extension is slow to start, so that the person who waits
knows what for. Verbs that start an extension use it as a `with` block around the start."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from exthost.faces.cli.common import say

# The time after which the message is printed.
NOTE_SECONDS = 1.0


@contextmanager
def start_note(name: str, seconds: float = NOTE_SECONDS) -> Iterator[None]:
    """Print to stderr that the extension of this name is being started, if the block takes longer
    than `seconds`. Print nothing if stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    with delayed_note(f"starting {name} …", seconds):
        yield


@contextmanager
def delayed_note(text: str, seconds: float) -> Iterator[None]:
    """Print the text to stderr if the block takes longer than `seconds`."""
    timer = asyncio.get_running_loop().call_later(seconds, say, text)
    try:
        yield
    finally:
        timer.cancel()
