"""Makes Markdown tables, and escapes text so that it has no special meaning in Markdown."""

from collections.abc import Iterable, Sequence

NOTICE = "<!-- Written by `make reference` from the code. Do not edit. -->\n"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table, or "" without rows."""
    lines = [_row(row) for row in rows]
    if not lines:
        return ""
    return "\n".join([_row(header), _row(["---"] * len(header)), *lines]) + "\n"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def code(text: str) -> str:
    """Return text as code, or "" if it is empty."""
    return f"`{text}`" if text else ""


def page(title: str, *parts: str) -> str:
    """Return a whole page."""
    body = "\n".join(part.strip("\n") + "\n" for part in parts if part)
    return f"# {title}\n\n{NOTICE}\n{body}"
