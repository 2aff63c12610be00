"""The record of one extension in `exthost.lock`, and how two records differ. Frozen values.

The lock is a file in which a person has approved what each extension is. A host compares each
extension with its record, and refuses one that differs. A record has three parts: what is run
(command, digests of the code), what the extension may do (permissions, variables, limits), and what
it offers (tools, hooks, instructions). The first two are compared before a process is started, the
third after its handshake and whenever a running process lists its tools again. `config.lock_file`
reads and writes records, and `launch.locked_code` computes what is run.

Modules of the standard library are imported lazily, because few hosts have a lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from exthost.model.empty_mapping import empty_mapping
from exthost.model.offer import Offer

if TYPE_CHECKING:
    from exthost.model.offer import Tool


@dataclass(frozen=True, slots=True)
class LockedTool:
    """A tool as it was approved: its description, a digest of its schemas, and its other fields as
    JSON."""

    description: str = ""
    schema: str = ""
    annotations: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockRecord:
    """The approved properties of one extension. An empty value stands for "does not have it".

    command       the command, in which folders of this machine are replaced (`launch.locked_code`)
    folder        the working folder, if the config sets one
    interpreter   the program that reads the code, as name and version: `python3.12`
    program       the digest of the code that the command names
    package       the digest of the files in the folder of the extension
    manifest      the digest of the manifest
    registry      the package that npx or uvx runs: `npm:NAME@1.2.3`
    integrity     the digest of that package in its registry, if the package manager has kept it
    unknown_code  why it is not known which code the command runs
    compiled      for each platform, the digest of the compiled files
    permissions   what is granted, one text each; "unrestricted" for an extension without a sandbox;
                  "inject HOST:PORT HEADER from VARIABLE" for a header that its proxy adds
    variables     the names of the variables that are set or required
    limits        the configured limits, one text each
    """

    dialect: str = ""
    source: str = ""
    command: tuple[str, ...] = ()
    folder: str = ""
    interpreter: str = ""
    program: str = ""
    package: str = ""
    manifest: str = ""
    registry: str = ""
    integrity: str = ""
    unknown_code: str = ""
    compiled: Mapping[str, str] = field(default_factory=empty_mapping)
    sandbox: str = ""
    permissions: tuple[str, ...] = ()
    env_policy: str = ""
    variables: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    hooks: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    instructions: str = ""
    tools: Mapping[str, LockedTool] = field(default_factory=empty_mapping)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecLock:
    """The lock of a config, for one extension.

    record   what was approved
    mode     "enforce", or "warn" to report differences only
    path     the lock file
    text     the text of that file
    """

    record: LockRecord
    mode: Literal["enforce", "warn"] = "enforce"
    path: str = field(default="", compare=False)
    text: str = field(default="", compare=False, repr=False)

    def line_of(self, extension: str, change: LockChange) -> int:
        """Return the line of the lock that a change differs from; 0 if it is not known."""
        from exthost.model.documents.toml_positions import find_key_lines, find_line

        return find_line(find_key_lines(self.text), ("extensions", extension, *change.path))


class Severity(IntEnum):
    """How much a change matters to the person who approves it: the worst first. LESS is a change
    that takes something away from the extension, or that only changes a limit."""

    PERMISSION = 0
    VARIABLE = 1
    PROGRAM = 2
    DESCRIPTION = 3
    NEW_TOOL = 4
    REMOVED_TOOL = 5
    LESS = 6


class LockChange(NamedTuple):
    """A difference between a record and the present state.

    path    the keys that lead to the value in the record: ("tools", "get", "description")
    kind    "new", "gone" or "changed"
    before  the approved value; "" for a new one
    after   the present value; "" for one that is gone
    detail  what differs in detail, such as the file of a package that has changed
    """

    severity: Severity
    path: tuple[str, ...]
    kind: Literal["new", "gone", "changed"]
    before: str = ""
    after: str = ""
    detail: str = ""

    @property
    def key(self) -> str:
        """The keys as one text."""
        return ".".join(self.path)

    def __str__(self) -> str:
        """What differs, without texts that the extension wrote: an error may reach a model, to
        which a changed description could give instructions. `change_text.describe_change` shows
        the words to a person."""
        detail = f": {self.detail}" if self.detail else ""
        is_own_text = self.path[0] in _OWN_TEXTS
        if self.kind == "changed":
            if detail or is_own_text:
                return f"{self.key} has changed{detail}"
            return f"{self.key} has changed: locked {self.before!r}, now {self.after!r}"
        item = self.after or self.before
        shown = "" if is_own_text or not item else f": {item}"
        return f"{self.key}{shown} is {self.kind}{detail}"


# The keys whose values the extension itself sends.
_OWN_TEXTS = frozenset(("tools", "hooks", "capabilities", "instructions"))


# -- before a start --------------------------------------------------------------------------------

# The fields of a record with a single value that are compared before a start.
_VALUES: Mapping[str, Severity] = {
    "dialect": Severity.PROGRAM,
    "source": Severity.PROGRAM,
    "command": Severity.PROGRAM,
    "folder": Severity.PROGRAM,
    "interpreter": Severity.PROGRAM,
    "program": Severity.PROGRAM,
    "package": Severity.PROGRAM,
    "manifest": Severity.PROGRAM,
    "registry": Severity.PROGRAM,
    "integrity": Severity.PROGRAM,
    "unknown_code": Severity.PROGRAM,
    "sandbox": Severity.PERMISSION,
    "env_policy": Severity.VARIABLE,
}


def compare_start(locked: LockRecord, now: LockRecord, platform: str) -> list[LockChange]:
    """Return how the code and the rights of an extension differ from the record, the worst first.
    `platform` is the one whose compiled files are compared."""
    changes = [*_compare_items("permissions", locked.permissions, now.permissions)]
    changes += _compare_items("variables", locked.variables, now.variables)
    for name, severity in _VALUES.items():
        before, after = _value_text(getattr(locked, name)), _value_text(getattr(now, name))
        # A package manager keeps this digest in a cache, which may have been cleaned. The digests
        # of the files decide then.
        if name == "integrity" and not (before and after) and has_same_code(locked, now):
            continue
        if before != after:
            kind = _change_kind(before, after)
            changes.append(LockChange(severity, (name,), kind, before, after))
    before, after = locked.compiled.get(platform, ""), now.compiled.get(platform, "")
    if before != after:
        kind = _change_kind(before, after)
        changes.append(LockChange(Severity.PROGRAM, ("compiled", platform), kind, before, after))
    changes += _compare_items("limits", locked.limits, now.limits)
    return sorted(changes)


def _change_kind(before: str, after: str) -> Literal["new", "gone", "changed"]:
    """Return the kind of the difference between two values, of which one may be ""."""
    if before and after:
        return "changed"
    return "new" if after else "gone"


def has_same_code(locked: LockRecord, now: LockRecord) -> bool:
    """Return whether two records are of the same package of a registry, with the same files."""
    code = (now.registry, now.program, now.package)  # the last two are digests of files
    return code == (locked.registry, locked.program, locked.package) and any(code[1:])


def _value_text(value: str | tuple[str, ...]) -> str:
    """Return a value of a record as text. The command, a tuple, becomes a JSON list."""
    import json

    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False) if value else ""


_ITEM_SEVERITIES = {"permissions": Severity.PERMISSION, "variables": Severity.VARIABLE}


def _compare_items(name: str, before: Iterable[str], after: Iterable[str]) -> list[LockChange]:
    """Return the items of a list, such as the permissions, that are new, and those that are
    gone."""
    old, new = set(before), set(after)
    severity = _ITEM_SEVERITIES.get(name, Severity.LESS)
    # A permission that is gone cannot harm: without "unrestricted" too, the extension can do less.
    # It is reported all the same.
    added = [LockChange(severity, (name,), "new", "", item) for item in sorted(new - old)]
    return added + [LockChange(Severity.LESS, (name,), "gone", item) for item in sorted(old - new)]


# -- after a handshake -----------------------------------------------------------------------------


def digest_text(data: bytes) -> str:
    """Return the SHA-256 of some bytes as it is written in a lock."""
    import hashlib

    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _canonical(value: Any) -> str:
    """Return a value as JSON that does not depend on the order of its keys. The text of a value
    that is nested too deep differs from every other text."""
    try:
        import json

        return json.dumps(value, sort_keys=True, ensure_ascii=False, default=_as_json)
    except RecursionError:
        return f"nested too deep: {id(value)}"


def _escape_surrogates(text: str) -> str:
    """Return a text as a lock, which is in UTF-8, can have it. Half a surrogate pair, which UTF-8
    cannot express, is written as its escape, such as `\\ud800`."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _as_json(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else str(value)


