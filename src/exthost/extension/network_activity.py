"""Counts the connections of one extension through its proxy, and reports those that it refused.

A sandboxed extension reaches the network only through a proxy of the host, which allows the targets
in `permissions.network` of the config.
"""

import logging
from collections import Counter
from collections.abc import Callable, Mapping

from exthost.events import Bus, NetworkProxyEnded, NetworkRefused
from exthost.model.empty_mapping import EMPTY_MAPPING
from exthost.process.network_proxy import RefusedTarget

_log = logging.getLogger("exthost.extension")

# How many targets are counted. A program can request connections to any number of names.
MAX_TARGETS = 200
OTHER_TARGETS = "(others)"

# How many targets are logged. All are counted and published.
_MAX_LOGGED = 20


class NetworkActivity:
    """The connections of all processes of one extension. `reached_counts` and `refused_counts` have
    the number of connections by target, such as `api.example.com:443`; `missing_entries` has the
    entry of `permissions.network` that would allow a refused target, if there is one.
    `hide_secrets` returns a text without the secrets of the last process: the extension chooses the
    names that it connects to."""

    __slots__ = (
        "_bus",
        "_extension",
        "_logged",
        "hide_secrets",
        "missing_entries",
        "reached_counts",
        "refused_counts",
    )

    def __init__(self, extension: str, bus: Bus) -> None:
        self._extension = extension
        self._bus = bus
        self.hide_secrets: Callable[[str], str] = str
        # Made when they are used: most extensions have no proxy, and there may be thousands.
        self._logged: set[str] | None = None
        self.reached_counts: Mapping[str, int] = EMPTY_MAPPING
        self.refused_counts: Mapping[str, int] = EMPTY_MAPPING
        self.missing_entries: Mapping[str, str] = EMPTY_MAPPING

    def reached(self, target: str, count: int) -> None:
        """Count connections to a target."""
        self.reached_counts = _add(self.reached_counts, self.hide_secrets(target), count)

    def refused(self, refused: RefusedTarget) -> None:
        """Count connections that were refused, publish that, and log the first of each target."""
        *texts, count = refused
        target, reason, entry = map(self.hide_secrets, texts)
        self.refused_counts = _add(self.refused_counts, target, count)
        # A target beyond MAX_TARGETS was counted under OTHER_TARGETS, which has no entry.
        if entry and target in self.refused_counts:
            self.missing_entries = {**self.missing_entries, target: entry}
        if self._logged is None:
            self._logged = set()
        if target not in self._logged and len(self._logged) < _MAX_LOGGED:
            self._logged.add(target)
            fix = f'; to allow it, add "{entry}" to permissions.network' if entry else ""
            _log.warning(
                "[%s] a connection to %s was refused: %s%s", self._extension, target, reason, fix
            )
        if NetworkRefused in self._bus.listeners:
            self._bus.publish(NetworkRefused(self._extension, target, reason, entry, count))

    def proxy_ended(self, reason: str, is_final: bool) -> None:
        """Log and publish that a proxy ended. `is_final` is whether it is not started again."""
        consequence = "its connections are refused" if is_final else "it was started again"
        level = logging.ERROR if is_final else logging.WARNING
        _log.log(level, "[%s] %s: %s", self._extension, reason, consequence)
        self._bus.publish(NetworkProxyEnded(self._extension, reason, not is_final))


def _add(counts: Mapping[str, int], target: str, count: int) -> Counter[str]:
    """Return the counts with these connections."""
    changed = counts if isinstance(counts, Counter) else Counter(counts)
    has_room = target in changed or len(changed) < MAX_TARGETS
    changed[target if has_room else OTHER_TARGETS] += count
    return changed
