"""Describes a difference from a lock in one line, for a person. A change of a text is shown by its
words."""

from collections.abc import Mapping

from exthost.model.lock_record import LockChange
from exthost.model.text_review import word_diff


def describe_change(change: LockChange) -> str:
    """Return one line about a change, with a word diff of a text."""
    head = _HEADS.get((change.path[0], change.kind))
    name = change.path[1] if len(change.path) > 1 else ""
    if change.path[0] == "tools":
        part = change.path[2] if len(change.path) > 2 else ""
        if part in ("description", "annotations"):
            return f"tool {name}: {part}: {word_diff(change.before, change.after)}"
        if part:
            return f"tool {name}: {part} {change.kind}"
        text = change.after or change.before
        return f"{'new' if change.kind == 'new' else 'removed'} tool {name}: {text}"
    if change.path[0] == "instructions":
        return f"instructions: {word_diff(change.before, change.after)}"
    if head is not None:
        return f"{head} {change.after or change.before}"
    return str(change)


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
