"""Compares what a start would run with the record of the extension in `exthost.lock`.

`read_start_state` returns the present state as a record without an offer: the command, the digests
of its code, and what the config lets the extension do. The same extension has the same record on
two machines: folders of a machine are replaced by marks (`./` is the folder of the config, `~/` the
home folder, `{package}/` the folder of a discovered package), the interpreter is a name and a
version, and compiled files have a digest for each platform. Values of variables, and arguments and
parts of URLs that look like secrets, are not recorded. Of a remote server, the URL is recorded: its
code is on another machine, and the bridge is a part of exthost.

The listing of a folder is stored in the host's state folder, so that the error for a later
difference can name the file that differs (see `package_tree`).
"""

import os
import platform
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import cache
from typing import NamedTuple

from exthost.errors import Evidence, Refused
from exthost.launch.bridge import is_remote
from exthost.launch.command_code import (
    PROGRAM_FOLDERS,
    CodeKind,
    ProgramCode,
    find_code,
    find_code_argument,
)
from exthost.launch.integrity import package_root
from exthost.launch.package_tree import PackageTree, UnusableTree, first_difference
from exthost.launch.portable_tree import (
    PortableCode,
    is_left_out,
    read_portable,
    read_small_snapshot,
)
from exthost.launch.tree_snapshot import NotSmall
from exthost.model.documents.units import format_number
from exthost.model.launch_plan import LaunchPlan
from exthost.model.lock_record import Bytecode, LockChange, LockRecord, SpecLock, compare_start
from exthost.model.secret_names import is_secret_name, looks_secret
from exthost.model.spec import Permissions, Spec
from exthost.process.small_files import read_start
from exthost.process.state_root import state_root

# Where the version of an interpreter may be: the name of a folder above it (v20.11.1), its own name
# (python3.12), and the header of Node.
_VERSION_FOLDER = r"v?([0-9]+\.[0-9]+)(?:\.[0-9]+)?"
_VERSIONED_NAME = r"([a-z]+)-?([0-9]+\.[0-9]+).*"
_NODE_VERSION = rb"#define NODE_(MAJOR|MINOR)_VERSION ([0-9]+)"

# An option. A secret can begin with a hyphen too, but rarely looks like an option.
_OPTION = r"-[A-Za-z]|--[a-z][a-z0-9]*(?:-[a-z0-9]+)*(?:=.*)?"

# In place of the value of an argument that looks like a secret.
_SECRET = "{secret}"

_USER_OF_URL = r"(?<=://)[^/?#\s]*@"
# A header as an argument, maybe after an option (`--header=NAME: VALUE`), and a bearer token.
_HEADER = r"((?:-[\w-]*=)?([A-Za-z][\w-]*):\s*)(?!//).+"
_BEARER = r"(?i:(?<=\bbearer )|(?<=\bbasic ))\s*\S+"

_QUERY_VALUE = r"([?&]([\w.-]+)=)[^&#\s]+"


@cache
def platform_name() -> str:
    """Return the name of this platform in a lock: `linux-x86_64`."""
    return f"{sys.platform}-{platform.machine()}"


class StartCheck(NamedTuple):
    """How a start differs from the lock, the worst first, and its compiled Python files."""

    changes: list[LockChange]
    bytecode: Bytecode


def check_start(spec: Spec, plan: LaunchPlan, environ: Mapping[str, str]) -> StartCheck:
    """Compare the next start of a locked extension with its lock. Reads all files of the package:
    call it in a thread. Raises Refused if a file cannot be read."""
    assert spec.lock is not None
    state = read_start_state(spec, plan, environ)
    changes = state.explain(compare_start(spec.lock.record, state.record, platform_name()))
    return StartCheck(changes, state.bytecode)


