"""Parses durations ("500ms") into seconds, and sizes ("256MiB") into bytes.

The readers of configs and the `--timeout` of the command line use these functions. They raise
UnitError, whose message repeats the value and shows the accepted forms.

They calculate with fractions until the last step, so "0.1s" is the same float as 0.1.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fractions import Fraction

_MILLISECONDS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}

_BYTES = {
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}

# [0-9] and not \d, which would also match the digits of other scripts.
_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([A-Za-z]+)")

# A longer text is rejected, because arithmetic with a megabyte of digits would take very long.
_MAX_TEXT_CHARS = 40

# Ten years. The timers of event loops overflow with much longer times.
MAX_SECONDS = 10 * 365 * 24 * 3600

# Resource limits are signed 64-bit numbers in the kernel.
MAX_BYTES = 2**63 - 1

_DURATION_HELP = 'write "500ms", "1s", "2m" or "1h", or a number of seconds'
_SIZE_HELP = 'write "256MB" (10^6), "256MiB" (2^20) or a whole number of bytes'


class UnitError(ValueError):
    """Raised for a value that is not a duration, or not a size. The message is a whole sentence."""


def parse_seconds(value: object) -> float:
    """Return a duration in seconds. It may be text with a unit, or a number of seconds."""
    if isinstance(value, str):
        milliseconds = _parse_quantity(value, _MILLISECONDS)
        if milliseconds is None:
            raise UnitError(f"{_format(value)} is not a duration: {_DURATION_HELP}")
        quantity = milliseconds / 1000
    elif isinstance(value, int | float) and not isinstance(value, bool):
        if isinstance(value, float) and math.isnan(value):
            raise UnitError(f"nan is not a duration: {_DURATION_HELP}")
        if value < 0:
            raise UnitError(f"{_format(value)} is negative, a duration is not: {_DURATION_HELP}")
        if value > MAX_SECONDS:
            raise UnitError(f"{_format(value)} is more than ten years: {_DURATION_HELP}")
        # After the comparisons, because float() raises for an integer of 400 digits.
        return float(value)
    else:
        raise UnitError(f"{_describe_type(value)} is not a duration: {_DURATION_HELP}")
    if quantity > MAX_SECONDS:
        raise UnitError(f"{_format(value)} is more than ten years: {_DURATION_HELP}")
    return float(quantity)


def parse_size(value: object) -> int:
    """Return a size in bytes. It may be text with a unit, or a whole number of bytes."""
    if isinstance(value, str):
        quantity = _parse_quantity(value, _BYTES)
        if quantity is None:
            raise UnitError(f"{_format(value)} is not a size: {_SIZE_HELP}")
        if quantity.denominator != 1:
            raise UnitError(f"{_format(value)} is not a whole number of bytes: {_SIZE_HELP}")
        amount = int(quantity)
    elif isinstance(value, int) and not isinstance(value, bool):
        amount = int(value)
    else:
        raise UnitError(f"{_describe_type(value)} is not a size: {_SIZE_HELP}")
    if amount < 0:
        raise UnitError(f"{_format(value)} is negative, a size is not: {_SIZE_HELP}")
    if amount > MAX_BYTES:
        raise UnitError(f"{_format(value)} is more than any machine has: {_SIZE_HELP}")
    return amount


def format_number(value: float) -> str:
    """Return a number with all of its digits, as a config has it: 1800000 instead of 1.8e+06, and
    60 instead of 60.0."""
    # An integer can be too large for a float.
    is_whole = isinstance(value, int) or value.is_integer()
    return str(int(value)) if is_whole else repr(value)


def _parse_quantity(text: str, units: dict[str, int]) -> Fraction | None:
    """Return the number times its unit, or None if the text is not a number with a unit."""
    if len(text) > _MAX_TEXT_CHARS:
        return None
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        return None
    factor = units.get(match[2])
    if factor is None:
        return None
    from fractions import Fraction

    return Fraction(match[1]) * factor


def _format(value: object) -> str:
    """Return a value as it is shown in messages."""
    try:
        text = repr(value)
    except ValueError:  # an integer with more digits than Python prints
        return "that number"
    return text if len(text) <= _MAX_TEXT_CHARS else f"{text[:_MAX_TEXT_CHARS]}…"


def _describe_type(value: object) -> str:
    """Return a number itself, and the type of any other value, for messages."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{_format(value)}" if isinstance(value, int | float) else f"a {type(value).__name__}"
