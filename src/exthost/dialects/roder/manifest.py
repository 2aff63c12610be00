"""Parses and checks `roder-extension.toml`, the manifest of a roder extension.

The manifest declares the services and tools of an extension, so that they are known before the
extension is started. `parse` returns a `RoderManifest`, or raises the first error in the order of
docs/dialects/roder.md. Only this dialect reads the fields of a `RoderManifest`.

    id = "weather"
    name = "Weather"
    version = "1.0.0"
    api_version = "^0.1"                # a requirement on the API version of the host
    [[provides]]                        # a service
    type = "tool_provider"
    id = "weather-tools"
    [[provides.tools]]
    name = "forecast"
    description = "Returns the forecast of a city"
    parameters = { type = "object" }    # a JSON Schema

The program to run is in the manifest's `[launch]` if discovery found the manifest. If a config
entry names the manifest, the entry has the program.

`RoderManifest.services` has only the fields that the reply to the handshake must repeat, as plain
JSON values. `RoderManifest.checksum` is the checksum of the file's bytes, which the reply must
repeat, too.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, Final

from exthost.dialects.manifest_format import Accepted, ManifestFile, ManifestFormat
from exthost.dialects.manifest_table import ManifestTable
from exthost.errors import Evidence, ManifestError
from exthost.model.documents.toml_text import parse_toml
from exthost.model.empty_mapping import empty_mapping
from exthost.model.names import nearest
from exthost.model.offer import Tool
from exthost.model.spec import Limits, Spec, UniqueName
from exthost.model.versionreq import NotAVersion, Version, VersionReq

API_VERSION: Final = "0.1.0"

# The constants of FNV-1a with 64 bits. This checksum detects a manifest that is out of date; it
# does not prevent forgery.
_FNV_OFFSET: Final = 0xCBF29CE484222325
_FNV_PRIME: Final = 0x100000001B3

_SERVICE_TYPES: Final = (
    "inference_engine",
    "event_sink",
    "subagent_dispatcher",
    "task_executor",
    "tool_provider",
)

# The highest value of `startup_timeout_ms`.
_MAX_MILLISECONDS: Final = 2**31 - 1

# The deepest nesting of a schema. JSON parsers of other programs have slightly higher limits.
_MAX_DEPTH: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSection:
    """The section `[launch]`: how the extension of a discovered manifest is run.

    command          the program
    args             its arguments
    cwd              its working folder, relative to the manifest's folder; None for that folder
    env              its environment variables
    startup_seconds  the time limit of the start and of the handshake; None for the default
    kinds            the kinds of events that the extension receives
    """

    command: str
    args: tuple[str, ...] = ()
    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=empty_mapping, repr=False)
    startup_seconds: float | None = None
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RoderManifest:
    """A valid manifest. The reply to the handshake must repeat its id, checksum and services."""

    id: str
    name: str
    version: str
    api_version: str
    checksum: str
    services: tuple[Mapping[str, Any], ...]
    description: str = ""
    capabilities: tuple[str, ...] = ()
    launch: LaunchSection | None = None

    def ids(self, service_type: str) -> tuple[str, ...]:
        """Return the ids of the services of this type."""
        return tuple(service["id"] for service in self.services if service["type"] == service_type)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools of all tool providers. `extra["provider"]` is the id of a tool's provider."""
        return tuple(
            Tool(
                tool["name"],
                tool["description"],
                tool["parameters"],
                extra=MappingProxyType({"provider": service["id"]}),
            )
            for service in self.services
            for tool in service.get("tools", ())
        )

    @property
    def unique_names(self) -> tuple[UniqueName, ...]:
        """The names that no other extension of the same host may have."""
        return (
            UniqueName("extension id", self.id),
            *(
                UniqueName("service", f"{service['type']} {service['id']}")
                for service in self.services
            ),
            *(UniqueName("tool name", tool.name) for tool in self.tools),
        )


