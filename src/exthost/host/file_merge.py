"""Merges the file fragments of a result into whole files, and checks their paths.

Owns the meaning of replace, append and merge, and knows no disk: `file_writer.py` passes in the
existing files. Fails before anything is written: Refused for a path that leads out of the folder,
CallFailed for fragments that cannot be merged.

Per path, in the order of arrival: *replace* drops the fragments before it; *merge* deep-merges a
YAML or JSON mapping into the fragments before it, or else into the file on disk; *append* adds its
text after all of that, by `order` and then arrival. Appending starts with an empty file and not
with the file on disk, so that generating twice does not write everything twice.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

from exthost.dialects.calls import FileFragment
from exthost.errors import CallFailed, Refused, UsageError

__all__ = ["merge_fragments", "path_refused_error", "safe_path"]

# By aliases of aliases, a YAML of a few hundred bytes can expand to billions of nodes.
MAX_MERGED_KEYS = 100_000

_YAML_SUFFIXES = (".yml", ".yaml")

# Which unquoted words of a YAML are no text, and how they begin.
_PLAIN_WORDS: tuple[tuple[str, re.Pattern[str], list[str]], ...] = (
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
    """Return the content of each file by its path. `existing` returns the text of a file on disk,
    or None. Raises Refused or CallFailed for the whole result."""
    by_path: dict[str, list[FileFragment]] = {}
    for fragment in fragments:
        by_path.setdefault(safe_path(fragment.path), []).append(fragment)
    for path in by_path:
        for above in PurePosixPath(path).parents:
            if str(above) in by_path:
                raise _unusable(path, f"{above} is a file of the same result")
    return {path: _file(path, pieces, existing) for path, pieces in by_path.items()}


def safe_path(path: str) -> str:
    """Return the path, relative and normalised. Raises Refused if it could leave the folder."""
    parts = PurePosixPath(path).parts
    if path.startswith("/"):
        why = "it is absolute"
    elif ".." in parts:
        why = "it has a .. in it"
    elif not parts:
        why = "it names no file"
    elif path.endswith(("/", "/.")):
        why = "it names a folder"
    elif any(ord(sign) < 32 for sign in path):
        why = "it has a control character in it"
    else:
        return str(PurePosixPath(*parts))
    raise path_refused_error(path, why)


def path_refused_error(path: str, why: str) -> Refused:
    """Return the error for a file that may not be written."""
    return Refused(
        "X0320",
        f"the file {path!r} is refused: {why}",
        help="nothing was written; an extension may write only inside the folder it was given",
    )


def _file(path: str, pieces: list[FileFragment], existing: Callable[[str], str | None]) -> str:
    base: str | None = None
    appended: list[FileFragment] = []
    for piece in pieces:
        if piece.strategy == "replace":
            base, appended = piece.content, []
        elif piece.strategy == "append":
            appended.append(piece)
        else:
            content = existing(path) if base is None else base
            base = _merged(path, content, piece)
    appended.sort(key=lambda piece: piece.order)  # stable: arrival decides among equals
    return (base or "") + "".join(piece.content for piece in appended)


def _merged(path: str, content: str | None, piece: FileFragment) -> str:
    if content is None or not content.strip():
        return piece.content
    load, dump = _language(path, piece.format)
    try:
        values = [load(text) for text in (content, piece.content)]
        budget = [MAX_MERGED_KEYS]
        if values[1] is None:
            return content
        if not all(isinstance(value, dict) for value in values):
            raise _unusable(path, "only mappings can be merged")
        return dump(_deep_merge(values[0], values[1], budget))
    except (ValueError, RecursionError) as error:
        raise _unusable(path, f"it cannot be merged: {error}") from None


def _deep_merge(old: Any, new: Any, budget: list[int]) -> Any:
    """Merge mappings key by key; return the new value of anything else."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return new
    result = dict(old)
    budget[0] -= len(new)
    if budget[0] < 0:
        raise ValueError(f"it has more than {MAX_MERGED_KEYS:,} keys")
    for key, value in new.items():
        result[key] = _deep_merge(result[key], value, budget) if key in result else value
    return result


_Language = tuple[Callable[[str], Any], Callable[[Any], str]]


def _language(path: str, format: str) -> _Language:
    name = format.lower()
    if name == "json" or (not name and path.endswith(".json")):
        return json.loads, lambda value: json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    if name in ("yaml", "yml") or (not name and path.endswith(_YAML_SUFFIXES)):
        return _yaml()
    raise _unusable(path, f"only YAML and JSON can be merged, and it is {name or 'neither'}")


def _yaml() -> _Language:
    try:
        import yaml
    except ImportError:
        raise UsageError(
            "X1322",
            "merging YAML needs the package pyyaml",
            help="pip install 'exthost[yaml]'",
        ) from None

    class Loader(yaml.SafeLoader):
        """Reads plain words as YAML 1.2 and CI systems do: `on`, `22:22`, 010 and 2024-01-01 are
        text. The rules of YAML 1.1 would change them when they are written again."""

    Loader.yaml_implicit_resolvers = {}
    for kind, pattern, first in _PLAIN_WORDS:
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", pattern, first)

    def load(text: str) -> Any:
        try:
            return yaml.load(text, Loader)
        except yaml.YAMLError as error:
            raise ValueError(" ".join(str(error).split())) from None

    def dump(value: Any) -> str:
        return str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=4096))

    return load, dump


def _unusable(path: str, why: str) -> CallFailed:
    return CallFailed(
        "X0721",
        f"the file {path!r} of its result cannot be written: {why}",
        help="nothing was written; without --write the pieces are printed as they came",
    )
