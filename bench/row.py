"""A row, its measurement, and the verdict. Pure.

A row without a `must` is reported and not judged. A row that could not be measured gives the
reason. A part of the host that does not exist yet, or something that this machine lacks, is not a
miss; any other failure of a row with a must is one. A row whose rounds do not allow a verdict is
noisy, which is neither a pass nor a miss.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Direction(Enum):
    """Which side of a target is the good one."""

    AT_MOST = "<="
    AT_LEAST = ">="


class Verdict(Enum):
    """The outcome of one row, in the words of the table."""

    STRETCH = "stretch"
    MET = "met"
    MISSED = "MISSED"
    NOISY = "NOISY"
    REPORTED = "reported"
    NOT_BUILT = "not built yet"
    SKIPPED = "skipped"
    FAILED = "FAILED"


class NotBuiltYet(Exception):
    """The part of exthost that this row measures does not exist yet."""


class NotHere(Exception):
    """This machine lacks what the row needs: a second core, an optional install."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The parameters of every measurement: the child to use and how often to repeat.

    `child` is its argv. `rounds` is for measurements of milliseconds; `few` is for those of
    seconds or of whole processes.
    """

    child: tuple[str, ...]
    child_is_c: bool = True
    rounds: int = 21
    few: int = 7


@dataclass(frozen=True, slots=True)
class Reading:
    """One measured value, its absolute numbers, and notes.

    `low` and `high` are the quartiles of the rounds, which show the noise. `other_work` is the
    share of all cores that other programs used, if it is known. `subject_s` is the median time of
    what a ratio compares with its baseline, in seconds, where a picture shows it.
    """

    value: float
    absolute: tuple[tuple[str, str], ...] = ()
    note: str = ""
    low: float | None = None
    high: float | None = None
    other_work: float | None = None
    subject_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table. `limit_s` bounds its measurement, starts and stops included."""

    key: str
    name: str
    measure: Callable[[Setting], Reading]
    unit: str = "x"
    direction: Direction = Direction.AT_MOST
    must: float | None = None
    stretch: float | None = None
    limit_s: float = 60.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """A row after its measurement: a reading, or the reason for the lack of a reading."""

    row: Row
    verdict: Verdict
    reading: Reading | None = None
    reason: str = ""


# If the quartiles are further apart than this share of the median, the row is noisy.
NOISY_SPREAD = 0.1
# If other programs use more than this share of the machine, the row is noisy.
NOISY_OTHER_WORK = 0.1


def is_noisy(reading: Reading) -> bool:
    """Return whether the value should be measured again, because the rounds differ much or other
    programs used much of the machine.

    Other programs delay the lean baseline relatively more than the host, and so make a ratio look
    better than it is.
    """
    if reading.low is None or reading.high is None:  # a count, which is the same on a busy machine
        return False
    if reading.other_work is not None and reading.other_work > NOISY_OTHER_WORK:
        return True
    return reading.high - reading.low > NOISY_SPREAD * abs(reading.value)


def judge(row: Row, reading: Reading) -> Verdict:
    """Compare a reading with the targets of its row; a value exactly on a target reaches it.

    A verdict needs the quartiles on the same side of the target as the median, and a machine
    without much other work. Otherwise the row is noisy.
    """

    def reaches(value: float, target: float) -> bool:
        return value <= target if row.direction is Direction.AT_MOST else value >= target

    if row.must is None:
        return Verdict.REPORTED
    quartiles = [value for value in (reading.low, reading.high) if value is not None]
    if quartiles and (reading.other_work or 0) > NOISY_OTHER_WORK:
        return Verdict.NOISY
    # Written so that a value that is not a number misses.
    outcomes = {reaches(value, row.must) for value in (reading.value, *quartiles)}
    if len(outcomes) > 1:
        return Verdict.NOISY
    if outcomes == {False}:
        return Verdict.MISSED
    if row.stretch is not None and reaches(reading.value, row.stretch):
        return Verdict.STRETCH
    return Verdict.MET


def exit_status(outcomes: Iterable[Outcome]) -> int:
    """Return 1 if a must was missed or could not be measured without a good reason, else 0."""
    bad = (Verdict.MISSED, Verdict.FAILED)
    return int(any(o.verdict in bad and o.row.must is not None for o in outcomes))


def disagreements(outcomes: Iterable[Outcome]) -> dict[str, list[Outcome]]:
    """Return the keys of rows that were measured more than once with different verdicts."""
    runs: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        runs.setdefault(outcome.row.key, []).append(outcome)
    # Met and stretch are both a pass.
    return {key: found for key, found in runs.items() if len({exit_status([o]) for o in found}) > 1}


def as_json(outcome: Outcome) -> dict[str, Any]:
    """Return one row of `--json`."""
    row, reading = outcome.row, outcome.reading
    found: dict[str, Any] = {
        "key": row.key,
        "name": row.name,
        "unit": row.unit,
        "direction": row.direction.value,
        "must": row.must,
        "stretch": row.stretch,
        "verdict": outcome.verdict.value,
        "value": None,
    }
    if reading is not None:
        found["value"] = reading.value
        found["quartiles"] = [reading.low, reading.high]
        found["absolute"] = dict(reading.absolute)
        found["note"] = reading.note
        found["noisy"] = is_noisy(reading)
        found["other_work"] = reading.other_work
        found["subject_s"] = reading.subject_s
    if outcome.reason:
        found["reason"] = outcome.reason
    return found
