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
from exthost.spec import Pins, Spec

__all__ = ["find_conflict", "refuse_state_folder"]


def find_conflict(spec: Spec, others: Iterable[Spec]) -> Refused | None:
    """Return the error if this extension may write files that one of the others runs, or if one of
    the others may write files that this extension runs; None if there is no conflict."""
    for other in others:
        if other.id == spec.id:
            continue
        if shared := _find_writable_code(other, spec):
            return _conflict_error(
                spec,
                f"{shared[0]}, where its code comes from, is in {shared[1]}, which {other.id!r} "
                "may write",
                f"move it elsewhere, pin its package (sha256 = {{ package = … }}), or grant "
                f"{other.id!r} less",
                shared[0],
            )
        if shared := _find_writable_code(spec, other):
            return _conflict_error(
                spec,
                f"it may write {shared[1]}, and the code of {other.id!r} comes from there, from "
                f"{shared[0]}",
                f"grant less, or pin the package of {other.id!r} (sha256 = {{ package = … }})",
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


def _find_writable_code(writer: Spec, other: Spec) -> tuple[str, str] | None:
    """Return a file that the other extension runs, and the folder in which the writer may replace
    it; None if there is no such file."""
    folders = [*_writable_folders(writer)]
    if not folders or _has_pinned_package(other):
        return None
    # The pin of a program alone says nothing about the modules that it imports.
    files = () if _has_pinned_program(other) else _code_files(other)
    for path in (*files, *_code_folders(other)):
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
