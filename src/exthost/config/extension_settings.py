"""The keys of an `[[extensions]]` entry as TypedDicts, for programs that pass them to `connect`.
Written by `make reference`: do not edit.

At run time the values are checked like those of a file, by `entry` and `documents.settings`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypedDict

Duration: TypeAlias = float | str
"""Seconds, or text with a unit such as "500ms"."""

Size: TypeAlias = int | str
"""Bytes, or text with a unit such as "256MiB"."""


class LimitSettings(TypedDict, total=False):
    start: Duration
    handshake: Duration
    call: Duration
    idle: Duration
    write: Duration
    stop: Duration
    max_message: Size
    max_in_flight: int
    cpu: Duration
    nofile: int
    fsize: Size
    nproc: int
    store: Size
    result: Size


class RestartSettings(TypedDict, total=False):
    strategy: Literal["never", "immediate", "exponential", "on-demand"]
    initial_delay: Duration
    max_delay: Duration
    max_retries: int | Literal["unlimited"]
    window: Duration


class BreakerSettings(TypedDict, total=False):
    failures: int
    open: Duration
    max_open: Duration
    successes: int
    count_error_replies: bool


class PoolSettings(TypedDict, total=False):
    min: int
    max: int
    engine: Literal["ray", "local"]
    per_node: int
    resources: Mapping[str, float]
    spread: bool
    labels: Mapping[str, str]
    files: Literal["present", "sent", "runtime-env"]
    image: str


class PermissionSettings(TypedDict, total=False):
    network: bool | Sequence[str]
    filesystem: Sequence[str]
    max_memory: Size
    max_execution_time: Duration


class ExtensionSettings(TypedDict, total=False):
    """The keyword arguments of `connect`, besides the command and the dialect."""

    name: str
    enabled: bool
    protocol: Literal["stdio"]
    manifest: str
    config: Any
    limits: LimitSettings
    restart: RestartSettings
    breaker: BreakerSettings
    pool: PoolSettings
    permissions: PermissionSettings
    sandbox: Literal["strict", "best-effort", "landlock", "off"]
    env: Mapping[str, str | Mapping[str, str]] | Sequence[str]
    inject: Any
    env_policy: Literal["filtered", "minimal", "declared"]
    cwd: str
    sha256: str | Mapping[str, str]
    retry: Literal["never", "once"]
    start: Literal["eager", "lazy"]
    lifetime: Literal["tree", "plain"]
    start_method: Literal["execute", "template"]
    isolation: Literal["process", "call"]
    on_weaker: Literal["refuse", "warn"]
    share: bool
    hooks: Mapping[str, Any]
    tools: Any
    options: Mapping[str, Any]
    args: Sequence[str]