def check_small_start(spec: Spec, plan: LaunchPlan, environ: Mapping[str, str]) -> StartCheck:
    """The same as `check_start`, for an extension with few files which are all unchanged since they
    were compared before. Takes about a millisecond, so it can be called in the thread of an event
    loop. Raises NotSmall for any other extension, and for one that differs from its lock."""
    assert spec.lock is not None
    code = _read_code(spec, plan, environ, read_small_snapshot)
    if code.code.kind is CodeKind.PACKAGE:
        raise NotSmall  # the files of its installation are read for the record
    record = _make_record(spec, plan, code, environ)
    if compare_start(spec.lock.record, record, platform_name()):
        raise NotSmall  # the files are read, to name the one that differs
    return StartCheck([], StartState(record, code, _cache_folder(environ)).bytecode)


def read_start_state(spec: Spec, plan: LaunchPlan, environ: Mapping[str, str]) -> "StartState":
    """Return an extension as it would be started now. Reads all files of the package: call it in a
    thread. Raises Refused if a file cannot be read."""
    code = _read_code(spec, plan, environ, read_portable)
    return StartState(_make_record(spec, plan, code, environ), code, _cache_folder(environ))


def _cache_folder(environ: Mapping[str, str]) -> str:
    """Return the folder with listings and digests of folders."""
    return os.path.join(state_root(environ), "locks")  # noqa: PTH118


def mismatch_error(spec: Spec, changes: Sequence[LockChange]) -> Refused:
    """Return the error for an extension that differs from its record."""
    lock, change = spec.lock, changes[0]
    assert isinstance(lock, SpecLock)
    line = lock.line_of(spec.id, change)
    more = f" (and {len(changes) - 1} more)" if len(changes) > 1 else ""
    where = f"line {line} of {os.path.basename(lock.path)}" if line else lock.path  # noqa: PTH119
    return Refused(
        "X1820",
        # A client of the gateway gets the message without the help.
        f"it differs from {where}: {change}{more}; "
        f"exthost approve {shlex.quote(spec.id)} shows every change and asks",
        extension=spec.id,
        help="read what has changed and approve it, or put back what was locked",
        evidence=Evidence(
            path=lock.path, line=line, key=change.key, details=tuple(map(str, changes[1:]))
        ),
    )


def _find_folder(spec: Spec, code: ProgramCode) -> str:
    """Return the real path of the folder that a lock covers with all its files; "" if it covers the
    program alone. This is the folder of the extension (`package_root`), else the folder of its
    script, or the virtual environment in which the script is installed. A folder is not covered
    if the config is in it: other files of the project change without harm."""
    root = package_root(spec)
    if not root and code.kind is CodeKind.FILE and code.interpreter and code.is_certain:
        root = os.path.dirname(os.path.realpath(code.path))  # noqa: PTH120
        if os.path.basename(root) in PROGRAM_FOLDERS:  # noqa: PTH119
            root = os.path.dirname(root)  # noqa: PTH120
            if not os.path.isfile(f"{root}/pyvenv.cfg"):  # noqa: PTH113
                return ""
    if not root:
        return ""
    root = os.path.realpath(root)
    for folder in (os.path.expanduser("~"), os.path.dirname(spec.config_file) or "/"):  # noqa: PTH111, PTH120
        if f"{os.path.realpath(folder)}/".startswith(f"{root.rstrip('/')}/"):
            return ""
    return root


class _Code:
    """The code of an extension, as it is now.

    unknown           why it is not known which code runs; "" if it is
    program, package  the files, by the keys of a record; None if there are none
    manifest          the digest of the manifest; "" if there is none
    folder            the real path of the folder of `package`
    """

    def __init__(self, code: ProgramCode) -> None:
        self.code = code
        self.unknown = "" if code.is_certain or code.version else code.reason
        self.program: PortableCode | None = None
        self.package: PortableCode | None = None
        self.manifest = ""
        self.folder = ""

    @property
    def trees(self) -> list[PortableCode]:
        return [tree for tree in (self.program, self.package) if tree is not None]


