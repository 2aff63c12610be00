"""Merges the file fragments of a tool result into whole files, and checks their paths.

The tools of some dialects generate files, such as a configuration of a CI system. `file_writer`
writes the whole files. A tool may return several fragments for the same path. They are combined in
the order of arrival, by the strategy of each fragment:

replace  The content of the fragment replaces all earlier fragments.
merge    A YAML or JSON mapping is deep-merged into the earlier fragments. If there are no earlier
         fragments, the mapping is merged into the file on disk, whose text the caller supplies.
append   The text is added at the end, after all replacing and merging. Several appended texts are
         sorted by `order` and then by arrival. If there are only appended texts, they replace the
         content on disk, so that running a generator twice does not write everything twice.

All errors are raised before anything is written: Refused for a path that leads out of the folder,
CallFailed for fragments that cannot be merged. This module does no I/O.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

from exthost.dialects.calls import FileFragment
from exthost.errors import CallFailed, Refused, UsageError

# With aliases of aliases, a YAML text of a few hundred bytes can expand to billions of nodes.
MAX_MERGED_KEYS = 100_000

_YAML_SUFFIXES = (".yml", ".yaml")

# The unquoted YAML scalars that are not strings: tag, pattern, and possible first characters.
_PLAIN_SCALARS: tuple[tuple[str, re.Pattern[str], list[str]], ...] = (
    ("merge", re.compile(r"<<$"), ["<"]),
    ("null", re.compile(r"(~|null|Null|NULL|)$"), ["~", "n", "N", ""]),
    ("bool", re.compile(r"(true|True|TRUE|false|False|FALSE)$"), list("tTfF")),
    ("int", re.compile(r"[-+]?(0|[1-9][0-9]*)$"), list("-+0123456789")),
    (
        "float",
        re.compile(r"[-+]?(0|[1-9][0-9]*)\.[0-9]+([eE][-+][0-9]+)?$"),
        list("-+0123456789"),
    ),
)


def merge_fragments(
    fragments: Iterable[FileFragment], existing: Callable[[str], str | None]
) -> Mapping[str, str]:
    """Return the content of each file by its path.

    `existing` returns the text of the file on disk at a path, or None if there is no such file.
    Raises Refused or CallFailed; then no file of the result may be written.
    """
    by_path: dict[str, list[FileFragment]] = {}
    for fragment in fragments:
        by_path.setdefault(safe_path(fragment.path), []).append(fragment)
    for path in by_path:
        for parent in PurePosixPath(path).parents:
            if str(parent) in by_path:
                raise _unusable_file_error(path, f"{parent} is a file of the same result")
    return {
        path: _combine(path, fragments_of_path, existing)
        for path, fragments_of_path in by_path.items()
    }


def safe_path(path: str) -> str:
    """Return the normalised path. Raises Refused if it is not a relative path below the folder."""
    parts = PurePosixPath(path).parts
    if path.startswith("/"):
        reason = "it is absolute"
    elif ".." in parts:
        reason = "it has a .. in it"
    elif not parts:
        reason = "it names no file"
    elif path.endswith(("/", "/.")):
        reason = "it names a folder"
    elif any(ord(character) < 32 for character in path):
        reason = "it has a control character in it"
    else:
        return str(PurePosixPath(*parts))
    raise path_refused_error(path, reason)


def path_refused_error(path: str, reason: str) -> Refused:
    """Return the error for a file that must not be written."""
    return Refused(
        "X0320",
        f"the file {path!r} is refused: {reason}",
        help="nothing was written; an extension may write only inside the folder it was given",
    )


def _combine(
    path: str, fragments: list[FileFragment], existing: Callable[[str], str | None]
) -> str:
    """Return the content of one file from its fragments, in the order of arrival."""
    base: str | None = None
    appended: list[FileFragment] = []
    for fragment in fragments:
        if fragment.strategy == "replace":
            base, appended = fragment.content, []
        elif fragment.strategy == "append":
            appended.append(fragment)
        else:
            content = existing(path) if base is None else base
            base = _merge(path, content, fragment)
    # The sort is stable: fragments of the same `order` stay in the order of arrival.
    appended.sort(key=lambda fragment: fragment.order)
    return (base or "") + "".join(fragment.content for fragment in appended)


def _merge(path: str, content: str | None, fragment: FileFragment) -> str:
    """Return `content` with the mapping of the fragment merged into it."""
    if content is None or not content.strip():
        return fragment.content
    load, dump = _find_format(path, fragment.format)
    try:
        old, new = load(content), load(fragment.content)
        if new is None:  # the fragment is empty
            return content
        if not (isinstance(old, dict) and isinstance(new, dict)):
            raise _unusable_file_error(path, "only mappings can be merged")
        return dump(_deep_merge(old, new, keys_left=[MAX_MERGED_KEYS]))
    except (ValueError, RecursionError) as error:
        raise _unusable_file_error(path, f"it cannot be merged: {error}") from None


def _deep_merge(old: Any, new: Any, keys_left: list[int]) -> Any:
    """Merge mappings key by key; return the new value of anything else.

    `keys_left` has one item, which all levels of the recursion decrease: how many keys may still be
    merged. Raises ValueError if there are more.
    """
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return new
    result = dict(old)
    keys_left[0] -= len(new)
    if keys_left[0] < 0:
        raise ValueError(f"it has more than {MAX_MERGED_KEYS:,} keys")
    for key, value in new.items():
        result[key] = _deep_merge(result[key], value, keys_left) if key in result else value
    return result


# The two functions of a format: the first parses a text, the second writes a value as text.
_Format = tuple[Callable[[str], Any], Callable[[Any], str]]


def _find_format(path: str, format: str) -> _Format:
    """Return the functions for `format`, or, if it is "", for the suffix of the path."""
    name = format.lower()
    if name == "json" or (not name and path.endswith(".json")):
        return json.loads, lambda value: json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    if name in ("yaml", "yml") or (not name and path.endswith(_YAML_SUFFIXES)):
        return _yaml_format()
    raise _unusable_file_error(
        path, f"only YAML and JSON can be merged, and it is {name or 'neither'}"
    )


def _yaml_format() -> _Format:
    """Return the functions for YAML. Raises UsageError if pyyaml is not installed."""
    try:
        import yaml
    except ImportError:
        raise UsageError(
            "X1322",
            "merging YAML needs the package pyyaml",
            help="pip install 'exthost[yaml]'",
        ) from None

    class Loader(yaml.SafeLoader):
        """Reads unquoted scalars as YAML 1.2 and CI systems do: `on`, `22:22`, `010` and
        `2024-01-01` are strings. By the rules of YAML 1.1, which PyYAML follows, they would be
        other values, and would be written back differently."""

    Loader.yaml_implicit_resolvers = {}
    for tag, pattern, first_characters in _PLAIN_SCALARS:
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", pattern, first_characters)

    def load(text: str) -> Any:
        try:
            return yaml.load(text, Loader)
        except yaml.YAMLError as error:
            raise ValueError(" ".join(str(error).split())) from None

    def dump(value: Any) -> str:
        return str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=4096))

    return load, dump


def _unusable_file_error(path: str, reason: str) -> CallFailed:
    return CallFailed(
        "X0721",
        f"the file {path!r} of its result cannot be written: {reason}",
        help="nothing was written; without --write the pieces are printed unchanged",
    )