def record_tool(tool: Tool) -> LockedTool:
    """Return what a lock records of a tool."""
    schemas = _canonical([tool.input_schema, tool.output_schema])
    return LockedTool(
        description=_escape_surrogates(tool.description),
        schema=digest_text(schemas.encode("utf-8", "surrogatepass")),
        annotations=_escape_surrogates(_canonical(tool.extra)) if tool.extra else "",
    )


def with_offer(record: LockRecord, offer: Offer) -> LockRecord:
    """Return the record with what an extension offers."""
    return replace(
        record,
        hooks=_sorted(offer.hooks),
        capabilities=_sorted(offer.capabilities),
        instructions=_instructions(offer),
        tools={_escape_surrogates(tool.name): record_tool(tool) for tool in offer.tools},
    )


def _sorted(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({_escape_surrogates(text) for text in texts}))


def _instructions(offer: Offer) -> str:
    """Return the text for models that an extension sends in its handshake."""
    text = offer.extra.get("instructions")
    return _escape_surrogates(text) if isinstance(text, str) else ""


def compare_offer(locked: LockRecord, offer: Offer) -> list[LockChange]:
    """Return how hooks, capabilities and instructions differ from the record, the worst first.
    Tools are judged one by one (`judge_tools`)."""
    changes = [
        *_compare_items("hooks", locked.hooks, _sorted(offer.hooks)),
        *_compare_items("capabilities", locked.capabilities, _sorted(offer.capabilities)),
    ]
    before, after = locked.instructions, _instructions(offer)
    if before != after:
        kind = _change_kind(before, after)
        changes.append(LockChange(Severity.DESCRIPTION, ("instructions",), kind, before, after))
    return sorted(changes)