def _read_code(
    spec: Spec,
    plan: LaunchPlan,
    environ: Mapping[str, str],
    read: Callable[..., PortableCode],
) -> _Code:
    """Find and read the code of an extension. `read` is `read_portable` or `read_small_snapshot`.
    Raises Refused if a file cannot be read, and what `read` raises."""
    result = _Code(find_code(plan.argv, plan.cwd, plan.env))
    marks = _folders(spec, environ)
    cache = _cache_folder(environ)
    code = result.code
    try:
        if spec.manifest_file:
            result.manifest = _mark(read(spec.manifest_file, marks, cache=cache).digest)
        if spec.pool.engine is not None and spec.pool.files != "sent":
            result.unknown = "it runs on other machines"
            return result
        if is_remote(spec):
            result.unknown = "it runs on a remote server"
            return result
        folder = result.folder = _find_folder(spec, code)
        is_covered = False
        if folder:
            writable = _writable_folders(spec)
            result.package = read(folder, marks, writable, cache)
            real = os.path.realpath(code.path) if code.path else ""
            is_inside = real == folder or real.startswith(f"{folder}/")
            is_covered = is_inside and not is_left_out(real, folder, writable)
        if code.path and not result.unknown and not is_covered:
            result.program = read(code.path, marks, cache=cache)
        # A package such as tsx is an interpreter: `npx tsx@4.19.2 server.ts`.
        is_package = code.kind is CodeKind.PACKAGE
        file = find_code_argument(plan.argv, plan.cwd) if is_package else ""
        if file and not (folder and os.path.realpath(file).startswith(f"{folder}/")):
            result.unknown = f"{code.name} may run {file}: whether it does is not known"
    except UnusableTree as unusable:
        if os.path.lexists(unusable.path):
            help = "remove what is in the way, or move the code to a folder of its own"
        else:
            help = "put the file back, or correct the command of the extension"
        raise Refused(
            "X1821",
            f"its code cannot be compared with its lock: {unusable.path}: {unusable}",
            extension=spec.id,
            help=help,
            evidence=Evidence(path=unusable.path),
        ) from None
    return result


def _make_record(
    spec: Spec, plan: LaunchPlan, code: _Code, environ: Mapping[str, str]
) -> LockRecord:
    """Return the record of an extension, without an offer."""
    marks = _folders(spec, environ)
    compiled = PackageTree(
        tuple(sorted(file for tree in code.trees for file in tree.compiled.files))
    )
    registry = integrity = ""
    if code.code.kind is CodeKind.PACKAGE:
        from exthost.launch.registry_package import find_registry_package  # few need it

        registry, integrity = find_registry_package(code.code, plan.cwd, plan.env)
    return LockRecord(
        dialect=spec.dialect,
        source="" if spec.source == "process" else spec.source,
        command=_portable_command(spec, marks),
        folder=_portable(os.path.abspath(spec.cwd), marks) if spec.own_cwd and spec.cwd else "",  # noqa: PTH100
        interpreter=_interpreter_name(code.code.interpreter) if spec.source == "process" else "",
        program=_mark(code.program.digest) if code.program is not None else "",
        package=_mark(code.package.digest) if code.package is not None else "",
        manifest=code.manifest,
        registry=registry,
        integrity=integrity,
        unknown_code=_portable(code.unknown, _with_parents(marks)) if code.unknown else "",
        compiled={platform_name(): _mark(compiled.digest)} if compiled.files else {},
        sandbox=spec.sandbox or "",
        permissions=_describe_permissions(spec, marks),
        env_policy=spec.env_policy or "",
        variables=tuple(
            sorted(
                {
                    *spec.env,
                    *spec.requires.env,
                    *(setting.secret for setting in spec.settings if setting.secret),
                }
            )
        ),
        limits=tuple(
            f"{item.name} {format_number(value)}"
            for item in fields(spec.limits)
            if (value := getattr(spec.limits, item.name)) is not None
        ),
    )


