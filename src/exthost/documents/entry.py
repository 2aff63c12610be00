"""One extension as a config describes it, before defaults and overrides are applied.

Every section of a config that describes extensions, whichever dialect it belongs to, is read into
entries, so that settings and names are handled in one place.
"""

from dataclasses import dataclass
from typing import Any

from exthost.documents.problems import WRONG_VALUE, Place
from exthost.documents.readers import text
from exthost.documents.settings import Settings
from exthost.spec import Spec


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry. `bare` is its Spec before any setting is applied, `own` are its own settings."""

    bare: Spec
    own: Settings
    place: Place
    name_key: str = "name"

    def spec(self, outer: Settings, folder: str | None) -> Spec:
        """Return the extension as configured. `outer` are the settings from outside the entry.

        If no cwd is set, the child runs in the config's folder.
        """
        settings = self.own.over(outer)
        if settings.cwd is None and self.bare.cwd is None:
            return settings.onto(self.bare, cwd=folder)
        return settings.onto(self.bare, own_cwd=True)


def name(value: Any, place: Place) -> str | None:
    """Read the name of an extension: text that can be shown on one line."""
    read = text(value, place)
    if read is not None and not read.isprintable():
        place.wrong(WRONG_VALUE, "must not contain line ends or other control characters")
        return None
    return read


def remote_server(transport: str) -> str:
    """Return the reason why a server that is reached over the network is not run."""
    how = f" ({transport})" if transport else ""
    return f"it is reached by a URL{how}, not over stdio: it runs by itself and is only listed"
