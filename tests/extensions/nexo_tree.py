"""Helpers that write extensions of the dialect nexo, for tests of their discovery.

A nexo extension is a folder with a manifest `plugin.toml`, which a host finds in the search paths
of its config. The config can be an `extensions.yaml`, with the settings of discovery only.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from exthost.config import Config, config_from_mapping

CHILD = Path(__file__).parent / "nexo_child.py"


def write_plugin(
    folder: Path,
    id: str,
    *,
    behaviour: dict[str, Any] | None = None,
    tools: Sequence[str] = ("echo",),
    more: str = "",
    plugin_more: str = "",
    capabilities: str = "",
) -> Path:
    """Write an extension that runs `nexo_child.py`; return the path of its manifest.

    `behaviour` is what nexo_child.py does. `plugin_more` and `capabilities` are further lines of
    these tables of the manifest, and `more` are further tables.
    """
    folder.mkdir(parents=True, exist_ok=True)
    args = ["-S", "-E", str(CHILD), json.dumps(behaviour or {})]
    path = folder / "plugin.toml"
    rewrite(
        path,
        f'[plugin]\nid = "{id}"\nversion = "1.0.0"\n{plugin_more}\n'
        f"[capabilities]\ntools = {json.dumps(list(tools))}\n{capabilities}\n"
        f'[transport]\nkind = "stdio"\ncommand = {json.dumps(sys.executable)}\n'
        f"args = {json.dumps(args)}\n{more}\n",
    )
    return path


def rewrite(path: Path, text: str) -> None:
    """Replace a file in one step, as editors do."""
    new = path.with_name(f".{path.name}.new")
    new.write_text(text)
    new.replace(path)


def config(root: Path, **discovery: Any) -> Config:
    """Return a config with `root` as its search path."""
    return config_from_mapping({"discovery": {"search_paths": [str(root)], **discovery}})


def write_yaml(folder: Path, **settings: Any) -> Path:
    """Write an extensions.yaml with these settings, and return its path. JSON is valid YAML."""
    path = folder / "extensions.yaml"
    path.write_text("extensions: " + json.dumps(settings))
    return path