def _mark(digest: str) -> str:
    """Return a digest as it is written in a record."""
    return f"sha256:{digest}" if digest else ""


class StartState(NamedTuple):
    """An extension as it would be started now.

    record    its record, without an offer
    code      its files
    listings  the folder with stored listings of packages
    """

    record: LockRecord
    code: _Code
    listings: str

    @property
    def folder(self) -> str:
        """The real path of the folder that the lock covers; "" if it covers the program alone."""
        return self.code.folder

    def list_package(self) -> list[str]:
        """Return the relative paths of the files in that folder, without compiled ones. Raises
        OSError if a file cannot be read."""
        if self.code.package is None:
            return []
        try:
            return [path for path, _ in self.code.package.read_files().files]
        except UnusableTree as unusable:
            raise OSError(0, str(unusable)) from None

    @property
    def bytecode(self) -> Bytecode:
        """The compiled Python files beside its code."""
        return Bytecode(
            self.folder, tuple(path for tree in self.code.trees for path in tree.caches)
        )

    def explain(self, changes: Sequence[LockChange]) -> list[LockChange]:
        """Return the changes. Those of a digest name the first file that differs, if that is
        known."""
        return [self._with_file(change) for change in changes]

    def _with_file(self, change: LockChange) -> LockChange:
        """Return a change of a digest with the first file that differs; any other change as it
        is."""
        trees = {"program": self.code.program, "package": self.code.package}
        tree = trees.get(change.key)
        if tree is None or change.kind != "changed":
            return change
        digest = change.before.removeprefix("sha256:")
        try:
            difference = first_difference(digest, tree.read_files(), self.listings)
        except UnusableTree:  # it has changed once more
            return change
        return change if difference is None else change._replace(detail=" ".join(difference))


def _writable_folders(spec: Spec) -> list[str]:
    """Return the folders that the extension may write: what it keeps there is not code."""
    entries = spec.permissions.filesystem if spec.permissions is not None else ()
    return [
        os.path.realpath(os.path.join(spec.cwd or "", os.path.expanduser(entry[:-3])))  # noqa: PTH111, PTH118
        for entry in entries
        if entry.endswith(":rw")
    ]


# -- forms that are the same on every machine ------------------------------------------------------


