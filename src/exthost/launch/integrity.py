"""Refuses an extension whose files or tools differ from the digests in the config (pins).

`sha256` in the config is either the digest of the program, or a table of digests:

    program      the file with the extension's code: the executable, or the script if an interpreter
                 runs one (`program_files`); other files among the arguments are not compared
    interpreter  the program that runs the script, with all symlinks resolved
    package      all files of the extension's folder (`package_tree`)
    manifest     the manifest
    tools        the names, descriptions and schemas of the tools

Files are checked before every start. The tools are checked after the handshake: against the pinned
digest or, if only files are pinned, against the tools of the first start. A tool whose description
changes after a restart is a known attack.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from exthost.errors import Evidence, Refused
from exthost.launch.package_tree import (
    UnusableTree,
    file_digest,
    first_difference,
    read_digest,
    read_tree,
)
from exthost.launch.program_files import interpreter_of, program_files
from exthost.launch_plan import LaunchPlan
from exthost.offer import Tool
from exthost.process.state_dirs import state_root
from exthost.spec import Pins, Spec

__all__ = [
    "check_files",
    "check_package",
    "check_pinned_files",
    "check_pinned_package",
    "check_tools",
    "compute_digests",
    "file_digest",
    "has_package_pin",
    "package_root",
    "get_pins",
    "tools_digest",
]


@dataclass(frozen=True, slots=True)
class _Mismatch:
    """A file or package whose current digest is not the pinned digest.

    part     which key of the config table it belongs to, such as "program"
    path     the file or folder; "" if the extension does not have it
    pinned   the digest in the config
    current  the current digest; "" if the file or folder cannot be read
    """

    part: str
    path: str
    pinned: str
    current: str


def tools_digest(tools: Iterable[Tool]) -> str:
    """Return one SHA-256 of the names, descriptions and schemas of all tools."""
    descriptions = sorted(
        json.dumps(
            [tool.name, tool.description, tool.input_schema, tool.output_schema],
            sort_keys=True,
            default=str,
        )
        for tool in tools
    )
    return hashlib.sha256(json.dumps(descriptions).encode()).hexdigest()


def compute_digests(spec: Spec, plan: LaunchPlan, tools: Iterable[Tool]) -> dict[str, str]:
    """Return the current digests under the keys of the config table. A key is missing if the
    extension has no such file, or if its package cannot be pinned."""
    digests = {"program": file_digest(_program_path(plan)), "tools": tools_digest(tools)}
    if interpreter := _interpreter_path(plan):
        digests["interpreter"] = file_digest(interpreter)
    if spec.manifest_file:
        digests["manifest"] = file_digest(spec.manifest_file)
    if root := package_root(spec):
        try:
            digests["package"] = read_tree(root).digest
        except UnusableTree:
            pass  # it has no digest: a pin of this package could not be checked
    return digests


def package_root(spec: Spec) -> str:
    """Return the folder of an extension: the folder of its package or manifest, or the `cwd` that
    its config sets; "" if the extension has no folder."""
    if spec.package is not None:
        return spec.package.root
    if spec.manifest is not None and spec.manifest_file:
        return os.path.dirname(os.path.realpath(spec.manifest_file))  # noqa: PTH120
    return os.path.realpath(spec.cwd) if spec.own_cwd and spec.cwd else ""


def check_files(spec: Spec, plan: LaunchPlan) -> None:
    """Raise Refused unless the program, its interpreter and the manifest match their pins."""
    check_pinned_files(get_pins(spec), plan, spec.manifest_file, spec.id)


def check_pinned_files(pins: Pins, plan: LaunchPlan, manifest: str, extension: str) -> None:
    """The same as `check_files`, for a caller without a Spec. `manifest` is a path, `extension` an
    id."""
    for part, path, pinned in (
        ("program", _program_path(plan) if pins.program else "", pins.program),
        ("interpreter", _interpreter_path(plan) if pins.interpreter else "", pins.interpreter),
        ("manifest", manifest, pins.manifest),
    ):
        current = _digest_of_executed(path, plan) if pinned and path else ""
        if pinned and current != pinned:
            raise _mismatch_error(extension, _Mismatch(part, path, pinned, current))


def _digest_of_executed(path: str, plan: LaunchPlan) -> str:
    """Return the digest of a file; "" if the file cannot be read. Return "" also if the sandbox
    expects another file at this path, since the file whose digest is compared must be the file that
    is executed."""
    try:
        file = read_digest(path)
    except OSError:
        return ""
    real = os.path.realpath(path)
    for expected in plan.wrapper.paths if plan.wrapper is not None else ():
        is_same = (expected.device, expected.inode) == (file.device, file.inode)
        if expected.path == real and not is_same:
            return ""
    return file.digest


def has_package_pin(spec: Spec) -> bool:
    """Return whether `check_package` has anything to check."""
    return bool(get_pins(spec).package)


def check_package(spec: Spec, environ: Mapping[str, str]) -> None:
    """Raise Refused unless the files of the package match their pin. `environ` are the host's
    environment variables, which name its state folder. Reads all files: call it in a thread."""
    check_pinned_package(get_pins(spec).package, package_root(spec), environ, spec.id)


def check_pinned_package(
    pinned: str, root: str, environ: Mapping[str, str], extension: str
) -> None:
    """The same as `check_package`, for a caller without a Spec. `pinned` is a digest, `root` the
    folder of the package, `extension` an id."""
    if not pinned:
        return
    try:
        if not root:
            raise UnusableTree("", "it has no folder of its own: set cwd")
        tree = read_tree(root)
    except UnusableTree as unusable:
        raise Refused(
            "X0393",
            f"its package cannot be compared with its pin: {unusable.path or 'sha256'}: {unusable}",
            extension=extension,
            help="remove what is in the way, or remove sha256.package",
            evidence=Evidence(path=unusable.path, key="sha256.package"),
        ) from None
    listings = os.path.join(state_root(environ), "pins")  # noqa: PTH118
    if tree.digest == pinned:
        tree.keep(listings)
        return
    difference = first_difference(pinned, tree, listings)
    if difference is None:
        raise _mismatch_error(extension, _Mismatch("package", root, pinned, tree.digest))
    path = os.path.normpath(os.path.join(root, difference[0]))  # noqa: PTH118
    raise Refused(
        "X0386",
        f"its package is not the one that was pinned: {path} {difference[1]} "
        f"(pinned {pinned}, found {tree.digest})",
        extension=extension,
        help="if you trust the change, pin the new digest; else put the file back",
        evidence=Evidence(path=path, key="sha256.package"),
    )


def check_tools(spec: Spec, tools: Iterable[Tool], first: str) -> str:
    """Raise Refused if the tools of a pinned extension have changed. They are compared with the
    pinned digest or, if the tools are not pinned, with `first`: the digest of the tools at the
    first start, "" if this is the first start. Return the digest to pass as `first` next time; ""
    if nothing of the extension is pinned."""
    if spec.sha256 is None:
        return ""
    pinned = get_pins(spec).tools
    current = tools_digest(tools)
    expected = pinned or first
    if expected and current != expected:
        origin = "pinned" if pinned else "at its first start"
        raise Refused(
            "X0387",
            f"its tools have changed: {origin} {expected}, now {current}",
            extension=spec.id,
            help="see what changed (exthost inspect), then pin the new digest or remove the pin",
        )
    return expected or current


def _mismatch_error(extension: str, mismatch: _Mismatch) -> Refused:
    current = mismatch.current or "unreadable"
    return Refused(
        "X0386",
        f"its {mismatch.part} {mismatch.path or '(it has none)'} is not the one that was pinned: "
        f"pinned {mismatch.pinned}, found {current}",
        extension=extension,
        help="if you trust the change, pin the new digest; else put the file back",
        evidence=Evidence(path=mismatch.path, key="sha256"),
    )


def get_pins(spec: Spec) -> Pins:
    """Return the pinned digests of an extension; a digest is "" if that part is not pinned."""
    pins = spec.sha256
    return pins if isinstance(pins, Pins) else Pins(program=pins or "")


def _program_path(plan: LaunchPlan) -> str:
    """Return the file that contains the extension's code."""
    return program_files(plan.argv, plan.cwd)[-1]


def _interpreter_path(plan: LaunchPlan) -> str:
    return interpreter_of(plan.argv, plan.cwd, plan.env.get("PATH", os.defpath))
