"""The text of `exthost.lock`: what was approved of each extension of a config.

The file is TOML and made to be read in a diff: sorted, one line for each fact, without times, paths
of a machine or secrets. `format_lock` returns the same text for the same records. Characters that
an editor does not show are written as escapes.

A text that cannot be used raises `LockProblem`: a conflict of a merge, a newer format, an unknown
key. No extension of the config is started then. `discovery.lock_reader` reads the file.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from exthost.model.documents.toml_text import parse_toml
from exthost.model.empty_mapping import empty_mapping
from exthost.model.lock_record import LockedTool, LockRecord

LOCK_NAME = "exthost.lock"

# Larger than the lock of thousands of tools, and small enough to be read at each start of a host.
MAX_LOCK_BYTES = 16 * 1024 * 1024

# The format that this module writes, and the only one that it reads.
_VERSION = 1

_HEADER = """\
# The approved properties of each extension: its code, its permissions and its offer.
# Written by `exthost lock` and `exthost approve`. Review each change of this file.

version = 1
"""

_CONFLICT = re.compile(r"^(?:<{7}|={7}|>{7}|\|{7})(?: |$)", re.MULTILINE)

# Characters that end a text in quotes, or that an editor does not show: controls, spaces other than
# the ordinary one, formats, fillers, and characters that no standard defines. The list is fixed,
# since each release of Python knows more characters than the one before.
_ESCAPED = re.compile(
    r"[\"\\\x00-\x1f\x7f-\xa0\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160"
    r"\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\u3164\ud800-\uf8ff"
    r"\ufdd0-\ufdef\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\U000110bd\U000110cd"
    r"\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U0010ffff]"
)

# A key that needs no quotes.
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


_RESTORE = (
    "restore it from your repository, or resolve the conflict; `exthost lock` without a name "
    "writes a new one of what is installed now"
)


class LockProblem(Exception):
    """A lock file cannot be used. The message says why; `line` is the line at fault, or 0, and
    `help` what to do."""

    def __init__(self, message: str, line: int = 0, help: str = "") -> None:
        super().__init__(message)
        self.line = line
        self.help = help or _RESTORE


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """The content of a lock file.

    path     the file
    text     its text
    records  the records by the ids of their extensions
    """

    path: str
    text: str = field(default="", repr=False)
    records: Mapping[str, LockRecord] = field(default_factory=empty_mapping)


# -- reading ---------------------------------------------------------------------------------------


def parse_lock(text: str) -> dict[str, LockRecord]:
    """Return the records in the text of a lock file. Raises LockProblem."""
    if conflict := _CONFLICT.search(text):
        line = text.count("\n", 0, conflict.start()) + 1
        raise LockProblem("it has the markers of a merge conflict", line)
    try:
        document = parse_toml(text)
    except RecursionError:
        raise LockProblem("it is nested too deep") from None
    except ValueError as error:
        line_match = re.search(r"line (\d+)", str(error))
        line = int(line_match[1]) if line_match else 0
        raise LockProblem(f"it is not valid TOML: {error}", line) from None
    version = document.pop("version", None)
    if type(version) is int and version > _VERSION:
        raise LockProblem(
            f"it has the format {version}, which needs a newer exthost",
            help="install the exthost that your repository uses, so that the lock stays as it is",
        )
    if type(version) is not int or version != _VERSION:
        raise LockProblem(f"it does not begin with `version = {_VERSION}`")
    extensions = document.pop("extensions", {})
    if document:
        raise LockProblem(f"it has an unknown key: {next(iter(document))}")
    if not isinstance(extensions, dict):
        raise LockProblem("extensions is not a table")
    return {id: _read_record(id, table) for id, table in extensions.items()}


def _read_record(id: str, table: Any) -> LockRecord:
    """Return the record of an extension from its table. Raises LockProblem."""
    if not isinstance(table, dict):
        raise LockProblem(f"extensions.{id} is not a table")
    values: dict[str, Any] = {}
    for key, value in table.items():
        where = f"extensions.{id}.{key}"
        if key == "tools":
            values[key] = _read_tools(value, where)
        elif key == "compiled":
            values[key] = _read_texts_by_name(value, where)
        elif key in _LISTS:
            if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
                raise LockProblem(f"{where} is not a list of texts")
            values[key] = tuple(value)
        elif key in _TEXTS:
            values[key] = _read_text(value, where)
        else:
            raise LockProblem(f"it has an unknown key: {where}")
    return LockRecord(**values)


def _read_text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise LockProblem(f"{where} is not a text")
    return value


def _read_texts_by_name(value: Any, where: str) -> dict[str, str]:
    if not isinstance(value, dict):
        raise LockProblem(f"{where} is not a table")
    return {name: _read_text(text, f"{where}.{name}") for name, text in value.items()}


def _read_tools(value: Any, where: str) -> dict[str, LockedTool]:
    """Return the tools of a record, by their names. Raises LockProblem."""
    if not isinstance(value, dict):
        raise LockProblem(f"{where} is not a table")
    tools = {}
    for name, table in value.items():
        texts = _read_texts_by_name(table, f"{where}.{name}")
        if unknown := texts.keys() - _TOOL_KEYS:
            raise LockProblem(f"it has an unknown key: {where}.{name}.{min(unknown)}")
        tools[name] = LockedTool(**texts)
    return tools


_TOOL_KEYS = {item.name for item in fields(LockedTool)}

# The keys of a record in the order in which they are written.
_KEYS = tuple(item.name for item in fields(LockRecord))
_LISTS = frozenset(("command", "permissions", "variables", "limits", "hooks", "capabilities"))
_TEXTS = frozenset(_KEYS) - _LISTS - {"tools", "compiled"}

# -- writing ---------------------------------------------------------------------------------------


def format_lock(records: Mapping[str, LockRecord]) -> str:
    """Return the text of a lock file with these records."""
    parts = [_HEADER]
    for id in sorted(records):
        parts += _record_lines(id, records[id])
    return "".join(parts)


def _record_lines(id: str, record: LockRecord) -> Iterator[str]:
    """Yield the tables of a record as TOML text."""
    table = f"extensions.{_key(id)}"
    yield f"\n[{table}]\n"
    for name in _KEYS:
        value = getattr(record, name)
        if name in _LISTS and value:
            yield f"{name} = {_list(value)}\n"
        elif name in _TEXTS and value:
            yield f"{name} = {_text(value)}\n"
    if record.compiled:
        yield f"\n[{table}.compiled]\n"
        for platform in sorted(record.compiled):
            yield f"{_key(platform)} = {_text(record.compiled[platform])}\n"
    for name in sorted(record.tools):
        tool = record.tools[name]
        yield f"\n[{table}.tools.{_key(name)}]\n"
        for key in ("description", "schema", "annotations"):
            if value := getattr(tool, key):
                yield f"{key} = {_text(value)}\n"


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _quoted(name)


def _list(texts: tuple[str, ...]) -> str:
    """Return a list on one line, or with a line for each item if it is long."""
    line = f"[{', '.join(map(_quoted, texts))}]"
    if len(line) <= 80:
        return line
    return "[\n" + "".join(f"    {_quoted(text)},\n" for text in texts) + "]"


def _text(text: str) -> str:
    """Return a text, with a line of the file for each of its lines."""
    if "\n" not in text:
        return _quoted(text)
    lines = "\n".join(map(_line, text.split("\n")))
    return f'"""\n{lines}"""'


def _line(text: str) -> str:
    """Return a line of a text. It must not look like the marker of a merge conflict."""
    line = _ESCAPED.sub(_escape, text)
    return f"\\u{ord(line[0]):04X}{line[1:]}" if _CONFLICT.match(line) else line


def _quoted(text: str) -> str:
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    if character in '"\\':
        return f"\\{character}"
    return f"\\u{ord(character):04X}" if ord(character) < 0x10000 else f"\\U{ord(character):08X}"
