"""Hooks of mkdocs: turn pages that are written for the repository into pages of the site.

A page that `mkdocs.yml` does not name is listed under "More". A link to a file outside `docs/`
becomes the name of the file. The title of a fenced block, which names the file to save it as, is
quoted for the highlighter.
"""

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"

_LINK = re.compile(r"\[([^\]]+)\]\((\.\.?/[^)#\s]+|[^):#\s]+\.json)(#[^)\s]*)?\)")
_TITLE = re.compile(r"^(\s*```\S+) title=([^\s\"]+)$", re.MULTILINE)


def on_config(config: Any) -> Any:
    """Add the pages that the navigation does not name."""
    named = str(config.nav)
    pages = sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))
    others = [page for page in pages if f"'{page}'" not in named]
    if others:
        config.nav.append({"More": others})
    return config


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Return the text of a page as the site shows it."""
    folder = (DOCS / page.file.src_uri).parent

    def link(match: re.Match[str]) -> str:
        target = (folder / match[2]).resolve()
        if target.is_relative_to(DOCS) and target.suffix == ".md":
            return match[0]
        if target.is_relative_to(DOCS / "images"):
            return match[0]
        return f"{match[1]} (`{target.relative_to(ROOT)}`)"

    return _TITLE.sub(r'\1 title="\2"', _LINK.sub(link, markdown))
