"""One extension as a config describes it, before defaults and overrides are applied.

Every section of a config that describes extensions, whichever dialect it belongs to, is read into
entries, so that settings and names are handled in one place. For example, this is one entry, to
which the timeout is added that it does not set itself:

    [defaults]
    limits = { call = "10s" }

    [[extensions]]
    name = "weather"
    source = { type = "process", command = "weather-server" }
"""

from dataclasses import dataclass
from typing import Any

from exthost.model.documents.problems import WRONG_VALUE, Place
from exthost.model.documents.readers import read_text
from exthost.model.documents.settings import SettingValues
from exthost.model.spec import Spec


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a config.

    base_spec     the Spec (the configuration of the extension for the host) before any setting is
                  applied to it
    own_settings  the settings that the entry itself has, without `[defaults]` and `[overrides]`
    place         where the entry is in its file
    name_key      the key that names the extension, for the error about a duplicate name
    """

    base_spec: Spec
    own_settings: SettingValues
    place: Place
    name_key: str = "name"

    def spec(self, outer: SettingValues, folder: str | None) -> Spec:
        """Return the extension with all settings applied. `outer` are the settings from outside the
        entry (`[overrides]` and `[defaults]`); the entry's own settings take precedence over them.

        If no cwd is set, the extension runs in `folder`, the folder of the config.
        """
        settings = self.own_settings.over(outer)
        if settings.cwd is None and self.base_spec.cwd is None:
            return settings.apply_to(self.base_spec, cwd=folder)
        # `own_cwd` records that the folder was set in the config.
        return settings.apply_to(self.base_spec, own_cwd=True)


def read_name(value: Any, place: Place) -> str | None:
    """Read the name of an extension: text on one line, without control characters."""
    name = read_text(value, place)
    if name is not None and not name.isprintable():
        place.add_problem(WRONG_VALUE, "must not contain line ends or other control characters")
        return None
    return name
