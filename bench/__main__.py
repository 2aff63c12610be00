"""The command line: chooses rows, measures each, prints the table, and compares it with targets."""

import argparse
import fnmatch
import json
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench import children, compare, isolate, machine, proxy, rules, search
from bench.row import Outcome, Row, Setting, Verdict, as_json, exit_status
from bench.rows import ROWS
from bench.table import Layout, cells, summary

# Measurements of the host's own code, which need no children and are no rows of the table.
SEPARATE = {"search": search.main, "rules": rules.main, "proxy": proxy.main}

QUICK_ROUNDS, QUICK_FEW = 7, 3
# At this niceness other programs get only a few hundredths of a core that the bench uses.
PRIORITY = -15


def chosen(rows: Sequence[Row], patterns: Sequence[str]) -> list[Row]:
    """Return the rows whose key or name contains one of the patterns, or matches it as a shell
    pattern."""

    def fits(row: Row, pattern: str) -> bool:
        wanted = f"*{pattern.lower()}*"
        return any(fnmatch.fnmatchcase(text.lower(), wanted) for text in (row.key, row.name))

    return [row for row in rows if not patterns or any(fits(row, p) for p in patterns)]


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="exthost's speed, judged")
    parser.add_argument(
        "patterns",
        nargs="*",
        metavar="PATTERN",
        help="measure the rows whose key or name contains this text, or fits it as a shell pattern",
    )
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN", help="the same")
    parser.add_argument(
        "--repeat",
        type=int,
        default=1,
        metavar="N",
        help="measure each row N times, and report rows whose verdicts differ",
    )
    parser.add_argument("--quick", action="store_true", help="fewer rounds: a look, not a verdict")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    parser.add_argument("--list", action="store_true", help="name the rows, measure nothing")
    parser.add_argument(
        "--compare",
        metavar="FILE",
        help="show what changed since an earlier run, whose --json output is in FILE",
    )
    parser.add_argument(
        "--priority",
        action="store_true",
        help="run before other programs, for a machine that is shared; needs root",
    )
    parser.add_argument("--python-child", action="store_true", help="as if there was no compiler")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    """Return the exit status: 1 if a "must" is missed or was not measured, 2 for wrong usage."""
    chosen_words = sys.argv[1:] if words is None else list(words)
    if len(chosen_words) == 1 and chosen_words[0] in SEPARATE:
        return SEPARATE[chosen_words[0]]()
    args = parse(words)
    patterns = [*args.patterns, *args.only]
    rows = chosen(ROWS, patterns)
    if not rows:
        print(f"no row fits {' or '.join(patterns)}; --list names them", file=sys.stderr)
        return 2
    if args.list:
        print("\n".join(f"{row.key:38}{row.name}" for row in rows))
        return 0
    earlier = None
    if args.compare:
        try:
            earlier = compare.read_run(Path(args.compare).read_text())
        except (OSError, ValueError) as error:
            print(f"--compare {args.compare}: {error}", file=sys.stderr)
            return 2
    if args.priority:
        try:
            os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)
        except OSError as error:
            print(f"--priority: {error.strerror}; run as root, or without it", file=sys.stderr)
            return 2
    isolate.adopt_orphans()
    # Raised inside the row that is measured, so that its processes end too.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    layout = Layout(rows)
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="exthost-bench-") as folder:
        argv, word = children.build(Path(folder), compiled=not args.python_child)
        setting = Setting(child=argv, child_is_c=children.is_c(argv))
        if args.quick:
            setting = replace(setting, rounds=QUICK_ROUNDS, few=QUICK_FEW)
        facts = machine.describe(word)
        if not args.json:
            print("\n".join(f"{name}: {fact}" for name, fact in facts.items()), end="\n\n")
            print(layout.heading())
        for row in (row for _ in range(args.repeat) for row in rows):
            outcomes.append(isolate.measure(row, setting))
            if not args.json:
                print(layout.line(cells(outcomes[-1])), flush=True)
    status = exit_status(outcomes)
    if args.json:
        found = {"machine": facts, "rows": [as_json(o) for o in outcomes], "ok": status == 0}
        print(json.dumps(found, indent=2))
        if earlier is not None:
            print("\n".join(compare.lines(earlier, outcomes)), file=sys.stderr)
        return status
    print(f"\n{summary(outcomes)}")
    if earlier is not None:
        print("\n" + "\n".join(compare.lines(earlier, outcomes)))
    for outcome in outcomes:
        if outcome.verdict is Verdict.FAILED:
            print(f"\n{outcome.row.key}:\n{outcome.reason}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
