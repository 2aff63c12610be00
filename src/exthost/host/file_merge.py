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
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any, NamedTuple

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
    content = _Content(path)
    appended: list[FileFragment] = []
    for fragment in fragments:
        if fragment.strategy == "replace":
            content = _Content(path, fragment.content)
            appended = []
        elif fragment.strategy == "append":
            appended.append(fragment)
        else:
            if content.is_missing:
                content = _Content(path, existing(path))
            content.merge(fragment)
    # The sort is stable: fragments of the same `order` stay in the order of arrival.
    appended.sort(key=lambda fragment: fragment.order)
    return content.as_text() + "".join(fragment.content for fragment in appended)


class _Content:
    """The content of a file, into which fragments are merged. Between fragments of the same format
    it is kept as a value. To write and parse it for each fragment would take a time that grows with
    the square of their number."""

    def __init__(self, path: str, text: str | None = None) -> None:
        self._path = path
        self._text = text
        self._value: Any = None  # used instead of the text if there is a format
        self._format: _Format | None = None

    @property
    def is_missing(self) -> bool:
        return self._text is None and self._format is None

    def as_text(self) -> str:
        """Return the text; "" if there is none. Raises CallFailed."""
        if self._format is not None:
            with _merge_errors(self._path):
                self._text = self._format.dump(self._value)
            self._format = None
        return self._text or ""

    def merge(self, fragment: FileFragment) -> None:
        """Merge the mapping of the fragment into the content. Raises CallFailed."""
        name = _format_name(self._path, fragment.format)
        has_value = self._format is not None and self._format.name == name
        if not has_value and not self.as_text().strip():
            self._text = fragment.content
            return
        format = self._format or _find_format(self._path, name)
        with _merge_errors(self._path):
            new = format.load(fragment.content)
            old = self._value if has_value else format.load(self._text or "")
            if new is None:  # the fragment is empty
                return
            if not (isinstance(old, dict) and isinstance(new, dict)):
                raise _unusable_file_error(self._path, "only mappings can be merged")
            self._value = _deep_merge(old, new, keys_left=[MAX_MERGED_KEYS])
            self._format = format


@contextmanager
def _merge_errors(path: str) -> Iterator[None]:
    """Translate the errors of the `with` block to CallFailed."""
    try:
        yield
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


class _Format(NamedTuple):
    """A format of files: `load` parses a text, `dump` writes a value as text."""

    name: str
    load: Callable[[str], Any]
    dump: Callable[[Any], str]


def _format_name(path: str, format: str) -> str:
    """Return the name of `format`, or, if it is "", that of the suffix of the path: "json" or
    "yaml". A format that cannot be merged has another name, or ""."""
    name = format.lower()
    if not name and path.endswith(".json"):
        return "json"
    return "yaml" if name == "yml" or (not name and path.endswith(_YAML_SUFFIXES)) else name


def _find_format(path: str, name: str) -> _Format:
    """Return the format of this name. Raises CallFailed."""
    if name == "json":
        return _Format(
            name,
            json.loads,
            lambda value: json.dumps(value, indent=2, ensure_ascii=False) + "\n",
        )
    if name == "yaml":
        return _yaml_format()
    raise _unusable_file_error(
        path, f"only YAML and JSON can be merged, and it is {name or 'neither'}"
    )


def _yaml_format() -> _Format:
    """Return the format YAML. Raises UsageError if pyyaml is not installed."""
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
        # What PyYAML raises for `!!timestamp x`, `!!bool x` and `!!int ""`.
        except (AttributeError, KeyError, IndexError):
            raise ValueError("a value does not have the type of its tag (!!)") from None

    def dump(value: Any) -> str:
        return str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=4096))

    return _Format("yaml", load, dump)


def _unusable_file_error(path: str, reason: str) -> CallFailed:
    return CallFailed(
        "X0721",
        f"the file {path!r} of its result cannot be written: {reason}",
        help="nothing was written; without --write the pieces are printed unchanged",
    )