class Quarantine(NamedTuple):
    """A tool that is not offered, because the record does not have it, or has it otherwise.

    tool     the tool as the extension announces it now
    changes  how it differs from the record
    """

    tool: Tool
    changes: tuple[LockChange, ...]

    @property
    def reason(self) -> str:
        """What differs, as one text."""
        return "; ".join(map(str, self.changes))


def judge_tools(
    locked: LockRecord, tools: Iterable[Tool], *, is_manifest: bool = False
) -> tuple[tuple[Tool, ...], dict[str, Quarantine]]:
    """Return the tools that are equal to the record, and by name the quarantine of the others. Of
    two tools with one name, one that differs quarantines both. A manifest (`is_manifest`) may leave
    out parts of a tool, which are compared after the handshake."""
    allowed: dict[str, Tool] = {}
    quarantined: dict[str, Quarantine] = {}
    for tool in tools:
        name = _escape_surrogates(tool.name)
        before, after = locked.tools.get(name), record_tool(tool)
        if is_manifest and before is not None:
            after = _without_omissions(tool, after, before)
        changes = _compare_tool(name, before, after)
        if changes:
            quarantined[tool.name] = Quarantine(tool, tuple(changes))
        else:
            allowed[tool.name] = tool
    return tuple(tool for name, tool in allowed.items() if name not in quarantined), quarantined


def _without_omissions(declared: Tool, after: LockedTool, before: LockedTool) -> LockedTool:
    """Return what a manifest declares of a tool, with the record of the parts that it leaves out:
    only the handshake announces those."""
    return replace(
        after,
        description=after.description or before.description,
        schema=after.schema if declared.input_schema else before.schema,
        annotations=after.annotations or before.annotations,
    )


def _compare_tool(
    name: str, before: LockedTool | None, after: LockedTool | None
) -> list[LockChange]:
    path = ("tools", name)
    if before is None:
        description = after.description if after is not None else ""
        return [LockChange(Severity.NEW_TOOL, path, "new", "", description)]
    if after is None:
        return [LockChange(Severity.REMOVED_TOOL, path, "gone", before.description)]
    changes = []
    for part in ("description", "schema", "annotations"):
        old, new = getattr(before, part), getattr(after, part)
        if old != new:
            kind = _change_kind(old, new)
            changes.append(LockChange(Severity.DESCRIPTION, (*path, part), kind, old, new))
    return changes


def compare_records(locked: LockRecord, now: LockRecord, platform: str) -> list[LockChange]:
    """Return every difference between a record and the present state, the worst first. `now` must
    have the offer of the extension (`with_offer`); without it, `compare_start` is the
    comparison."""
    changes = compare_start(locked, now, platform)
    offer = Offer(
        hooks=now.hooks, capabilities=now.capabilities, extra={"instructions": now.instructions}
    )
    changes += compare_offer(locked, offer)
    for name in sorted(locked.tools.keys() | now.tools.keys()):
        changes += _compare_tool(name, locked.tools.get(name), now.tools.get(name))
    return sorted(changes)


# How many folders with compiled files are hidden one by one. Each takes a fraction of a millisecond
# of a start.
_MAX_HIDDEN_FOLDERS = 8


class Bytecode(NamedTuple):
    """The compiled Python files beside the code of an extension, which its lock does not cover.
    They are hidden from the extension, because they could have other code than the source files.

    folder  the folder that the lock covers; "" if it covers the program alone
    caches  the folders with these files
    """

    folder: str = ""
    caches: tuple[str, ...] = ()

    @property
    def is_small(self) -> bool:
        """Whether there are so few of these files that each start may compile them."""
        return len(self.caches) <= _MAX_HIDDEN_FOLDERS


NO_BYTECODE = Bytecode()