def _folders(spec: Spec, environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the folders of this machine that can occur in a command, with their marks, the
    innermost first."""
    config = os.path.dirname(spec.config_file)  # noqa: PTH120
    folders = [
        (spec.package.root if spec.package is not None else "", "{package}"),
        (config, "."),
        (environ.get("HOME", ""), "~"),
    ]
    marks = {
        path: mark
        for folder, mark in reversed(folders)
        for path in (folder, os.path.realpath(folder))
        if folder and path != "/"
    }
    return sorted(marks.items(), key=lambda item: (-len(item[0]), item[0]))


def _with_parents(marks: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return marks for the folders above that of the config, such as `..`, too. The reason why code
    is unknown may name a file there, as in a repository with several projects."""
    known = dict(marks)
    for folder in [os.path.dirname(path) for path, mark in marks if mark == "."]:  # noqa: PTH120
        mark = ".."
        while folder not in ("", "/"):
            known.setdefault(folder, mark)
            folder, mark = os.path.dirname(folder), f"../{mark}"  # noqa: PTH120
    return sorted(known.items(), key=lambda item: (-len(item[0]), item[0]))


def _portable(text: str, marks: Sequence[tuple[str, str]]) -> str:
    """Return a text in which marks stand for the folders."""
    for folder, mark in marks:
        if folder in text:
            pattern = rf"(?<![\w./-]){re.escape(folder)}(?=/|$|[:;,'\" ])"
            text = re.sub(pattern, mark, text)
    return text


def _portable_command(spec: Spec, marks: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Return the command. Of a program outside the known folders, only the name is kept: it is
    elsewhere on another machine, and its code has a digest or is an interpreter."""
    program, *arguments = map(mask_url_secrets, spec.argv or ("",))
    program = _portable(program, marks)
    if program.startswith("/"):
        program = os.path.basename(program)  # noqa: PTH119
    command = [program]
    is_secret = False
    for argument in arguments:
        name, equals, _ = argument.partition("=")
        if is_secret and not re.fullmatch(_OPTION, argument):
            command.append(_SECRET)
            is_secret = False
            continue
        if equals and is_secret_name(name.strip("-")):
            command.append(f"{name}={_SECRET}")
        else:
            command.append(_portable(_mask_header(argument), marks))
        # The value of such an option is the next argument, unless it is in the same one.
        is_secret = not equals and name.startswith("-") and is_secret_name(name.strip("-"))
    return tuple(command)


def _mask_header(argument: str) -> str:
    """Return an argument in which the value of a header such as `Authorization: Bearer …` is
    replaced by a mark, if it looks like a secret."""
    header = re.fullmatch(_HEADER, argument, re.DOTALL)
    if header is not None and is_secret_name(header[2]):
        return f"{header[1]}{_SECRET}"
    return re.sub(_BEARER, _SECRET, argument)


def mask_url_secrets(text: str) -> str:
    """Return a text in which the user and the secret parameters of a URL are replaced by a mark."""
    if "://" not in text:
        return text
    text = re.sub(_USER_OF_URL, f"{_SECRET}@", text)
    return re.sub(
        _QUERY_VALUE,
        # With a prefix, so that a parameter `key` looks as secret as `api_key`.
        lambda match: (
            match[1] + _SECRET if looks_secret(f"_{match[2].replace('-', '_')}") else match[0]
        ),
        text,
    )


def _describe_permissions(spec: Spec, marks: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Return the permissions as lines that are the same on every machine."""
    permissions = spec.permissions
    if permissions is None:
        return ("unrestricted",)
    texts = ["unrestricted"] if spec.sandbox == "off" else []
    texts += [
        f"inject {injection.target} {injection.name} from {' '.join(injection.variables)}"
        for injection in spec.inject or ()
    ]
    for item in fields(Permissions):
        value = getattr(permissions, item.name)
        if item.name == "filesystem":
            texts += [f"filesystem {_portable(entry, marks)}" for entry in value]
        elif value is True:
            texts.append(item.name)
        elif isinstance(value, tuple):
            texts += [f"{item.name} {entry}" for entry in value]
        elif value:
            texts.append(f"{item.name} {value}")
    return tuple(sorted(texts))


def _interpreter_name(path: str) -> str:
    """Return the name of an interpreter with its version, such as `python3.12`; the name alone if
    no file says which version it is. The interpreter is not run for that."""
    if not path:
        return ""
    real = os.path.realpath(path)
    name = os.path.basename(real)  # noqa: PTH119
    if match := re.fullmatch(_VERSIONED_NAME, name):
        return f"{match[1]}{match[2]}"
    name = re.sub("[0-9.]+$", "", name)
    return f"{name}{_installed_version(real, name)}"


def _installed_version(path: str, name: str) -> str:
    """Return the version of the interpreter at a path, from the files and folders around it; "" if
    they do not show it."""
    prefix = os.path.dirname(os.path.dirname(path))  # noqa: PTH120
    if name == "node":
        try:
            header = read_start(f"{prefix}/include/node/node_version.h", 64 * 1024)
            numbers = dict(re.findall(_NODE_VERSION, header))
            return f"{int(numbers[b'MAJOR'])}.{int(numbers[b'MINOR'])}"
        except (OSError, KeyError):
            pass
    for folder in reversed(path.split("/")):
        if match := re.fullmatch(_VERSION_FOLDER, folder):
            return match[1]
    try:
        libraries = [n for n in os.listdir(f"{prefix}/lib") if n.startswith(f"{name}3.")]  # noqa: PTH208
    except OSError:
        return ""
    return libraries[0].removeprefix(name) if len(libraries) == 1 else ""
