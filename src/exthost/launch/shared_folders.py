"""Keeps the code of the host and of every extension out of reach of an extension that may write.

A grant with `:rw` lets a sandboxed extension (the writer) write everything in a folder. If code of
another extension is in there, or of the host, the writer's code would run with their rights at the
next start, which may be outside any sandbox. Therefore `protect_view` protects that code in the
sandbox of the writer: it is mounted read-only (`protected_paths`). `code_paths` computes what is
code.

Where code cannot be protected, it is exposed. Then one of the two extensions, the writer or the
owner of the code, is refused: the one that comes later in the config. Code that is pinned (its
digest is in the config) may be exposed. An extension is also refused if its code would have to be
protected from a writer that already runs. A discovered package in a granted folder is always
refused: the writer may have put it there. No extension may write to the host's state folder.

The module reads the file system only to find code. Modules that only a host with writers needs are
imported inside functions, since imports are a large part of the start of a host.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from exthost.dialects.find import find_dialect
from exthost.errors import Evidence, ExthostError, Refused
from exthost.launch import sandbox_probe
from exthost.launch.command import make_command
from exthost.launch.integrity import get_pins, package_root
from exthost.launch.machine_check import enforced_policy
from exthost.model.spec import WriteGrant
from exthost.process.state_root import state_root

if TYPE_CHECKING:
    from exthost.launch.code_paths import CodePath, CodeReader
    from exthost.launch.protected_paths import CodeProtection, ExposedPath, OwnedCode
    from exthost.launch.sandbox.strict import View
    from exthost.model.spec import Spec


class CodeCache:
    """The paths that the host and its extensions read as code, computed at the first use. They can
    change at any time, so drop the cache before anything else can run."""

    def __init__(self) -> None:
        # The code of each extension, by the `id` of its Spec.
        self._by_spec: dict[int, tuple[Spec, list[OwnedCode]]] = {}
        # The code of the host, by its config and its audit.
        self._by_files: dict[tuple[str, str], list[OwnedCode]] = {}

    @cached_property
    def _reader(self) -> CodeReader:
        from exthost.launch.code_paths import CodeReader

        return CodeReader()

    def read_extension(self, spec: Spec, environ: Mapping[str, str]) -> list[OwnedCode]:
        """Return what a start of an extension reads as code."""
        if id(spec) not in self._by_spec:  # the spec is kept, so that no other object gets its id
            self._by_spec[id(spec)] = spec, _read_code(self._reader, spec, environ)
        return self._by_spec[id(spec)][1]

    def read_host(self, spec: Spec, environ: Mapping[str, str]) -> list[OwnedCode]:
        """Return what a start of the host reads as code. `spec` names its config and its audit."""
        files = (spec.config_file, spec.audit_file)
        if files not in self._by_files:
            self._by_files[files] = _host_code(self._reader, files, environ)
        return self._by_files[files]


class Neighbours(NamedTuple):
    """The other extensions of a host, as seen from one of them.

    earlier      those that come before it; also refused ones, since they may have written before
    not_refused  those that come before it and are not refused
    every        all of them, in any order
    cache        their code, if it was computed just now for another extension; None if it was not
    """

    earlier: Sequence[Spec] = ()
    not_refused: Sequence[Spec] = ()
    every: Sequence[Spec] = ()
    cache: CodeCache | None = None


def configured_neighbours(spec: Spec) -> Neighbours:
    """Return the other extensions of the config of this one, in the order of the config."""
    ids = [neighbour.id for neighbour in spec.neighbours]
    earlier = spec.neighbours[: ids.index(spec.id)] if spec.id in ids else ()
    others = [neighbour for neighbour in spec.neighbours if neighbour.id != spec.id]
    return Neighbours(earlier=earlier, not_refused=earlier, every=others)


def is_writer(spec: Spec) -> bool:
    """Return whether an extension may write a path of the host."""
    policy = enforced_policy(spec)
    return policy is not None and any(entry.endswith(":rw") for entry in policy.filesystem)


def find_conflict(spec: Spec, neighbours: Neighbours, environ: Mapping[str, str]) -> Refused | None:
    """Return the error if code of this extension cannot be protected in a folder that an
    earlier one may write; None if there is no such code. `environ` are the host's environment
    variables."""
    writers = [writer for writer in neighbours.earlier if is_writer(writer)]
    if not any(writer.id != spec.id for writer in writers):
        return None
    code = (neighbours.cache or CodeCache()).read_extension(spec, environ)
    for writer in writers:
        if writer.id != spec.id:
            # The error is about the first exposed path, if there is one.
            for exposed in _exposed_code(_protect_for(writer, code), (spec,)):
                return _victim_error(spec, writer, exposed)
    return None


def find_writable_code(
    spec: Spec, running: Iterable[tuple[Spec, Sequence[str]]], environ: Mapping[str, str]
) -> Refused | None:
    """Return the error if a running process may write code of this extension; None if none may.
    `running` are the other running processes: the extension, and the protected paths in the
    sandbox of the process."""
    writers = [item for item in running if item[0].id != spec.id and is_writer(item[0])]
    if not writers:
        return None
    code = CodeCache().read_extension(spec, environ)
    for writer, protected_paths in writers:
        protection = _protect_for(writer, code)
        for exposed in _exposed_code(protection, (spec,)):
            return _victim_error(spec, writer, exposed)
        if path := protection.missing_in(protected_paths):
            return Refused(
                "X0361",
                f"{path}, where its code comes from, can be written by {writer.id!r}, which was "
                "started before",
                extension=spec.id,
                help=f"restart {writer.id}, which makes that path read-only for it: "
                f"exthost restart {writer.id}; then start {spec.id} again",
                evidence=Evidence(path=path, key="permissions.filesystem"),
            )
    return None


def protect_view(
    spec: Spec, view: View | None, neighbours: Neighbours, environ: Mapping[str, str]
) -> View | None:
    """Return the view, in which the code of the host and of every extension is protected. `view` is
    None for a WebAssembly module, in whose folders nothing can be protected, and for an extension
    without a sandbox. Raises Refused if that is not possible for the host, for this extension
    itself, or for one that comes before it."""
    writable = view.writable if view is not None else _module_grants(spec)
    if not writable:
        return view
    cache = neighbours.cache or CodeCache()
    host = cache.read_host(spec, environ)
    own_code = [item for item in cache.read_extension(spec, environ) if item.code.is_program]
    from exthost.launch.protected_paths import OwnedCode, protect_code

    others = list[OwnedCode]()
    for other in neighbours.every:
        if other.id != spec.id:
            others += cache.read_extension(other, environ)
    code = (*host, *own_code, *others)
    if view is None:
        protection = _protect_for(spec, code)
    else:
        read_only = [path for path, access, _ in view.visible_paths if access == "read"]
        protection = protect_code(writable, code, read_only)
    by_id = {other.id: other for other in (*neighbours.not_refused, spec)}
    for exposed in _exposed_code(protection, by_id.values()):
        if not exposed.owner:
            raise _host_error(spec, exposed)
        if exposed.owner == spec.id:
            raise _own_error(spec, exposed)
        raise _writer_error(spec, exposed)
    if view is None:
        return None
    protected = protection.protected
    if view.uid is not None:
        # Bubblewrap runs as this user. It cannot write paths that the user cannot reach.
        from exthost.process.user_ids import find_inaccessible_folder

        protected = tuple(
            item for item in protected if not find_inaccessible_folder(item.path, view.uid)
        )
    return replace(view, protected=protected)


def own_protected_paths(spec: Spec, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the paths that are protected from an extension in the folders that it may write,
    because its own program is there."""
    if not is_writer(spec):
        return ()
    code = CodeCache().read_extension(spec, environ)
    protection = _protect_for(spec, [item for item in code if item.code.is_program])
    return tuple(path for path, access, _ in protection.protected if access == "read")


