"""Measures one row in this process: `python -m bench.worker KEY SETTING-AS-JSON`.

Prints one line of JSON on stdout; all other output is on stderr. Only `bench/isolate.py` starts it.
"""

import dataclasses
import faulthandler
import json
import os
import sys
import traceback
from typing import Any

from bench.noise import OtherWork
from bench.row import NotBuiltYet, NotHere, Reading, Setting
from bench.rows import ROWS

# A row that hangs prints its stack this long before its time limit.
LAST_WORDS_S = 2.0


def setting_to_text(setting: Setting) -> str:
    """Return a setting as an argument of the command line."""
    return json.dumps(dataclasses.asdict(setting))


def setting_from_text(text: str) -> Setting:
    """Read a setting from an argument of the command line."""
    fields = json.loads(text)
    return Setting(**{**fields, "child": tuple(fields["child"])})


def reading_from(fields: dict[str, Any]) -> Reading:
    """Return the reading in a worker's line of output."""
    absolute = tuple((label, text) for label, text in fields["absolute"])
    return Reading(**{**fields, "absolute": absolute})


def main(words: list[str]) -> None:
    """Measure the row, and print the result."""
    key, text = words
    [row] = [row for row in ROWS if row.key == key]
    faulthandler.dump_traceback_later(max(row.limit_s - LAST_WORDS_S, 1.0))
    fields: dict[str, Any]
    other_work = OtherWork()
    try:
        reading = row.measure(setting_from_text(text))
        # With priority over other programs, their load does not matter.
        if os.getpriority(os.PRIO_PROCESS, 0) >= 0:
            reading = dataclasses.replace(reading, other_work=other_work.part())
        fields = {"reading": dataclasses.asdict(reading)}
    except NotBuiltYet as missing:
        fields = {"not_built": str(missing)}
    except NotHere as missing:
        fields = {"not_here": str(missing)}
    except Exception:
        fields = {"failed": traceback.format_exc()}
    faulthandler.cancel_dump_traceback_later()
    sys.stdout.write(json.dumps(fields) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