def checksum(data: bytes) -> str:
    """Return the FNV-1a 64 checksum of these bytes, in 16 hexadecimal digits."""
    value = _FNV_OFFSET
    for byte in data:
        value = (value ^ byte) * _FNV_PRIME & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def parse(data: bytes, path: str = "") -> RoderManifest:
    """Return the manifest in these bytes. Raises ManifestError for the first mistake."""
    table = ManifestTable(_parse_toml(data, path), path, "X0240", "a table")
    manifest = RoderManifest(
        id=table.argument("id"),
        name=table.text("name"),
        version=table.text("version"),
        api_version=table.text("api_version"),
        description=table.text("description", ""),
        checksum=checksum(data),
        services=tuple(_parse_service(entry) for entry in table.tables("provides")),
        capabilities=table.texts("required_capabilities"),
        launch=_parse_launch(table.table("launch")) if "launch" in table.values else None,
    )
    _check(manifest, table)
    return manifest


def _check(manifest: RoderManifest, table: ManifestTable) -> None:
    """Raise ManifestError for the first mistake, in the order of docs/dialects/roder.md."""
    if not manifest.id.strip():
        raise table.error("X0241", "its id is blank", "id")
    if not manifest.services:
        raise table.error("X0242", "it provides no services", "provides")
    try:
        requirement = VersionReq.parse(manifest.api_version)
    except NotAVersion as reason:
        message = f"api_version {manifest.api_version!r} is not a version requirement: {reason}"
        raise table.error("X0243", message, "api_version") from None
    if not requirement.matches(Version.parse(API_VERSION)):
        message = f"it requires API {manifest.api_version}, and this host has {API_VERSION}"
        raise table.error("X0244", message, "api_version")
    for service in manifest.services:
        if service["type"] == "tool_provider":
            _check_tools(service, table)
    names_so_far: set[UniqueName] = set()
    # Capabilities are not in `unique_names`, because several extensions may require the same one.
    # Within one manifest, however, each may be listed only once.
    for unique_name in (
        *manifest.unique_names,
        *(UniqueName("capability", capability) for capability in manifest.capabilities),
    ):
        if unique_name in names_so_far:
            message = f"the {unique_name.kind} {unique_name.name!r} is repeated"
            raise table.error("X0247", message)
        names_so_far.add(unique_name)


def _check_tools(service: Mapping[str, Any], table: ManifestTable) -> None:
    """Raise ManifestError for the first mistake in the tools of a tool provider."""
    provider = f"the tool provider {service['id']!r}"
    if not service["tools"]:
        raise table.error("X0245", f"{provider} has no tools", "provides")
    names: set[str] = set()
    for tool in service["tools"]:
        name, parameters = tool["name"], tool["parameters"]
        if not name.strip():
            raise table.error("X0245", f"{provider} has a tool with a blank name", "provides")
        if name in names:
            raise table.error("X0245", f"{provider} has the tool {name!r} twice", "provides")
        names.add(name)
        if not isinstance(parameters, dict) or parameters.get("type") != "object":
            message = f'the parameters of the tool {name!r} are not a schema of type "object"'
            raise table.error("X0245", message, "provides")


def _parse_service(table: ManifestTable) -> Mapping[str, Any]:
    """Return one entry of `provides`, with only the fields that the handshake must repeat."""
    kind = table.text("type")
    if kind not in _SERVICE_TYPES:
        known = ", ".join(_SERVICE_TYPES)
        error = table.value_error("type", f"unknown service type {kind!r}; the types are: {known}")
        if near := nearest(kind, _SERVICE_TYPES):
            error.help = f"did you mean {near!r}?"
        raise error
    service: dict[str, Any] = {"type": kind, "id": table.text("id")}
    if kind == "tool_provider":
        service["tools"] = [
            {
                "name": tool.text("name"),
                "description": tool.text("description"),
                "parameters": _read_json(tool, "parameters"),
            }
            for tool in table.tables("tools")
        ]
    return MappingProxyType(service)


