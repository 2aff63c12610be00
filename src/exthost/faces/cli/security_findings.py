"""Finds what is weak in a config, for `exthost doctor --security`: each finding with the line that
fixes it. Nothing is started."""

import os
import shlex
import stat
from collections.abc import Iterator
from typing import NamedTuple

from exthost.config.discovery.configfile import ConfiguredExtensions
from exthost.config.discovery.locked_specs import read_lock_state
from exthost.config.lock_file import LOCK_NAME
from exthost.launch.bridge import is_remote, server_host
from exthost.launch.locked_code import mask_url_secrets
from exthost.model.documents.remote_server import keys_of_variables
from exthost.model.names import variable_name
from exthost.model.secret_names import is_secret_name, looks_secret
from exthost.model.spec import Spec, ValueReference

# The code of the diagnostic for a config that others can write.
_OPEN_FILE = "X0113"


class Weakness(NamedTuple):
    """One weak point. `kind` is its class, `extension` an id or "", and `fix` the line to write or
    to run."""

    kind: str
    extension: str
    message: str
    fix: str


def find_weaknesses(configured: ConfiguredExtensions) -> list[Weakness]:
    """Return what is weak in a config: first what concerns all of it, then each extension."""
    found = [*_find_lock(configured), *_find_hooks(configured), *_find_writable_files(configured)]
    for spec in configured.specs:
        if spec.enabled:
            found += [
                *_find_sandbox(configured, spec),
                *_find_grants(configured, spec),
                *_find_secrets(spec),
                *_find_spec_hooks(spec),
                *_find_code(spec),
            ]
    return found


def _place(configured: ConfiguredExtensions, spec: Spec, line: str) -> str:
    """Return a setting with the place in the config where it belongs."""
    if spec.id in configured.entry_ids:
        return f"{line}  # in the entry of {spec.id}"
    return f"[overrides.{_key(spec.id)}] {line}"


def _key(id: str) -> str:
    """Return an id as a key of a TOML table, in quotation marks if it needs them."""
    return id if id.replace("-", "").replace("_", "").isalnum() and id.isascii() else f'"{id}"'


def _find_lock(configured: ConfiguredExtensions) -> Iterator[Weakness]:
    """Yield findings about a lock (`exthost.lock`, the record of the approved extensions) that is
    missing or not enforced, and about new extensions that are started unasked."""
    state = read_lock_state(configured.config)
    if state.problem is not None:
        yield Weakness("lock", "", f"{LOCK_NAME} cannot be used: {state.problem}", "exthost lock")
    elif configured.config.trust.lock in ("off", "warn"):
        setting = configured.config.trust.lock
        message = f"the lock is not enforced: [trust] lock is {setting!r}"
        yield Weakness("lock", "", message, '[trust] lock = "enforce"')
    elif state.lock is None:
        message = "there is no lock: a program or a tool can change without anybody noticing"
        yield Weakness("lock", "", message, "exthost lock")
    has_discovery = configured.config.discovery is not None
    if has_discovery and (configured.config.trust.new or "allow") == "allow" and state.lock is None:
        message = "every extension that appears in a search path is started unasked"
        yield Weakness("new", "", message, '[trust] new = "ask"')


def _find_hooks(configured: ConfiguredExtensions) -> Iterator[Weakness]:
    """Yield a finding for each kind of hook that fails open: if a guard (a hook that judges calls)
    fails, the call is made."""
    for kind, policy in configured.config.hooks.items():
        if policy == "open":
            what = "every hook" if kind == "*" else kind
            message = f"a call that a guard could not judge is made ({what} fails open)"
            yield Weakness("guard", "", message, '[hooks] on_failure = "closed"')


def _find_writable_files(configured: ConfiguredExtensions) -> Iterator[Weakness]:
    for diagnostic in configured.diagnostics:
        if diagnostic.code == _OPEN_FILE:
            # The help of this diagnostic ends with the command that fixes it.
            fix = diagnostic.help.rpartition(": ")[2]
            yield Weakness("file", "", f"{diagnostic.path}: {diagnostic.message}", fix)


def _find_sandbox(configured: ConfiguredExtensions, spec: Spec) -> Iterator[Weakness]:
    """Yield a finding if an extension has no sandbox, or one that may be weak."""
    if spec.sandbox == "off":
        message = "its sandbox is off: it can do what you can do"
        yield Weakness("sandbox", spec.id, message, _place(configured, spec, 'sandbox = "strict"'))
    elif spec.permissions is None:
        message = "it has no sandbox: it can do what you can do"
        # If the URL of a remote server is only referred to, the host to grant is unknown.
        is_unknown = is_remote(spec) and not server_host(spec)
        line = "permissions = { network = true }" if is_unknown else "permissions = {}"
        yield Weakness("sandbox", spec.id, message, _place(configured, spec, line))
    elif spec.sandbox in ("best-effort", "landlock"):
        message = "its sandbox may be weaker than its permissions say"
        yield Weakness("sandbox", spec.id, message, _place(configured, spec, 'sandbox = "strict"'))


