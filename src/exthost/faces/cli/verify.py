"""Check that no extension differs from `exthost.lock`, for CI. Exits with 0, or with 4 if something
differs.

Each extension is started to see what it offers; --offline starts nothing, and compares code and
permissions alone. --format github prints annotations for a pull request.
"""

import argparse
import os
from typing import Any

from exthost.config.lock_file import LOCK_NAME, Lock
from exthost.errors import Refused
from exthost.events import Bus
from exthost.faces.cli.common import (
    Args,
    add_config_option,
    escape_controls,
    print_error,
    show_json,
    show_result,
    show_text,
)
from exthost.faces.cli.lock_edit import (
    change_as_dict,
    find_missing,
    print_comparison,
    require_lock,
    select_specs,
)
from exthost.faces.cli.started_extension import printing_bus
from exthost.faces.cli.target_specs import read_extensions
from exthost.faces.cli.verb_loop import run_once
from exthost.host.lock_survey import Comparison, compare_with_lock
from exthost.model.change_text import describe_change
from exthost.model.documents.toml_positions import find_key_lines, find_line
from exthost.model.lock_record import LockChange

# The exit code if something differs: that of an extension that is refused.
_DIFFERS = Refused.exit_code


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--offline", action="store_true", help="start nothing")
    parser.add_argument(
        "--format", choices=("text", "github"), default="text", help="how differences are printed"
    )
    add_config_option(parser)


def run(args: Args) -> int:
    configured = read_extensions(args)
    lock = require_lock(configured.config)
    specs = select_specs(configured, ())
    is_quiet = args.json or args.format == "github"
    bus = Bus() if is_quiet else printing_bus()
    comparisons: list[Comparison] = []

    async def compare() -> int:
        comparisons.extend(
            await compare_with_lock(specs, lock.records, offline=args.offline, bus=bus)
        )
        return 0  # `run_once` expects an exit code

    run_once(compare())
    comparisons += find_missing(configured, lock.records)
    if args.json:
        show_json(_as_data(lock, comparisons))
    elif args.format == "github":
        _print_annotations(lock, comparisons)
    else:
        _print_text(comparisons)
    if any(comparison.differs and comparison.error is None for comparison in comparisons):
        return _DIFFERS
    errors = [comparison.error for comparison in comparisons if comparison.error is not None]
    return errors[0].exit_code if errors else 0


def _as_data(lock: Lock, comparisons: list[Comparison]) -> dict[str, Any]:
    """Return what --json prints. Each change has its line in the lock."""
    lines = find_key_lines(lock.text)
    return {
        "lock": lock.path,
        "differs": any(comparison.differs for comparison in comparisons),
        "extensions": [
            {
                "id": item.id,
                "state": _state(item),
                "changes": [
                    {**change_as_dict(change), "line": find_line(lines, _path(item.id, change))}
                    for change in item.changes
                ],
                "error": item.error.as_dict() if item.error is not None else None,
            }
            for item in comparisons
        ],
    }


def _path(id: str, change: LockChange) -> tuple[str, ...]:
    """Return the keys that lead to a changed value in the lock."""
    return ("extensions", id, *change.path)


def _state(comparison: Comparison) -> str:
    """Return how an extension compares with its record in the lock, as one word."""
    if comparison.error is not None:
        return "unknown"
    if comparison.locked is None:
        return "unlocked"
    if comparison.now is None:
        return "gone"
    return "changed" if comparison.changes else "locked"


def _print_text(comparisons: list[Comparison]) -> None:
    for comparison in comparisons:
        if comparison.error is not None:
            print_error(comparison.error, wants_json=False)
        print_comparison(comparison)
        show_result(f"{comparison.id}: {_state(comparison)}")


def _print_annotations(lock: Lock, comparisons: list[Comparison]) -> None:
    """Print a workflow command of GitHub for each difference."""
    lines, file = find_key_lines(lock.text), _file_in_repository(lock)
    for comparison in comparisons:
        id = comparison.id
        if comparison.error is not None:
            _annotate(file, 0, id, f"{comparison.error.headline} [{comparison.error.code}]")
        elif comparison.now is None:
            line = find_line(lines, ("extensions", id))
            _annotate(file, line, id, "the lock has a record of it, and the config has not")
        elif comparison.locked is None:
            _annotate(file, 0, id, f"the lock has no record of it: exthost lock {id}")
        else:
            for change in comparison.changes:
                line = find_line(lines, _path(id, change))
                _annotate(file, line, id, describe_change(change))


def _file_in_repository(lock: Lock) -> str:
    """Return the path of a lock relative to the repository, as an annotation names it. GitHub sets
    a variable to the folder of the repository; without it, that is the working folder."""
    repository = os.path.realpath(os.environ.get("GITHUB_WORKSPACE") or ".")
    path = os.path.relpath(os.path.realpath(lock.path), repository)
    return LOCK_NAME if path.startswith("../") else path


def _annotate(file: str, line: int, title: str, message: str) -> None:
    """Print a workflow command of GitHub, such as `::error file=exthost.lock,line=3,title=…::…`.
    Line 0 stands for the whole file."""
    place = f"file={_escape_value(file)}," + (f"line={line}," if line else "")
    show_text(f"::error {place}title={_escape_value(title)}::{_escape(message)}")


def _escape_value(text: str) -> str:
    """Return a text as the value of a property of a workflow command."""
    return _escape(text).replace(":", "%3A").replace(",", "%2C")


def _escape(text: str) -> str:
    """Return a text as a workflow command has it. A text of an extension cannot end the command and
    begin another."""
    escaped = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return escape_controls(escaped)
