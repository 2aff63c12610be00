"""Refuses an extension that may write files which another extension, or the host, depends on.

A grant with `:rw` lets a sandboxed extension (the writer) write everything in a folder. If that
folder contains the program or the manifest of another extension, the writer could replace them, and
the writer's code would run with the rights of the other extension, which may have no sandbox. The
same holds for a folder from which an interpreter imports code: a new `json.py` beside a Python
script runs in place of Python's own module. Therefore two such extensions cannot run in one host,
unless the files of the other extension are pinned (their digests are in the config). For the same
reason no extension may write to the host's state folder.

The module reads the file system only to resolve symlinks.
"""

import os
from collections.abc import Iterable, Iterator, Mapping

from exthost.errors import Evidence, Refused
from exthost.launch.machine_check import enforced_policy
from exthost.launch.program_files import code_folders, program_files
from exthost.process.state_dirs import state_root
from exthost.process.visible_paths import is_below
from exthost.spec import Pins, Spec, WriteGrant

__all__ = ["find_conflict", "refuse_code_in_grants", "refuse_state_folder"]


def find_conflict(spec: Spec, writers: Iterable[Spec], others: Iterable[Spec]) -> Refused | None:
    """Return the error if one of `writers` may write files that this extension runs, or if this
    extension may write files that one of `others` runs; None if there is no conflict. A writer
    counts even if it is refused now: it may have written before."""
    grants = [
        WriteGrant(writer.id, folder)
        for writer in writers
        if writer.id != spec.id
        for folder in _writable_folders(writer)
    ]
    if (refused := _find_code_in_grants(spec, grants)) is not None:
        return refused
    own_folders = [*_writable_folders(spec)]
    for other in others:
        if other.id != spec.id and (shared := _find_code(other, own_folders)):
            return _conflict_error(
                spec,
                f"it may write {shared[1]}, and the code of {other.id!r} comes from there, from "
                f"{shared[0]}",
                f"grant less, or pin the package of {other.id!r} (sha256 = {{ package = … }})",
                shared[0],
            )
    return None


def refuse_code_in_grants(spec: Spec) -> None:
    """Raise Refused if the code of a discovered extension comes from a folder that the config lets
    another extension write. Whether that other one runs does not matter: it may have put this
    extension there, and then have made itself disappear."""
    owners = {spec.id, spec.package.owner if spec.package is not None else spec.id}
    grants = [
        WriteGrant(grant.extension, os.path.realpath(grant.folder))
        for grant in spec.write_grants
        if grant.extension not in owners
    ]
    if (refused := _find_code_in_grants(spec, grants)) is not None:
        raise refused


def _find_code_in_grants(spec: Spec, grants: Iterable[WriteGrant]) -> Refused | None:
    for writer, folder in grants:
        if shared := _find_code(spec, [folder]):
            return _conflict_error(
                spec,
                f"{shared[0]}, where its code comes from, is in {folder}, which {writer!r} "
                "may write",
                f"move it elsewhere, pin its package (sha256 = {{ package = … }}), or grant "
                f"{writer!r} less",
                shared[0],
            )
    return None


def refuse_state_folder(spec: Spec, writable: Iterable[str], environ: Mapping[str, str]) -> None:
    """Raise Refused if a writable folder contains the host's state folder, or lies in it. `environ`
    are the host's environment variables, which name that folder."""
    root = os.path.realpath(state_root(environ))
    for folder in writable:
        if is_below(root, folder) or is_below(folder, root):
            raise Refused(
                "X0397",
                f"it may write {folder}, and the host keeps its own files in {root}",
                extension=spec.id,
                help="grant another folder, or set EXTHOST_HOME to one that is not granted",
                evidence=Evidence(path=folder, key="permissions.filesystem"),
            )


def _find_code(spec: Spec, folders: list[str]) -> tuple[str, str] | None:
    """Return a file that the extension runs and that is in one of these folders, and that folder;
    None if there is no such file."""
    if not folders or _has_pinned_package(spec):
        return None
    # The pin of a program alone says nothing about the modules that it imports.
    files = () if _has_pinned_program(spec) else _code_files(spec)
    for path in (*files, *_code_folders(spec)):
        for folder in folders:
            if is_below(path, folder):
                return path, folder
    return None


def _writable_folders(spec: Spec) -> Iterator[str]:
    policy = enforced_policy(spec)
    for entry in policy.filesystem if policy is not None else ():
        if entry.endswith(":rw"):
            yield os.path.realpath(_absolute(os.path.expanduser(entry[:-3]), spec))  # noqa: PTH111


def _code_files(spec: Spec) -> Iterator[str]:
    """Yield the files that decide what an extension does: its manifest, program and script."""
    paths = [spec.manifest_file] if spec.manifest_file else []
    if spec.argv:
        paths += program_files(spec.argv, spec.cwd)
    for path in paths:
        if "/" in path:  # a bare name is looked up on PATH, and not checked here
            yield os.path.realpath(_absolute(path, spec))


def _code_folders(spec: Spec) -> Iterator[str]:
    """Yield the folders from which the interpreter of an extension imports code."""
    for path in code_folders(spec.argv, spec.cwd) if spec.argv else ():
        yield os.path.realpath(_absolute(path, spec))


def _absolute(path: str, spec: Spec) -> str:
    return os.path.join(spec.cwd or "", path)  # noqa: PTH118


def _has_pinned_program(spec: Spec) -> bool:
    pins = spec.sha256
    return bool(pins.program if isinstance(pins, Pins) else pins)


def _has_pinned_package(spec: Spec) -> bool:
    return isinstance(spec.sha256, Pins) and bool(spec.sha256.package)


def _conflict_error(spec: Spec, message: str, help: str, path: str) -> Refused:
    evidence = Evidence(path=path, key="permissions.filesystem")
    return Refused("X0396", message, extension=spec.id, help=help, evidence=evidence)
