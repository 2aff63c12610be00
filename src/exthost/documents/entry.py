"""One extension as a config describes it, before defaults and overrides are laid over it.

Every section of a config that describes extensions, whichever dialect it belongs to, is read into
entries, so that settings and names are handled in one place.
"""

from dataclasses import dataclass
from typing import Any

from exthost.documents.problems import WRONG_VALUE, Place
from exthost.documents.readers import text
from exthost.documents.settings import Settings, readers
from exthost.model import Spec

# The keys that every entry may have.
SETTING_KEYS = frozenset(readers(None))


@dataclass(frozen=True, slots=True)
class Entry:
    """What one entry says. `bare` is its Spec before any setting, its own included."""

    bare: Spec
    own: Settings
    place: Place
    name_key: str = "name"

    def spec(self, outer: Settings, folder: str | None) -> Spec:
        """The extension as wanted, where `outer` is all that holds beyond the entry itself.

        Without a word about it, a child runs in the config's folder.
        """
        settings = self.own.over(outer)
        if settings.cwd is None and self.bare.cwd is None:
            return settings.onto(self.bare, cwd=folder)
        return settings.onto(self.bare, own_cwd=True)


def name(value: Any, place: Place) -> str | None:
    """How an extension is called: text that can stand in a line of a list."""
    said = text(value, place)
    if said is not None and not said.isprintable():
        place.wrong(WRONG_VALUE, "must not hold line ends or other control characters")
        return None
    return said


def remote_server(transport: str) -> str:
    """Return why a server that is reached over the network is not run."""
    how = f" ({transport})" if transport else ""
    return f"it is reached by a URL{how}, not over stdio: it runs by itself and is only listed"
