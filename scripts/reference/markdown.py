"""Makes Markdown tables and prose, and escapes text that would have a meaning in Markdown."""

import re
from collections.abc import Iterable, Sequence

# A line of an aligned list in a docstring, such as `shared    whether …`, and its second line.
_ENTRY = re.compile(r"(\w[\w, ]*?) {2,}(\S.*)")
_MORE = re.compile(r" {4,}(\S.*)")

NOTICE = "<!-- Written by `make reference` from the code. Do not edit. -->\n"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table, or "" without rows."""
    lines = [_row(row) for row in rows]
    if not lines:
        return ""
    return "\n".join([_row(header), _row(["---"] * len(header)), *lines]) + "\n"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def prose(doc: str) -> str:
    """Return a docstring as Markdown. An aligned list of names and their meanings, which Markdown
    would join into one paragraph, becomes a table."""
    return "\n\n".join(_as_table(paragraph) or paragraph for paragraph in doc.split("\n\n"))


def _as_table(paragraph: str) -> str:
    """Return an aligned list as a table; "" if the paragraph is not such a list."""
    rows: list[tuple[str, str]] = []
    for line in paragraph.splitlines():
        if entry := _ENTRY.fullmatch(line):
            rows.append((code(entry[1]), entry[2]))
        elif rows and (more := _MORE.fullmatch(line)):
            name, meaning = rows[-1]
            rows[-1] = (name, f"{meaning} {more[1]}")
        else:
            return ""
    return table(("Name", "Meaning"), rows).rstrip("\n")


def code(text: str) -> str:
    """Return text as code, or "" if it is empty."""
    return f"`{text}`" if text else ""


def page(title: str, *parts: str) -> str:
    """Return a whole page."""
    body = "\n".join(part.strip("\n") + "\n" for part in parts if part)
    return f"# {title}\n\n{NOTICE}\n{body}"
