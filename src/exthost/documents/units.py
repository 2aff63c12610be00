"""Durations and sizes as people write them → seconds and bytes.

Knows no keys and no files: the readers of a config and the command line's `--timeout` both call it
and add the place themselves. Raises UnitError, whose message names the text and shows what is
accepted.

Arithmetic is exact (fractions) until the last step, so "0.1s" is the same float as 0.1.
"""

import math
import re
from fractions import Fraction

_SECONDS = {"ms": Fraction(1, 1000), "s": Fraction(1), "m": Fraction(60), "h": Fraction(3600)}

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

# No real quantity is longer, and a megabyte of digits must not be multiplied.
_MAX_TEXT_CHARS = 40

# Ten years. A longer time limit is a mistake, and event loops overflow with it.
MAX_SECONDS = 10 * 365 * 24 * 3600

# Resource limits are signed 64-bit numbers in the kernel.
MAX_BYTES = 2**63 - 1

_DURATIONS_LIKE = 'write "500ms", "1s", "2m" or "1h", or a number of seconds'
_SIZES_LIKE = 'write "256MB" (10^6), "256MiB" (2^20) or a whole number of bytes'


class UnitError(ValueError):
    """Not a duration, or not a size. The message is a whole sentence."""


def parse_seconds(value: object) -> float:
    """Return the seconds of a duration: text with a unit, or a plain number of seconds."""
    if isinstance(value, str):
        quantity = _quantity(value, _SECONDS)
        if quantity is None:
            raise UnitError(f"{_shown(value)} is not a duration: {_DURATIONS_LIKE}")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        if isinstance(value, float) and math.isnan(value):
            raise UnitError(f"nan is not a duration: {_DURATIONS_LIKE}")
        if value < 0:
            raise UnitError(f"{_shown(value)} is negative, a duration is not: {_DURATIONS_LIKE}")
        if value > MAX_SECONDS:
            raise UnitError(f"{_shown(value)} is more than ten years: {_DURATIONS_LIKE}")
        # Converted last: float() of a 400-digit integer raises.
        return float(value)
    else:
        raise UnitError(f"{_kind(value)} is not a duration: {_DURATIONS_LIKE}")
    if quantity > MAX_SECONDS:
        raise UnitError(f"{_shown(value)} is more than ten years: {_DURATIONS_LIKE}")
    return float(quantity)


def parse_size(value: object) -> int:
    """Return the bytes of a size: text with a unit, or a whole number of bytes."""
    if isinstance(value, str):
        quantity = _quantity(value, _BYTES)
        if quantity is None:
            raise UnitError(f"{_shown(value)} is not a size: {_SIZES_LIKE}")
        if quantity.denominator != 1:
            raise UnitError(f"{_shown(value)} is not a whole number of bytes: {_SIZES_LIKE}")
        amount = int(quantity)
    elif isinstance(value, int) and not isinstance(value, bool):
        amount = int(value)
    else:
        raise UnitError(f"{_kind(value)} is not a size: {_SIZES_LIKE}")
    if amount < 0:
        raise UnitError(f"{_shown(value)} is negative, a size is not: {_SIZES_LIKE}")
    if amount > MAX_BYTES:
        raise UnitError(f"{_shown(value)} is more than any machine can hold: {_SIZES_LIKE}")
    return amount


def _quantity(text: str, units: dict[str, Fraction] | dict[str, int]) -> Fraction | None:
    """Return the number times its unit, or None if the text has another form."""
    if len(text) > _MAX_TEXT_CHARS:
        return None
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        return None
    factor = units.get(match[2])
    return None if factor is None else Fraction(match[1]) * factor


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # an integer with more digits than Python prints
        return "that number"
    return text if len(text) <= _MAX_TEXT_CHARS else f"{text[:_MAX_TEXT_CHARS]}…"


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{_shown(value)}" if isinstance(value, int | float) else f"a {type(value).__name__}"
