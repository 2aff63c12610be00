"""Write every page below `docs/`, the modules that list the facets, and the typed settings."""

from pathlib import Path

from scripts.reference.facet_modules import facet_modules
from scripts.reference.pages import pages
from scripts.reference.settings_module import settings_module

ROOT = Path(__file__).parents[2]

for folder, files in (("docs", pages()), ("src/exthost", facet_modules() | settings_module())):
    for name, text in files.items():
        file = ROOT / folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
