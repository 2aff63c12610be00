"""Parses the requests of a synaps plugin to its host: memory and config.

A plugin is synaps' name for an extension. Each method is a `HostRequest`. Its first function checks
the permissions of the plugin and the params, in the order of docs/dialects/synaps.md, and returns
an action, a value that is the same in every dialect and that the host carries out. For a wrong
parameter, a missing permission or the namespace of another plugin it raises CallFailed; the plugin
receives the message with the JSON-RPC code -32602, and the host's log has the code X075x, which
`errors.toml` explains. The second function makes the reply from the
result of the action. For example:

    memory.append {"namespace": "notes", "content": "likes tea"}    a request of the plugin `notes`
    Remember("likes tea")                                           the action
    {"ok": true, "timestamp_ms": 1795050000000}                     the reply
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from exthost.dialects import host_requests
from exthost.dialects.synaps.manifest import PERMISSIONS, SynapsManifest
from exthost.errors import CallFailed
from exthost.model.messages import Notification
from exthost.model.spec import Spec

_BAD_PARAMS = -32602
_MAX_CONTENT_BYTES = 16 * 1024
_MAX_KEY_BYTES = 1024
_FORBIDDEN_IN_KEYS = "./ "
# A permission that is never granted. A manifest that requests it is refused when it is read.
_RESERVED = "tools.override"


def granted_permissions(manifest: Any, options: Mapping[str, Any]) -> frozenset[str]:
    """Return the permissions of a plugin, which its manifest lists. A plugin without a manifest,
    such as a command after `--` on the command line, gets the permissions in `options.permissions`,
    by default all except the reserved permission."""
    if isinstance(manifest, SynapsManifest):
        return frozenset(manifest.permissions)
    names = options.get("permissions", PERMISSIONS)
    return frozenset(
        permission for permission in names if permission in PERMISSIONS and permission != _RESERVED
    )


def _refusal_error(code: str, message: str) -> CallFailed:
    return CallFailed(code, message, error_code=_BAD_PARAMS, error_message=message)


def _require_permission(spec: Spec, permission: str) -> None:
    if permission not in granted_permissions(spec.manifest, spec.options):
        raise _refusal_error("X0752", f"permission denied: {permission} required")


def _text(params: Any, name: str) -> str:
    """Return a parameter that must be text. Raises CallFailed otherwise."""
    value = params.get(name) if type(params) is dict else None
    if type(value) is not str:
        raise _refusal_error("X0751", f"missing or invalid parameter {name!r}: it must be text")
    return _check_unicode(value, name)


def _check_unicode(value: str, name: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:  # a lone surrogate, which Node can send
        raise _refusal_error("X0751", f"the parameter {name!r} is not valid Unicode") from None
    return value


def _check_namespace(spec: Spec, params: Any) -> None:
    namespace = _text(params, "namespace")
    if namespace != spec.id:
        message = f"the namespace must be the extension's id {spec.id!r}, not {namespace[:80]!r}"
        raise _refusal_error("X0753", message)


def _parse_append(spec: Spec, params: Any) -> host_requests.Remember:
    """Parse `memory.append`."""
    _require_permission(spec, "memory.write")
    _check_namespace(spec, params)
    content = _text(params, "content")
    size = len(content.encode())
    if size > _MAX_CONTENT_BYTES:
        raise _refusal_error(
            "X0751", f"the content has {size} bytes, and {_MAX_CONTENT_BYTES} are allowed"
        )
    tags = params.get("tags")
    if tags is not None and (type(tags) is not list or any(type(tag) is not str for tag in tags)):
        raise _refusal_error("X0751", "tags must be a list of text")
    return host_requests.Remember(
        content, tuple(_check_unicode(tag, "tags") for tag in tags or ()), params.get("meta")
    )


def _parse_query(spec: Spec, params: Any) -> host_requests.Recall:
    """Parse `memory.query`. A filter of the wrong type is ignored, as synaps itself does."""
    _require_permission(spec, "memory.read")
    _check_namespace(spec, params)
    limit = _optional_count(params, "limit")
    return host_requests.Recall(
        _optional_text(params, "content_contains"),
        _optional_text(params, "tag_prefix"),
        _optional_count(params, "since_ms"),
        _optional_count(params, "until_ms"),
        host_requests.Recall().limit if limit is None else limit,  # the default limit of Recall
    )


def _optional_text(params: dict[str, Any], name: str) -> str | None:
    value = params.get(name)
    return _check_unicode(value, name) if type(value) is str else None


def _optional_count(params: dict[str, Any], name: str) -> int | None:
    value = params.get(name)
    return value if type(value) is int and 0 <= value < 2**64 else None


def _key(params: Any) -> str:
    """Return the config key in the params. Raises CallFailed if it is not valid."""
    key = _text(params, "key").strip()
    if not key:
        raise _refusal_error("X0751", "the config key is empty")
    if any(char in key for char in _FORBIDDEN_IN_KEYS):
        raise _refusal_error("X0751", "a config key has no dots, slashes or spaces")
    if len(key.encode()) > _MAX_KEY_BYTES:
        raise _refusal_error("X0751", f"a config key has at most {_MAX_KEY_BYTES} bytes")
    return key


def _parse_get(spec: Spec, params: Any) -> host_requests.ReadConfig:
    """Parse `config.get`. It needs no permission: a plugin can read only its own config."""
    return host_requests.ReadConfig(_key(params))


def _parse_set(spec: Spec, params: Any) -> host_requests.WriteConfig:
    _require_permission(spec, "config.write")
    return host_requests.WriteConfig(_key(params), _text(params, "value"))


def _parse_subscribe(spec: Spec, params: Any) -> host_requests.WatchConfig:
    _require_permission(spec, "config.subscribe")
    keys = params.get("keys") if type(params) is dict else None
    if keys is None:
        return host_requests.WatchConfig(None, _make_change_notification)
    if type(keys) is not list or any(type(key) is not str for key in keys):
        raise _refusal_error("X0751", "keys must be a list of text")
    # A key that `_key` would refuse is accepted here: it is never set, so it never changes.
    return host_requests.WatchConfig(
        tuple(_check_unicode(key, "keys").strip() for key in keys), _make_change_notification
    )


def _make_change_notification(key: str, value: str) -> Notification:
    return Notification("config.changed", {"key": key, "value": value})


def _make_query_result(spec: Spec, memories: Any) -> Any:
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


def _make_ok_result(spec: Spec, _: Any) -> Any:
    return {"ok": True}


HOST_REQUESTS = MappingProxyType(
    {
        "memory.append": host_requests.HostRequest(
            _parse_append, lambda _, timestamp_ms: {"ok": True, "timestamp_ms": timestamp_ms}
        ),
        "memory.query": host_requests.HostRequest(_parse_query, _make_query_result),
        "config.get": host_requests.HostRequest(_parse_get, lambda _, value: {"value": value}),
        "config.set": host_requests.HostRequest(_parse_set, _make_ok_result),
        "config.subscribe": host_requests.HostRequest(_parse_subscribe, _make_ok_result),
    }
)
