"""Generates all pages: the path of each file, and its text."""

import json

from exthost.config.json_schema import json_schema
from exthost.dialects import find
from scripts.reference.api_page import api_page
from scripts.reference.cli_page import cli_page
from scripts.reference.config_page import config_page
from scripts.reference.errors_page import errors_page
from scripts.reference.events_page import events_page
from scripts.reference.facets_page import facets_page
from scripts.reference.pictures import architecture_picture, lifecycle_picture
from scripts.reference.trials_page import trials_page


def pages() -> dict[str, str]:
    """Return the text of each file, by its path below `docs/`."""
    schema = json_schema([find.find_package(name) for name in find.BUILT_IN])
    return {
        "exthost.schema.json": json.dumps(schema, indent=2, ensure_ascii=False) + "\n",
        "images/architecture.svg": architecture_picture(),
        "images/lifecycle.svg": lifecycle_picture(),
        "reference/api.md": api_page(),
        "reference/cli.md": cli_page(),
        "reference/config.md": config_page(),
        "reference/errors.md": errors_page(),
        "reference/events.md": events_page(),
        "reference/facets.md": facets_page(),
        "reference/trials.md": trials_page(),
    }
