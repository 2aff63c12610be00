"""The keyword arguments of `Host` as a type, and the check of its config.

The type gives `Host.from_config(…, **settings)` and `SyncHost(…, **settings)` checked arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from exthost.config.host_config import NO_CONFIG, Config
from exthost.errors import UsageError

if TYPE_CHECKING:
    from exthost.extension.confirmation import Confirm
    from exthost.host.background import TraceTarget
    from exthost.session.inbound import Handler


# The defaults of `Host.complete`: how often the model is asked, and how many bytes of each tool's
# output it gets (docs/dialects/synaps.md).
ROUNDS = 8
OUTPUT_BYTES = 30_000


class HostSettings(TypedDict, total=False):
    """The keyword arguments of `Host.from_config` and `SyncHost`, described at `Host.__init__`."""

    handlers: Mapping[str, Handler]
    environ: Mapping[str, str] | None
    confirm: Confirm | None
    harden: bool
    control: bool | str | Path
    trace: TraceTarget
    strict: bool


def check_config(config: Any) -> Config:
    """Return the config; an empty one for None. Raises UsageError for what is not a `Config`, such
    as the path of a config file."""
    if config is None:
        return NO_CONFIG
    if not isinstance(config, Config):
        raise UsageError(
            "X1339",
            f"a host is created from a Config, not from {config!r:.60}",
            help="use from_config for the path of a file or a dict: Host.from_config(...), "
            "SyncHost.from_config(...)",
        )
    return config
