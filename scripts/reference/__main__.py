"""Write every page below `docs/`."""

from pathlib import Path

from scripts.reference.pages import pages

DOCS = Path(__file__).parents[2] / "docs"

for name, text in pages().items():
    file = DOCS / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