def refuse_code_in_grants(spec: Spec) -> None:
    """Raise Refused if the code of a discovered extension comes from a folder that the config lets
    another extension write. Whether the other extension runs now does not matter: it may have put
    this one there in an earlier run."""
    owners = {spec.id, spec.package.owner if spec.package is not None else spec.id}
    grants = [
        WriteGrant(grant.extension, os.path.realpath(grant.folder))
        for grant in spec.write_grants
        if grant.extension not in owners
    ]
    for writer, folder in grants:
        if path := _find_package_code(spec, folder):
            raise Refused(
                "X0396",
                f"{path}, where its code comes from, is in {folder}, which {writer!r} may write",
                extension=spec.id,
                help=f"move it elsewhere, pin its package (sha256 = {{ package = … }}), or grant "
                f"{writer!r} less",
                evidence=Evidence(path=path, key="permissions.filesystem"),
            )


def refuse_state_folder(spec: Spec, writable: Iterable[str], environ: Mapping[str, str]) -> None:
    """Raise Refused if a writable folder contains the host's state folder, or lies in it. `environ`
    are the host's environment variables, which name that folder."""
    root = os.path.realpath(state_root(environ))
    for folder in writable:
        from exthost.launch.visible_paths import is_below

        if is_below(root, folder) or is_below(folder, root):
            raise Refused(
                "X0397",
                f"it may write {folder}, and the host keeps its own files in {root}",
                extension=spec.id,
                help="grant another folder, or set EXTHOST_HOME to one that is not granted",
                evidence=Evidence(path=folder, key="permissions.filesystem"),
            )


