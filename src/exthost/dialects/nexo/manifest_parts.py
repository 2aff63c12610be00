"""The functions that both readers of nexo manifests use, for the TOML text, names, versions and
errors.

A manifest has one of two shapes: the flat one of the first contract, which `manifest` reads, or the
nested one of the second contract, which `manifest_v2` reads.
"""

import re
from collections.abc import Mapping
from typing import Any

from exthost.dialects.manifest_format import ManifestFile, manifest_error
from exthost.errors import ManifestError
from exthost.model import semver
from exthost.model.documents.problems import (
    WRONG_VALUE,
    DocumentProblem,
    Place,
    Problems,
    format_path,
)
from exthost.model.documents.readers import (
    Reader,
    quote_text,
    read_table,
    read_text,
    read_text_list,
)
from exthost.model.documents.toml_positions import KeyPath, find_line
from exthost.model.documents.toml_text import parse_toml

MAX_NAME_CHARS = 64
_NAME = re.compile(r"[a-z][a-z0-9_]*")


def parse_file(file: ManifestFile) -> tuple[dict[str, Any], str]:
    """Return the contents of a manifest, and its text. Raises ManifestError."""
    try:
        source = file.data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = file.data.count(b"\n", 0, error.start) + 1
        raise manifest_error(file, f"line {line} is not UTF-8 text", line=line) from None
    source = source.removeprefix("\ufeff")
    try:
        return parse_toml(source), source
    except RecursionError:
        raise manifest_error(file, "it is nested too deep") from None
    except ValueError as error:  # TOMLDecodeError, or an integer of more than 4300 digits
        match = re.search(r"line (\d+)", str(error))
        line = int(match[1]) if match else source.count("\n") + 1
        help = "fix that line; see https://toml.io for the syntax"
        raise manifest_error(file, f"not valid TOML: {error}", line=line, help=help) from None


def make_errors(
    file: ManifestFile, problems: Problems, id: str, order: tuple[KeyPath, ...]
) -> tuple[ManifestError, ...]:
    """Return the problems as errors. Those at or below the keys of `order` come first, in that
    order. The others follow, by line."""
    lines = problems.lines()

    def sort_key(problem: DocumentProblem) -> tuple[int, int]:
        for position, key_path in enumerate(order):
            # The problem of a section that is missing, or is not a table, has the section's path,
            # such as ("plugin",). It is sorted as a problem of the section's first key in `order`.
            if problem.path[: len(key_path)] == key_path or problem.path == key_path[:1]:
                return position, find_line(lines, problem.path)
        return len(order), find_line(lines, problem.path)

    return tuple(
        manifest_error(
            file,
            f"{format_path(problem.path)}: {problem.text}" if problem.path else problem.text,
            key=format_path(problem.path),
            line=find_line(lines, problem.path),
            extension=id,
            help=problem.help,
        )
        for problem in sorted(problems.items, key=sort_key)
    )


def read_version(value: Any, place: Place) -> str | None:
    """Read a semantic version."""
    checked = read_text(value, place)
    if checked is not None and not semver.is_version(checked):
        help = "write it like 1.2.3 or 1.2.3-beta.1 (https://semver.org)"
        place.add_problem(WRONG_VALUE, f"{quote_text(checked)} is not a semantic version", help)
        return None
    return checked


def read_names(value: Any, place: Place) -> tuple[str, ...]:
    """Read a list of names, without duplicates."""
    if not isinstance(value, list):
        return read_text_list(value, place) or ()
    names: dict[str, None] = {}
    rule = f"a letter, then letters, digits and _, all lower case, up to {MAX_NAME_CHARS}"
    for index, item in enumerate(value):
        item_place = place.at(index)
        name = read_text(item, item_place)
        if name is None:
            continue
        if not _NAME.fullmatch(name) or len(name) > MAX_NAME_CHARS:
            item_place.add_problem(WRONG_VALUE, f"{quote_text(name)} is not a name: {rule}")
        elif name in names:
            item_place.add_problem(WRONG_VALUE, f"{name!r} is repeated", "keep one")
        # A name that breaks the rule is kept, too: with a problem, the manifest is rejected anyway.
        names[name] = None
    return tuple(names)


def make_table_reader(keys: Mapping[str, Reader]) -> Reader:
    """Return a reader of a table with these keys. The reader omits keys without a valid value."""

    def read(value: Any, place: Place) -> dict[str, Any]:
        fields = read_table(value, place, keys)
        return {key: item for key, item in fields.items() if item is not None}

    return read
