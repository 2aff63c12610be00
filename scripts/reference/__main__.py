"""Write every page below `docs/`, and the modules that list the facets."""

from pathlib import Path

from scripts.reference.facet_modules import facet_modules
from scripts.reference.pages import pages

ROOT = Path(__file__).parents[2]

for folder, files in (("docs", pages()), ("src/exthost", facet_modules())):
    for name, text in files.items():
        file = ROOT / folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