# -- code ----------------------------------------------------------------------------------------


def _read_code(reader: CodeReader, spec: Spec, environ: Mapping[str, str]) -> list[OwnedCode]:
    """Return what a start of an extension reads as code."""
    argv: Sequence[str] = spec.argv
    variables = environ
    try:
        if argv:
            plan = make_command(spec, find_dialect(spec.dialect), environ).plan
            # A bare name is kept as it is, since each start looks it up again.
            is_name = spec.source == "process" and "/" not in spec.argv[0]
            argv = (spec.argv[0], *plan.argv[1:]) if is_name else plan.argv
            variables = plan.env
    except ExthostError:
        pass  # it cannot be started now; its code is protected for a later start
    paths = reader.read_extension(
        argv,
        spec.cwd or ".",
        variables,
        manifest=spec.manifest_file,
        package=spec.package.root if spec.package is not None else "",
    )
    paths += _read_secrets(reader, spec, environ)
    from exthost.launch.protected_paths import OwnedCode

    return [OwnedCode(spec.id, code) for code in paths]


def _read_secrets(reader: CodeReader, spec: Spec, environ: Mapping[str, str]) -> Iterator[CodePath]:
    """Yield what the host reads and runs, outside any sandbox, to get the secrets of an
    extension. With a link in place of the file, an extension could read any file of the host."""
    from exthost.model.spec import SecretSource, SecretValue

    folder = os.path.dirname(spec.config_file) or os.getcwd()  # noqa: PTH109, PTH120
    for name, value in spec.env.items():
        source = value.source if isinstance(value, SecretValue) else value
        if isinstance(source, SecretSource) and source.kind in ("file", "command"):
            place = source.place
            place = os.path.expanduser(place) if isinstance(place, str) else place  # noqa: PTH111
            yield from reader.read_secret(place, f"secret {name}", folder, environ)


def _host_code(
    reader: CodeReader, files: tuple[str, str], environ: Mapping[str, str]
) -> list[OwnedCode]:
    """Return what the host reads as code. `files` are its config and its audit."""
    support = sandbox_probe.find_sandbox_support()
    programs = (support.bwrap, support.setpriv, support.prlimit)
    variables = {**os.environ, **environ}
    paths = reader.read_host(variables, programs, *files)
    from exthost.launch.protected_paths import OwnedCode

    return [OwnedCode("", code) for code in paths]


def _protect_for(writer: Spec, code: Iterable[OwnedCode]) -> CodeProtection:
    """Return what of this code is protected from a writer in the folders that it was granted."""
    granted = _granted(writer, may_write=True)
    if writer.source == "wasm":
        from exthost.launch.protected_paths import expose_code

        return expose_code(granted, code)
    from exthost.launch.protected_paths import protect_code

    return protect_code(granted, code, _granted(writer, may_write=False))


def _module_grants(spec: Spec) -> tuple[str, ...]:
    """Return the folders that a WebAssembly module may write; () for any other extension."""
    return tuple(_granted(spec, may_write=True)) if spec.source == "wasm" else ()


def _granted(spec: Spec, *, may_write: bool) -> list[str]:
    """Return the real paths that were granted with `:rw`, or those that were granted without."""
    policy = enforced_policy(spec)
    folders = []
    for entry in policy.filesystem if policy is not None else ():
        if entry.endswith(":rw") is may_write:
            path = os.path.expanduser(entry.removesuffix(":rw").removesuffix(":ro"))  # noqa: PTH111
            folders.append(os.path.realpath(os.path.join(spec.cwd or "", path)))  # noqa: PTH118
    return folders


def _exposed_code(protection: CodeProtection, specs: Iterable[Spec]) -> Iterator[ExposedPath]:
    """Yield what is exposed of the host and of these extensions, unless it is pinned."""
    by_id = {spec.id: spec for spec in specs}
    for exposed in protection.exposed:
        owner = by_id.get(exposed.owner)
        if not exposed.owner or (owner is not None and not _is_pinned(owner, exposed.code)):
            yield exposed


