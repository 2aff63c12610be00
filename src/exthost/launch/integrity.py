"""Refuses an extension whose files or tools differ from the digests in the config (pins).

`sha256` in the config is either the digest of the program, or a table of digests:

    program      the code that the command runs (`command_code`): the script of an interpreter, the
                 folder or module that it runs, an installed package of npx or uvx, or the program
                 itself; other files among the arguments are not compared
    interpreter  the program that reads the code, with all symlinks resolved
    package      all files of the extension's folder (`package_tree`)
    manifest     the manifest
    tools        the names, descriptions and schemas of the tools

If it is not known which code a command runs, a pin of its program is refused. Files are checked
before every start. The tools are checked after the handshake: against the pinned digest or, if only
files are pinned, against the tools of the first start. A tool whose description changes after a
restart is a known attack.

Most extensions have no pins, so the modules that find and read code are imported inside functions.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from exthost.errors import Evidence, Refused
from exthost.model.spec import Pins
from exthost.process.state_root import state_root

if TYPE_CHECKING:
    from exthost.launch.command_code import ProgramCode
    from exthost.launch.package_tree import PackageTree
    from exthost.model.launch_plan import LaunchPlan
    from exthost.model.offer import Tool
    from exthost.model.spec import Spec


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
    import hashlib
    import json

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
    extension has no such file, or if its program or package cannot be pinned."""
    from exthost.launch.package_tree import UnusableTree, file_digest, read_tree

    code = _code_of(plan)
    digests = {"tools": tools_digest(tools)}
    if program := find_program_digest(code):
        digests["program"] = program
    if code.interpreter:
        digests["interpreter"] = file_digest(code.interpreter)
    if spec.manifest_file:
        digests["manifest"] = file_digest(spec.manifest_file)
    if root := package_root(spec):
        try:
            digests["package"] = read_tree(root).digest
        except UnusableTree:
            pass  # it has no digest: a pin of this package could not be checked
    return digests


def find_program_digest(code: ProgramCode) -> str:
    """Return the digest that `sha256.program` compares; "" if the code is not known or cannot be
    read."""
    from exthost.launch.command_code import CodeKind
    from exthost.launch.package_tree import UnusableTree, file_digest

    if not code.is_certain:
        return ""
    if code.kind is CodeKind.FILE:
        return file_digest(code.path)
    try:
        return _read_code(code).digest
    except UnusableTree:
        return ""


def _code_of(plan: LaunchPlan) -> ProgramCode:
    from exthost.launch.command_code import find_code

    return find_code(plan.argv, plan.cwd, plan.env)


def _read_code(code: ProgramCode) -> PackageTree:
    """Read the files of a folder, module or package. Raises UnusableTree."""
    from exthost.launch.package_tree import UnusableTree, read_module, read_tree

    try:
        return read_tree(code.path) if os.path.isdir(code.path) else read_module(code.path)  # noqa: PTH112
    except OSError as error:
        raise UnusableTree(code.path, f"it cannot be read: {error.strerror}") from None


def package_root(spec: Spec) -> str:
    """Return the folder of an extension: the folder of its package or manifest, or the `cwd` that
    its config sets; "" if the extension has no folder."""
    if spec.package is not None:
        return spec.package.root
    if spec.manifest is not None and spec.manifest_file:
        return os.path.dirname(os.path.realpath(spec.manifest_file))  # noqa: PTH120
    return os.path.realpath(spec.cwd) if spec.own_cwd and spec.cwd else ""


def check_files(spec: Spec, plan: LaunchPlan) -> None:
    """Raise Refused unless the program, its interpreter and the manifest match their pins, as far
    as each is one file."""
    check_pinned_files(get_pins(spec), plan, spec.manifest_file, spec.id)


def check_pinned_files(pins: Pins, plan: LaunchPlan, manifest: str, extension: str) -> None:
    """The same as `check_files`, for a caller without a Spec. `manifest` is a path, `extension` an
    id."""
    files = [("manifest", manifest, pins.manifest)]
    if pins.program or pins.interpreter:
        code = _code_of(plan)
        if pins.program and not code.is_certain:
            raise _unknown_code_error(extension, code)
        from exthost.launch.command_code import CodeKind

        if code.kind is CodeKind.FILE:
            files.insert(0, ("program", code.path, pins.program))
        files.insert(1, ("interpreter", code.interpreter, pins.interpreter))
    for part, path, pinned in files:
        current = _digest_of_executed(path, plan) if pinned and path else ""
        if pinned and current != pinned:
            raise _mismatch_error(extension, _Mismatch(part, path, pinned, current))


