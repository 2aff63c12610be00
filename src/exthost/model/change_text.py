"""Describes a difference from a lock in one line, for a person. A change of a text is shown by its
words.

    new permission network
    tool forecast: schema changed
    new tool delete_file: Deletes a file.

The lock (`exthost.lock`) records what a person has approved of each extension.
"""

from collections.abc import Mapping

from exthost.model.lock_record import LockChange
from exthost.model.text_review import word_diff


def describe_change(change: LockChange) -> str:
    """Return one line about a change, with a word diff of a text."""
    if change.path[0] == "tools":
        return _describe_tool_change(change)
    if change.path[0] == "instructions":
        return f"instructions: {word_diff(change.before, change.after)}"
    head = _HEADS.get((change.path[0], change.kind))
    if head is not None:
        return f"{head} {change.after or change.before}"
    return str(change)


def _describe_tool_change(change: LockChange) -> str:
    """Return one line about a tool. The path is ("tools", name), or ("tools", name, part)."""
    _, name, *parts = change.path
    if not parts:
        text = change.after or change.before
        return f"{'new' if change.kind == 'new' else 'removed'} tool {name}: {text}"
    [part] = parts
    if part in ("description", "annotations"):
        return f"tool {name}: {part}: {word_diff(change.before, change.after)}"
    return f"tool {name}: {part} {change.kind}"


# How a line about an item of a list begins, by the key and the kind of the change.
_HEADS: Mapping[tuple[str, str], str] = {
    ("permissions", "new"): "new permission",
    ("permissions", "gone"): "removed permission",
    ("variables", "new"): "new variable",
    ("variables", "gone"): "removed variable",
    ("limits", "new"): "new limit",
    ("limits", "gone"): "removed limit",
    ("hooks", "new"): "new hook",
    ("hooks", "gone"): "removed hook",
    ("capabilities", "new"): "new capability",
    ("capabilities", "gone"): "removed capability",
}
