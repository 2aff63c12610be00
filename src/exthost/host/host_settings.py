"""The keyword arguments of `Host`, as a type: settings that a program gives, not a config file."""

from collections.abc import Mapping
from pathlib import Path
from typing import TypedDict

from exthost.host.background import TraceTarget
from exthost.host.hooks import Confirm
from exthost.session.inbound import Handler

__all__ = ["HostSettings"]


class HostSettings(TypedDict, total=False):
    """The keyword arguments of `Host.from_config` and `SyncHost`, described at `Host.__init__`."""

    handlers: Mapping[str, Handler]
    environ: Mapping[str, str] | None
    confirm: Confirm | None
    harden: bool
    control: bool | str | Path
    trace: TraceTarget
    strict: bool