def _digest_of_executed(path: str, plan: LaunchPlan) -> str:
    """Return the digest of a file; "" if the file cannot be read. Return "" also if the sandbox
    expects another file at this path, since the file whose digest is compared must be the file that
    is executed."""
    from exthost.launch.package_tree import read_digest

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


def has_code_pin(spec: Spec) -> bool:
    """Return whether `check_folders` may have anything to check."""
    pins = get_pins(spec)
    return bool(pins.package or pins.program)


def check_folders(spec: Spec, plan: LaunchPlan, environ: Mapping[str, str]) -> None:
    """Raise Refused unless the files of the package match their pin, and those of the program if it
    is a folder, a module or an installed package. `environ` are the host's environment variables,
    which name its state folder. Reads all files: call it in a thread."""
    check_pinned_folders(get_pins(spec), plan, package_root(spec), environ, spec.id)


def check_pinned_folders(
    pins: Pins, plan: LaunchPlan, root: str, environ: Mapping[str, str], extension: str
) -> None:
    """The same as `check_folders`, for a caller without a Spec. `root` is the folder of the
    package, `extension` an id."""
    from exthost.launch.command_code import CodeKind
    from exthost.launch.package_tree import read_tree

    listings = os.path.join(state_root(environ), "pins")  # noqa: PTH118
    if pins.program:
        code = _code_of(plan)
        if code.is_certain and code.kind is not CodeKind.FILE:
            check = _TreeCheck("program", pins.program, code.path, listings, extension)
            check.run(lambda: _read_code(code))
    if pins.package:
        check = _TreeCheck("package", pins.package, root, listings, extension)
        check.run(lambda: read_tree(root))


class _TreeCheck(NamedTuple):
    """The comparison of a folder or module with its pin.

    part       the key of the config table, such as "package"
    pinned     the digest in the config
    root       the folder, or the file of a module; "" if the extension does not have it
    listings   the folder with the listings of trees that matched
    extension  the id of the extension
    """

    part: str
    pinned: str
    root: str
    listings: str
    extension: str

    def run(self, read: Callable[[], PackageTree]) -> None:
        """Raise Refused unless the files that `read` returns have the pinned digest."""
        from exthost.launch.package_tree import UnusableTree, first_difference

        try:
            if not self.root:
                raise UnusableTree("", "it has no folder of its own: set cwd")
            tree = read()
        except UnusableTree as unusable:
            raise Refused(
                "X0393",
                f"its {self.part} cannot be compared with its pin: "
                f"{unusable.path or 'sha256'}: {unusable}",
                extension=self.extension,
                help=f"remove the file, or remove sha256.{self.part}",
                evidence=Evidence(path=unusable.path, key=f"sha256.{self.part}"),
            ) from None
        if tree.digest == self.pinned:
            # So that the error for a later difference can name the file.
            tree.keep(self.listings)
            return
        difference = first_difference(self.pinned, tree, self.listings)
        if difference is None:
            mismatch = _Mismatch(self.part, self.root, self.pinned, tree.digest)
            raise _mismatch_error(self.extension, mismatch)
        is_folder = os.path.isdir(self.root)  # noqa: PTH112
        folder = self.root if is_folder else os.path.dirname(self.root)  # noqa: PTH120
        path = os.path.normpath(os.path.join(folder, difference[0]))  # noqa: PTH118
        raise Refused(
            "X0386",
            f"its {self.part} is not the one that was pinned: {path} {difference[1]} "
            f"(pinned {self.pinned}, found {tree.digest})",
            extension=self.extension,
            help="if you trust the change, pin the new digest; else put the file back",
            evidence=Evidence(path=path, key=f"sha256.{self.part}"),
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


def _unknown_code_error(extension: str, code: ProgramCode) -> Refused:
    return Refused(
        "X0341",
        f"its program is pinned, and which code it runs is not known: {code.reason}",
        extension=extension,
        help=code.advice,
        evidence=Evidence(key="sha256.program"),
    )


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
