"""A hook of the build: the README for the package index has absolute links.

In the repository the links of the README are relative, so that they work in every checkout and
branch. On an index they would lead nowhere.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

# The target of a Markdown link that has neither a scheme nor only an anchor.
_RELATIVE_LINK = re.compile(r"\]\((?![a-z]+:|#)([^)\s]+)\)")


def make_absolute(text: str, base: str) -> str:
    """Return Markdown whose relative links begin with `base`."""
    return _RELATIVE_LINK.sub(rf"]({base.rstrip('/')}/\1)", text)


class ReadmeHook(MetadataHookInterface):
    """Sets the field `readme` of the package."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Replace the readme by one with absolute links."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        base = metadata["urls"]["Source"]
        content = {"content-type": "text/markdown", "text": make_absolute(text, base)}
        metadata["readme"] = content
