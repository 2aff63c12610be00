"""The settings of a host that are given in Python, beside its config."""

from collections.abc import Mapping
from pathlib import Path
from typing import TypedDict

from exthost.host.background import TraceTarget
from exthost.host.hooks import Confirm
from exthost.session.inbound import Handler

__all__ = ["HostSettings"]


class HostSettings(TypedDict, total=False):
    """What `Host.from_config` and `SyncHost` take beside the config."""

    handlers: Mapping[str, Handler]
    environ: Mapping[str, str] | None
    confirm: Confirm | None
    harden: bool
    control: bool | str | Path
    trace: TraceTarget
    strict: bool