def _find_grants(configured: ConfiguredExtensions, spec: Spec) -> Iterator[Weakness]:
    """Yield findings about permissions that grant more files than an extension usually needs, or
    files together with the whole network."""
    permissions = spec.permissions
    if permissions is None or spec.sandbox == "off":
        return
    home = os.path.realpath(os.path.expanduser("~"))  # noqa: PTH111
    project = os.path.realpath(configured.config.folder or "/nowhere")
    for entry in permissions.filesystem:  # such as "~/notes:rw" or "/srv/data"
        may_write = entry.endswith(":rw")
        text = os.path.expanduser(entry.removesuffix(":rw").removesuffix(":ro"))  # noqa: PTH111
        path = os.path.realpath(os.path.join(spec.cwd or "", text))  # noqa: PTH118
        is_wide = path in ("/", "/etc", "/home", "/usr", "/var", "/root")
        has_home = f"{home}/".startswith(f"{path.rstrip('/')}/")  # the home folder or one above it
        if is_wide or has_home:
            message = f"the grant {entry} covers the files of everything on this machine, or yours"
        elif may_write and f"{project}/".startswith(f"{path.rstrip('/')}/"):
            message = f"the grant {entry} lets it write the whole project"
        else:
            continue
        narrow = _place(configured, spec, 'permissions.filesystem = ["./data"]')
        yield Weakness("grant", spec.id, message, narrow)
    if permissions.network is True and any(
        entry.endswith(":rw") for entry in permissions.filesystem
    ):
        message = "it can read and write granted files, and send them anywhere (network = true)"
        fix = _place(configured, spec, 'permissions.network = ["api.example.com:443"]')
        yield Weakness("grant", spec.id, message, fix)


def _find_secrets(spec: Spec) -> Iterator[Weakness]:
    """Yield a finding for each secret that the config has in plain text."""
    if is_remote(spec):
        yield from _find_remote_secrets(spec)
        return
    for name, value in spec.env.items():
        if looks_secret(name) and value and not isinstance(value, ValueReference):
            message = f"the value of {name} is in plain text in {spec.origin or 'the config'}"
            yield Weakness("secret", spec.id, message, f'env.{name} = {{ from = "{name}" }}')
    for word in spec.argv[1:]:
        name = word.partition("=")[0].lstrip("-")
        if word.startswith("-") and is_secret_name(name):
            message = f"its command line has {word.partition('=')[0]}, which every process can read"
            variable = name.replace("-", "_").upper()
            yield Weakness(
                "secret", spec.id, message, f'env.{variable} = {{ from = "{variable}" }}'
            )


def _find_remote_secrets(spec: Spec) -> Iterator[Weakness]:
    """Yield a finding for each secret of a remote server (its URL, headers and token)."""
    keys = ["url"] if spec.argv and mask_url_secrets(spec.argv[0]) != spec.argv[0] else []
    for variable, key in keys_of_variables(spec.argv).items():
        value = spec.env.get(variable)
        name = key.removeprefix("headers.").replace("-", "_")
        is_secret = name.lower() in ("token", "authorization") or looks_secret(name)
        if is_secret and value and not isinstance(value, ValueReference):
            keys.append(key)
    for key in keys:
        message = f"the value of {key} is in plain text in {spec.origin or 'the config'}"
        variable = variable_name(f"{spec.id}_{key.removeprefix('headers.')}")
        yield Weakness("secret", spec.id, message, f'{key} = {{ from = "{variable}" }}')


def _find_spec_hooks(spec: Spec) -> Iterator[Weakness]:
    for kind, policy in spec.hooks.items():
        if policy == "open":
            what = "its hooks" if kind == "*" else kind
            message = f"a call that it could not judge is made ({what} fail open)"
            yield Weakness("guard", spec.id, message, 'hooks = { on_failure = "closed" }')


def _find_code(spec: Spec) -> Iterator[Weakness]:
    """Yield findings about the files that the extension runs."""
    if spec.lock is not None and spec.lock.record.unknown_code and not is_remote(spec):
        message = f"the lock does not cover its code: {spec.lock.record.unknown_code}"
        yield Weakness("lock", spec.id, message, "run a script or an exact version: npx NAME@1.2.3")
    paths = [word for word in spec.argv if "/" in word or word.endswith((".py", ".js"))]
    for word in paths:
        path = os.path.join(spec.cwd or "", word)  # noqa: PTH118
        for place in (path, os.path.dirname(os.path.realpath(path))):  # noqa: PTH120
            if _is_world_writable(place):
                message = f"every user of this machine can write {place}, which it runs"
                yield Weakness("file", spec.id, message, f"chmod o-w {shlex.quote(place)}")


def _is_world_writable(path: str) -> bool:
    try:
        status = os.stat(path)  # noqa: PTH116
    except (OSError, ValueError):
        return False
    is_sticky = stat.S_ISDIR(status.st_mode) and bool(status.st_mode & stat.S_ISVTX)
    return bool(status.st_mode & stat.S_IWOTH) and not is_sticky
