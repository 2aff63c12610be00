"""Requests of a synaps plugin to its host: memory and config, limited by its permissions.

Each method is a `HostRequest`. Params and permissions are checked here, in the order of
docs/dialects/synaps.md; the result is an action that any host can run. A refusal is a CallFailed
whose code the plugin sees: -32602 for a wrong parameter, a missing permission or the namespace of
another plugin.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from exthost.dialects.host_requests import (
    HostRequest,
    ReadConfig,
    Recall,
    Remember,
    WatchConfig,
    WriteConfig,
)
from exthost.dialects.synaps.manifest import PERMISSIONS, Manifest
from exthost.errors import CallFailed
from exthost.messages import Notification
from exthost.spec import Spec

_BAD_PARAMS = -32602
_CONTENT_BYTES = 16 * 1024
_KEY_SIGNS = "./ "
_RESERVED = "tools.override"


def granted(manifest: Any, options: Mapping[str, Any]) -> frozenset[str]:
    """Return the permissions of a plugin. A plugin that was started by its bare command has no
    manifest: it has all permissions, or those of `options.permissions`."""
    if isinstance(manifest, Manifest):
        return frozenset(manifest.permissions)
    granted_names = options.get("permissions", PERMISSIONS)
    return frozenset(
        permission
        for permission in granted_names
        if permission in PERMISSIONS and permission != _RESERVED
    )


def _no(code: str, message: str) -> CallFailed:
    return CallFailed(code, message, error_code=_BAD_PARAMS, error_message=message)


def _need(spec: Spec, permission: str) -> None:
    if permission not in granted(spec.manifest, spec.options):
        raise _no("X0752", f"permission denied: {permission} required")


def _text(params: Any, name: str) -> str:
    value = params.get(name) if type(params) is dict else None
    if type(value) is not str:
        raise _no("X0751", f"missing or invalid parameter {name!r}: it must be text")
    return _sound(value, name)


def _sound(value: str, name: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:  # a lone surrogate, which Node can send
        raise _no("X0751", f"the parameter {name!r} is not valid Unicode") from None
    return value


def _own_namespace(spec: Spec, params: Any) -> None:
    namespace = _text(params, "namespace")
    if namespace != spec.id:
        message = f"the namespace must be the extension's id {spec.id!r}, and is {namespace[:80]!r}"
        raise _no("X0753", message)


def _remember(spec: Spec, params: Any) -> Remember:
    _need(spec, "memory.write")
    _own_namespace(spec, params)
    content = _text(params, "content")
    size = len(content.encode())
    if size > _CONTENT_BYTES:
        raise _no("X0751", f"the content has {size} bytes, and {_CONTENT_BYTES} are allowed")
    tags = params.get("tags")
    if tags is not None and (type(tags) is not list or any(type(tag) is not str for tag in tags)):
        raise _no("X0751", "tags must be a list of text")
    return Remember(content, tuple(_sound(tag, "tags") for tag in tags or ()), params.get("meta"))


def _recall(spec: Spec, params: Any) -> Recall:
    """Optional filters of the wrong type are ignored."""
    _need(spec, "memory.read")
    _own_namespace(spec, params)
    limit = _count(params, "limit")
    return Recall(
        _filter(params, "content_contains"),
        _filter(params, "tag_prefix"),
        _count(params, "since_ms"),
        _count(params, "until_ms"),
        Recall().limit if limit is None else limit,
    )


def _filter(params: dict[str, Any], name: str) -> str | None:
    value = params.get(name)
    return _sound(value, name) if type(value) is str else None


def _count(params: dict[str, Any], name: str) -> int | None:
    value = params.get(name)
    return value if type(value) is int and 0 <= value < 2**64 else None


def _key(params: Any) -> str:
    key = _text(params, "key").strip()
    if not key:
        raise _no("X0751", "the config key is empty")
    if any(sign in key for sign in _KEY_SIGNS):
        raise _no("X0751", "a config key has no dots, slashes or spaces")
    return key


def _read_config(spec: Spec, params: Any) -> ReadConfig:
    return ReadConfig(_key(params))


def _write_config(spec: Spec, params: Any) -> WriteConfig:
    _need(spec, "config.write")
    return WriteConfig(_key(params), _text(params, "value"))


def _watch_config(spec: Spec, params: Any) -> WatchConfig:
    _need(spec, "config.subscribe")
    keys = params.get("keys") if type(params) is dict else None
    if keys is None:
        return WatchConfig(None, _changed)
    if type(keys) is not list or any(type(key) is not str for key in keys):
        raise _no("X0751", "keys must be a list of text")
    return WatchConfig(tuple(key.strip() for key in keys), _changed)


def _changed(key: str, value: str) -> Notification:
    return Notification("config.changed", {"key": key, "value": value})


def _records(spec: Spec, memories: Any) -> Any:
    return {
        "records": [
            {
                "namespace": spec.id,
                "timestamp_ms": memory.timestamp_ms,
                "content": memory.content,
                "tags": list(memory.tags),
            }
            | ({} if memory.meta is None else {"meta": memory.meta})
            for memory in memories
        ]
    }


def _ok(spec: Spec, _: Any) -> Any:
    return {"ok": True}


HOST_REQUESTS = MappingProxyType(
    {
        "memory.append": HostRequest(_remember, lambda _, at: {"ok": True, "timestamp_ms": at}),
        "memory.query": HostRequest(_recall, _records),
        "config.get": HostRequest(_read_config, lambda _, value: {"value": value}),
        "config.set": HostRequest(_write_config, _ok),
        "config.subscribe": HostRequest(_watch_config, _ok),
    }
)