def _parse_launch(table: ManifestTable) -> LaunchSection:
    env = table.table("env").values if "env" in table.values else {}
    if not all(isinstance(value, str) for value in env.values()):
        raise table.value_error("env", "must be a table whose values are strings")
    if any(not name or "=" in name or "\0" in name + value for name, value in env.items()):
        reason = "a variable's name must be text without = in it, and neither it nor its value may"
        raise table.value_error("env", f"{reason} contain a NUL character")
    milliseconds = table.values.get("startup_timeout_ms")
    if milliseconds is not None and (
        type(milliseconds) is not int or not 1 <= milliseconds <= _MAX_MILLISECONDS
    ):
        raise table.value_error(
            "startup_timeout_ms",
            f"must be a positive whole number of milliseconds, at most {_MAX_MILLISECONDS}",
        )
    return LaunchSection(
        command=table.argument("command"),
        args=table.arguments("args"),
        cwd=table.argument("cwd") if "cwd" in table.values else None,
        env=MappingProxyType(dict(env)),
        startup_seconds=None if milliseconds is None else milliseconds / 1000,
        kinds=table.texts("event_filter_kinds"),
    )


def _read_json(table: ManifestTable, key: str) -> Any:
    if key not in table.values:
        raise table.value_error(key, "is missing")
    if not _is_json(table.values[key], _MAX_DEPTH):
        raise table.value_error(key, "has a value that JSON cannot represent")
    return table.values[key]


def _is_json(value: Any, depth: int) -> bool:
    """Return whether JSON can represent this value: TOML also has dates, nan and inf."""
    if depth == 0:
        return False
    if isinstance(value, dict):
        return all(_is_json(item, depth - 1) for item in value.values())
    if isinstance(value, list):
        return all(_is_json(item, depth - 1) for item in value)
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, int):  # TOML also has hexadecimal numbers of any length
        return -(2**63) <= value < 2**64
    return isinstance(value, str)


def _parse_toml(data: bytes, path: str) -> Mapping[str, Any]:
    try:
        return parse_toml(data.decode("utf-8").removeprefix("\ufeff"))
    except RecursionError:
        reason = "it is nested too deep"
    except ValueError as error:  # not UTF-8, not TOML, or an integer of more than 4300 digits
        reason = str(error)
    raise ManifestError(
        "X0240",
        f"the manifest is not valid TOML: {reason}",
        help="fix that line; see https://toml.io for the syntax",
        evidence=Evidence(path=path),
    )


def read(file: ManifestFile) -> Accepted:
    """Return the extension of a discovered manifest. Raises ManifestError without `[launch]`."""
    manifest = parse(file.data, file.path)
    launch = manifest.launch
    if launch is None:
        raise ManifestError(
            "X0246",
            "the manifest has no [launch], so there is nothing to run",
            extension=manifest.id,
            help="add [launch] command = …, or name it in [[process_extensions]] of a config",
            evidence=Evidence(path=file.path, key="launch"),
        )
    command = launch.command
    if "/" in command:  # a bare name is looked up on PATH
        command = str(PurePosixPath(file.folder, command))
    spec = Spec(
        id=manifest.id,
        argv=(command, *launch.args),
        dialect="roder",
        cwd=str(PurePosixPath(file.folder, launch.cwd or "")),
        env=launch.env,
        limits=Limits(start=launch.startup_seconds, handshake=launch.startup_seconds),
        options=MappingProxyType({"event_filter": {"kinds": list(launch.kinds)}}),
    )
    return Accepted(spec=_add_manifest(spec, manifest))


def join(spec: Spec, file: ManifestFile) -> Spec:
    """Return the spec of a config entry, completed with the manifest that the entry names. All
    values that the manifest does not set, such as the command, remain those of the entry."""
    try:
        return _add_manifest(spec, parse(file.data, file.path))
    except ManifestError as error:
        error.extension = spec.id
        raise


def _add_manifest(spec: Spec, manifest: RoderManifest) -> Spec:
    """Return the spec with the values that the manifest sets."""
    return replace(
        spec,
        version=manifest.version,
        declared_tools=manifest.tools,
        manifest=manifest,
        manifest_path=None,  # the manifest has been read
        wire_id=manifest.id,
        unique_names=manifest.unique_names,
    )


FORMAT = ManifestFormat(dialect="roder", names=("roder-extension.toml",), read=read, join=join)