def _is_pinned(spec: Spec, code: CodePath) -> bool:
    """Return whether a pin would detect a change of this code before the next start."""
    if spec.sha256 is None:
        return False
    pins, root = get_pins(spec), package_root(spec)
    from exthost.launch.visible_paths import is_below

    if pins.package and root and is_below(code.path, root):
        return True
    return bool(pins.program) and code.is_program and code.reason in ("program", "script")


def _find_package_code(spec: Spec, folder: str) -> str:
    """Return a file or folder of a discovered extension's code that is in this folder; "" if there
    is none, or if a pin would detect a change of it."""
    pins = get_pins(spec)
    if pins.package:
        return ""
    paths: list[str] = []
    # The pin of a program alone says nothing about the modules that it imports.
    if not pins.program:
        paths += [spec.manifest_file] if spec.manifest_file else []
        # A bare name is looked up on PATH, whose folders are protected.
        from exthost.launch.program_files import program_files

        paths += [path for path in program_files(spec.argv, spec.cwd) if "/" in path]
    from exthost.launch.program_files import code_folders

    paths += code_folders(spec.argv, spec.cwd) if spec.argv else ()
    for path in paths:
        real = os.path.realpath(os.path.join(spec.cwd or "", path))  # noqa: PTH118
        from exthost.launch.visible_paths import is_below

        if is_below(real, folder):
            return real
    return ""


# -- errors --------------------------------------------------------------------------------------


def _victim_error(spec: Spec, writer: Spec, exposed: ExposedPath) -> Refused:
    """Return the error for an extension whose code an earlier extension may write."""
    return Refused(
        "X0396",
        f"{_describe(exposed.code)}, and {writer.id!r} may write {exposed.granted}",
        extension=spec.id,
        help=_suggest(exposed, f"grant {writer.id!r} a folder in which no code is"),
        evidence=Evidence(path=exposed.code.path, key="permissions.filesystem"),
    )


def _writer_error(spec: Spec, exposed: ExposedPath) -> Refused:
    """Return the error for an extension that may write code of an earlier extension."""
    return Refused(
        "X0396",
        f"it may write {exposed.granted}, and of {exposed.owner!r}, {_describe(exposed.code)}",
        extension=spec.id,
        help=_suggest(exposed, "grant a folder in which no code is"),
        evidence=Evidence(path=exposed.code.path, key="permissions.filesystem"),
    )


def _host_error(spec: Spec, exposed: ExposedPath) -> Refused:
    """Return the error for an extension that may write code of the host."""
    return Refused(
        "X0360",
        f"it may write {exposed.granted}, and of the host, {_describe(exposed.code)}",
        extension=spec.id,
        help=_suggest(exposed, "grant a folder in which no code of the host is"),
        evidence=Evidence(path=exposed.code.path, key="permissions.filesystem"),
    )


def _own_error(spec: Spec, exposed: ExposedPath) -> Refused:
    """Return the error for an extension that may write its own program: it could run something
    else at its next start."""
    otherwise = "move it elsewhere" if exposed.code.is_secret else _suggest_pin(spec)
    return Refused(
        "X0391",
        f"{_describe(exposed.code)}, in {exposed.granted}, which it may write",
        extension=spec.id,
        help=_suggest(exposed, f"{otherwise}, or grant less"),
        evidence=Evidence(path=exposed.code.path, key="permissions.filesystem"),
    )


def _suggest_pin(spec: Spec) -> str:
    """Return the advice to pin the program of an extension, with the line of the config."""
    from exthost.launch.file_view import toml_key
    from exthost.launch.package_tree import file_digest
    from exthost.launch.program_files import program_files

    files = program_files(spec.argv, spec.cwd)
    table = f"[overrides.{toml_key(spec.id)}] " if spec.package is not None else ""
    digest = file_digest(os.path.join(spec.cwd or "", files[-1]))  # noqa: PTH118
    return f'pin it: {table}sha256 = "{digest}"' if digest else "pin it with sha256"


def _describe(code: CodePath) -> str:
    """Return what a path is for the extension that runs it, for an error."""
    from exthost.launch.code_paths import Scope

    if code.scope is Scope.LINK:
        return f"the link {code.path} leads to its {code.reason}"
    if code.scope is Scope.MISSING:
        return f"{code.path} would be its {code.reason} if it existed"
    if code.scope is Scope.UPWARD:
        return f"{code.path} and the folders above have the {code.reason}"
    return f"{code.path} is its {code.reason}"


def _suggest(exposed: ExposedPath, otherwise: str) -> str:
    return f"{exposed.code.fix}; or {otherwise}" if exposed.code.fix else otherwise
