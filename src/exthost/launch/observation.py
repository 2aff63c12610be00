"""Prepares the observation of an extension for `exthost learn`, which runs an extension without a
sandbox, observes which files and hosts it uses, and proposes permissions.

`observer_for_machine` returns the observer for that run. `find_situation` returns what a sandbox
without any grant would show to the extension, and `learned_policy` makes the proposal from both.
`proposed_permissions` returns the proposal as permissions, and `with_permissions` the extension
with them, for a second run in a sandbox.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from exthost.dialects.base import Dialect
from exthost.errors import Refused, UsageError
from exthost.launch import bridge, wasm
from exthost.launch.file_view import system_view
from exthost.launch.learned_policy import Proposal, Situation, relative_to
from exthost.launch.plan import Launch, prepare
from exthost.launch.sandbox.observed_calls import observed_calls, observer_filter
from exthost.launch.sandbox.seccomp import ARCHITECTURES
from exthost.launch.sandbox.strict import VisiblePath
from exthost.model.spec import Permissions, Spec
from exthost.process.access_observer import AccessObserver


def observer_for_machine(spec: Spec) -> AccessObserver:
    """Return an observer for an extension. Raises Refused if this machine cannot observe programs,
    and UsageError if the extension is not a program of this machine."""
    if wasm.is_module(spec) or bridge.is_remote(spec) or spec.pool.engine is not None:
        kind = "a WebAssembly module" if wasm.is_module(spec) else "a remote server"
        if spec.pool.engine is not None:
            kind = "run on other nodes"
        raise UsageError(
            "X1881",
            f"it is {kind}, and only a program of this machine can be observed",
            extension=spec.id,
            help="write its permissions by hand: see docs/howto/sandbox.md",
        )
    machine = os.uname().machine
    if os.uname().sysname != "Linux" or machine not in ARCHITECTURES:
        raise unobservable_error(spec, f"{os.uname().sysname} on {machine} is not supported")
    return AccessObserver(observer_filter(machine), observed_calls(machine))


def unobservable_error(spec: Spec, reason: str) -> Refused:
    """Return the error for a machine that cannot observe programs."""
    return Refused(
        "X1880",
        f"its system calls cannot be observed here: {reason}",
        extension=spec.id,
        help="use Linux 5.9 or later without a filter of seccomp(2); otherwise write its "
        "permissions by hand: see docs/howto/sandbox.md",
    )


def prepare_without_grants(spec: Spec, dialect: Dialect, environ: Mapping[str, str]) -> Launch:
    """Return what a start of the extension in a sandbox without any grant would execute. Raises
    Refused if this machine has no sandbox, or if the extension cannot start without a grant."""
    return prepare(with_permissions(spec, Permissions()), dialect, environ)


def with_permissions(spec: Spec, permissions: Permissions) -> Spec:
    """Return the extension with these permissions, in a sandbox that is never left out."""
    sandbox = "landlock" if spec.sandbox == "landlock" else "strict"
    return replace(spec, permissions=permissions, sandbox=sandbox)


def find_situation(spec: Spec, launch: Launch, named: Iterable[str]) -> Situation:
    """Return what is known about an extension beside the observations. `launch` is the result of
    `prepare_without_grants`, and `named` are values that a person wrote: those of them that are
    paths of this machine are used."""
    network_files = system_view(network=True).visible_paths
    visible = [
        VisiblePath(path["path"], path["access"], path["source"])
        for path in launch.enforced.get("paths", ())
    ]
    private = launch.plan.wrapper.private_mounts if launch.plan.wrapper is not None else ()
    cwd = os.path.realpath(spec.cwd or ".")
    own = [cwd, *([str(Path(spec.config_file).parent)] if spec.config_file else [])]
    named_paths = _existing_paths((*spec.argv[1:], *spec.env.values(), *named), cwd)
    return Situation(
        visible=(*visible, *(item for item in network_files if item not in visible)),
        private=private,
        named=tuple(dict.fromkeys(named_paths)),  # each once
        own=own,
    )


def _existing_paths(values: Iterable[str], cwd: str) -> Iterator[str]:
    """Yield the absolute path of each of these values that names an existing file or folder,
    relative to `cwd`. The value of an option, as in `--root=/data`, counts as well."""
    for value in values:
        candidate = value.rpartition("=")[2] if value.startswith("-") else value
        path = os.path.join(cwd, os.path.expanduser(candidate))  # noqa: PTH111, PTH118
        if candidate and os.path.lexists(path):
            yield os.path.normpath(path)


def texts_in(value: Any) -> Iterator[str]:
    """Yield the strings in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from texts_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from texts_in(item)


def proposed_permissions(spec: Spec, proposal: Proposal) -> Permissions:
    """Return the permissions of the extension with the proposal: its limits stay as they are."""
    base = spec.permissions or Permissions()
    return replace(base, network=proposal.network, filesystem=written_entries(spec, proposal))


def written_entries(spec: Spec, proposal: Proposal) -> tuple[str, ...]:
    """Return the entries of `permissions.filesystem`, relative to the folder of the config if they
    are in it."""
    shorten = relative_to(os.path.realpath(spec.cwd or ".") if spec.cwd else "")
    return tuple(shorten(grant).entry for grant in proposal.grants)
