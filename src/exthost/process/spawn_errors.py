"""Turns the error of a failed spawn into a SpawnFailed that names the cause and the next step.

The error of the operating system says too little: "no such file" may mean the program, its
interpreter or its working folder. So this module also looks at the files of the launch plan. It
does so with `os.path`: the methods of `Path` raise PermissionError below a folder that is closed.
"""

import errno
import os
import re
import shlex
import sys
from pathlib import Path

from exthost.errors import Evidence, SpawnFailed
from exthost.model.launch_plan import LaunchPlan
from exthost.model.spec import Spec
from exthost.process.build_command import find_build_command
from exthost.process.own_process import deleted_working_folder
from exthost.process.program_check import WASM_MAGIC, check_program
from exthost.process.small_files import FIRST_LINE_BYTES, first_words, read_start
from exthost.process.user_ids import find_forbidden_folder

# The errors for too few descriptors, processes or memory.
_SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM)

# The errors that the next start has as well, unless a person changes something.
_PERMANENT = (
    *(errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ENOEXEC),
    *(errno.ENAMETOOLONG, errno.E2BIG),
)


def find_spawn_error(plan: LaunchPlan, extension: str = "") -> SpawnFailed | None:
    """Check the files of a plan without starting anything. Return the error that a start would
    raise; None if there is none."""
    try:
        check_program(plan)
    except (OSError, ValueError) as error:
        return spawn_error(error, plan, extension)
    return None


def find_host_error(error: Exception, spec: Spec) -> SpawnFailed | None:
    """Return the SpawnFailed for an error before the spawn whose cause is the state of the host: it
    has no free descriptors, or its working folder, in which an extension without a `cwd` runs, has
    been deleted. None if the error has another cause."""
    if isinstance(error, OSError) and error.errno in _SHORTAGES:
        message, help = _describe_shortage(error)
        return SpawnFailed("X0405", message, extension=spec.id, help=help)
    deleted = deleted_working_folder() if spec.cwd is None else None
    if deleted is None or not isinstance(error, FileNotFoundError):
        return None
    return SpawnFailed(
        "X0402",
        f"its working folder {deleted}, in which the host was started, has been deleted",
        permanent=True,
        extension=spec.id,
        help="start the host in a folder that exists, or set `cwd`",
    )


def spawn_error(
    error: OSError | ValueError | RuntimeError, plan: LaunchPlan, extension: str
) -> SpawnFailed:
    """Return the SpawnFailed for the error of a spawn. A RuntimeError means that Python could not
    start a thread, a ValueError that an argument contains a null byte."""
    program = Path(plan.argv[0])
    evidence = Evidence(argv=plan.argv, cwd=plan.cwd or "")
    number = error.errno if isinstance(error, OSError) else None

    def failed(code: str, message: str, help: str) -> SpawnFailed:
        return SpawnFailed(
            code,
            message,
            permanent=number in _PERMANENT,
            extension=extension,
            help=help,
            evidence=evidence,
        )

    if number in (errno.ENOENT, errno.ENOTDIR, errno.EACCES):
        if plan.cwd is not None and (closed := find_forbidden_folder(f"{plan.cwd}/-")):
            return failed(
                "X0402",
                f"its working folder {plan.cwd} cannot be entered: {_describe_closed(closed)}",
                _open_help(closed),
            )
        if "/" in plan.argv[0] and (closed := find_forbidden_folder(plan.argv[0])):
            return failed(
                "X0404",
                f"{program} cannot be executed: {_describe_closed(closed)}",
                _open_help(closed),
            )
    if number in (errno.ENOENT, errno.ENOTDIR):
        # A start opens files in /proc. Without /proc, it fails with the same error.
        if not Path("/proc/self").exists() and Path("/proc").is_dir():
            return failed(
                "X0406",
                "it could not be started: /proc is not mounted here, and the host needs it",
                "mount it (mount -t proc proc /proc), or start the container with it",
            )
        if plan.cwd is not None and not os.path.isdir(plan.cwd):  # noqa: PTH112
            return failed(
                "X0402", f"its working folder {plan.cwd} does not exist", "create it, or set `cwd`"
            )
        # A bare name is looked up on PATH only.
        if os.path.isfile(program) and "/" not in plan.argv[0]:  # noqa: PTH113
            return failed(
                "X0401",
                f"there is no program {plan.argv[0]!r} on PATH",
                f"to run the file in this folder, write ./{plan.argv[0]}, or name its interpreter",
            )
        if os.path.isdir(program):  # noqa: PTH112
            return failed(
                "X0401",
                f"there is no program {plan.argv[0]!r} on PATH",
                f"{plan.argv[0]} is a folder here: name the program inside it; on the command "
                "line, leave out -- to run the manifest in it",
            )
        if os.path.isfile(program):  # noqa: PTH113
            # The file exists, so the kernel did not find the interpreter of its first line.
            interpreter = _shebang(program)
            install = "install that interpreter, or correct the first line of the script"
            crlf = "it has Windows line ends: save it with plain \\n"
            return failed(
                "X0403",
                f"{program} exists, but the interpreter it names does not: {interpreter}",
                crlf if interpreter.endswith(r"\r") else install,
            )
        if (build := find_build_command(program)) is not None:
            return failed(
                "X0401",
                f"there is no program {plan.argv[0]!r}: it is not built yet",
                f"build it: cd {shlex.quote(str(build.folder))} && {build.text}",
            )
    if number in (errno.ENOENT, errno.ENOTDIR, errno.EACCES) and "/" not in plan.argv[0]:
        places = (f"{folder}/-" for folder in os.get_exec_path(plan.env))
        if closed := next(filter(None, map(find_forbidden_folder, places)), ""):
            return failed(
                "X0401",
                f"there is no program {plan.argv[0]!r} on PATH, or it is in a folder that "
                f"cannot be searched: {_describe_closed(closed)}",
                f"{_find_help(plan.argv[0])}; or {_open_help(closed)}",
            )
    if number in (errno.ENOENT, errno.ENOTDIR):
        return failed("X0401", f"there is no program {plan.argv[0]!r}", _find_help(plan.argv[0]))
    if number in (errno.ENOEXEC, errno.EACCES) and _starts_with(program, WASM_MAGIC):
        return failed(
            "X0404",
            f"{program} is a WebAssembly module",
            'run it with source = { type = "wasm", path = "…" } in a config',
        )
    if number == errno.EACCES and os.path.isdir(program):  # noqa: PTH112
        return failed("X0404", f"{program} is a folder", "name the program inside it")
    if number == errno.EACCES and os.path.exists(program) and not os.path.isfile(program):  # noqa: PTH110, PTH113
        return failed(
            "X0404", f"{program} is a pipe, a socket or a device", "name the file of a program"
        )
    if number == errno.EACCES and os.access(program, os.F_OK) and _is_mounted_noexec(program):
        return failed(
            "X0404",
            f"{program} cannot be executed: its file system is mounted with noexec",
            "move it to another file system, or name its interpreter as the command and the file "
            "in `args`",
        )
    words = first_words(str(program)) if number == errno.EACCES else []
    if words and os.access(program, os.X_OK) and not os.access(words[0], os.X_OK):
        closed = find_forbidden_folder(words[0])
        reason = f": {_describe_closed(closed)}" if closed else ""
        help = (
            _open_help(closed) if closed else f"chmod +x it, or correct the first line of {program}"
        )
        return failed(
            "X0404", f"the interpreter {words[0]} of {program} cannot be executed{reason}", help
        )
    if number == errno.EACCES:
        return failed(
            "X0404",
            f"{program} cannot be executed",
            f"is it a program? try: chmod +x {shlex.quote(str(program))}",
        )
    if number == errno.ENOEXEC and _starts_with(program, b"\xef\xbb\xbf#!"):
        return failed(
            "X0404",
            f"{program} begins with a byte-order mark (EF BB BF), so its #! is not seen",
            "save it as UTF-8 without a mark",
        )
    if number == errno.ENOEXEC and (foreign := describe_foreign_program(str(program))):
        return failed("X0404", foreign, FOREIGN_PROGRAM_HELP)
    if number == errno.ENOEXEC:
        return failed(
            "X0404",
            f"{program} is not a program that this system can run",
            "a script needs a first line such as `#!/usr/bin/env python3`",
        )
    if number == errno.ENAMETOOLONG:
        longest_path = max(plan.argv[0], plan.cwd or "", key=len)
        return failed(
            "X0401" if longest_path == plan.argv[0] else "X0402",
            f"the path {longest_path[:40]!r}… is too long for the system",
            "put the arguments of the program in `args`, or correct the path",
        )
    if number == errno.E2BIG:
        # A variable may be a secret: only its name is shown.
        sizes = [(len(os.fsencode(text)), f"argument, {text[:20]!r}…") for text in plan.argv]
        sizes += [(len(os.fsencode(text)), f"variable, {name}") for name, text in plan.env.items()]
        size, longest = max(sizes)
        return failed(
            "X0406",
            "it could not be started: its arguments and variables are too long for the system; "
            f"the longest {longest}, has {size} bytes",
            "one argument or variable has at most 128 KiB on Linux: pass the data in a file, and "
            "its path as the argument",
        )
    if number in _SHORTAGES or isinstance(error, RuntimeError):
        return failed("X0405", *_describe_shortage(error))
    if number in (errno.EFBIG, errno.ENOSPC):
        return failed(
            "X0405",
            f"the host cannot write a file that the start needs: {error}",
            "raise the limit of file sizes (ulimit -f), or free memory and disk space",
        )
    return failed(
        "X0406", f"it could not be started: {error}", "run the command in a shell to see more"
    )


def _describe_shortage(error: Exception) -> tuple[str, str]:
    """Return the message and the help for a shortage of descriptors, processes or memory."""
    return (
        f"this machine has no room for another process: {error}",
        "stop other extensions, or raise the limit (ulimit -n, ulimit -u)",
    )


def _find_help(program: str) -> str:
    """Return what to do about a program that does not exist."""
    if url := re.search(r"https?://.*", program, re.IGNORECASE):
        return f'a remote server is an entry [mcp_servers.NAME] with url = "{url[0]}"'
    if re.match(r"[A-Za-z_]\w*=", program):
        return "a variable is set with `env`, not before the program: there is no shell"
    if "~" in Path(program).parts:
        home = Path("~").expanduser()
        rest = program.partition("~/")[2]
        return f"only a shell replaces ~: write the whole path, such as {home}/{rest}"
    if " " in program:
        return "put the arguments of the program in `args`"
    return "check the spelling and PATH, or give an absolute path"


def _describe_closed(folder: str) -> str:
    return f"the folder {folder} is closed to the user of the host (uid {os.getuid()})"


def _open_help(folder: str) -> str:
    return f"chmod a+x {shlex.quote(folder)}, or move what it needs to another folder"


def _is_mounted_noexec(program: Path) -> bool:
    try:
        return bool(os.statvfs(program).f_flag & os.ST_NOEXEC)
    except OSError:
        return False


# The machines of ELF programs by the number in their header (e_machine): the name, and how the
# names begin that `uname -m` prints on such a machine.
_MACHINES = {
    3: ("x86", ("i386", "i486", "i586", "i686", "x86_64")),
    21: ("ppc64", ("ppc64",)),
    22: ("s390x", ("s390x",)),
    40: ("arm", ("arm", "aarch64")),
    62: ("x86_64", ("x86_64",)),
    183: ("aarch64", ("aarch64", "arm64")),
    243: ("riscv", ("riscv",)),
}
_ELF_START_BYTES = 20  # up to the end of e_machine

# Mach-O files and Java classes begin with the same four bytes. The next four are the number of
# architectures, or the version of the format, which is at least this.
_FIRST_JAVA_VERSION = 45

FOREIGN_PROGRAM_HELP = "install or build it for this machine"


def describe_foreign_program(program: str) -> str:
    """Return a sentence that a program is for another machine or another operating system; "" if
    it is not known to be."""
    try:
        head = read_start(program, _ELF_START_BYTES)
    except OSError:
        return ""
    here = f"and this machine is {os.uname().sysname} on {os.uname().machine}"
    if head[:4] == b"\x7fELF" and len(head) == _ELF_START_BYTES:
        # The byte at 5 is the byte order of the file, and the bytes at 18 are e_machine.
        number = int.from_bytes(head[18:20], "little" if head[5] == 1 else "big")
        unknown = f"machine {number} of the ELF standard", ()
        machine, uname_starts = _MACHINES.get(number, unknown)
        if os.uname().machine.startswith(uname_starts) and sys.platform == "linux":
            return ""
        return f"{program} is a Linux program for {machine}, {here}"
    if head[:2] == b"MZ" and sys.platform != "win32":
        return f"{program} is a Windows program, {here}"
    # The beginnings of Mach-O files for one architecture: 64 bits, 32 bits.
    is_mach_o = head[:4] in (b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe")
    if head[:4] == b"\xca\xfe\xba\xbe" and len(head) >= 8:  # or for several in one file
        is_mach_o = int.from_bytes(head[4:8], "big") < _FIRST_JAVA_VERSION
        if not is_mach_o:
            return f"{program} is a Java class file, which `java` runs"
    if is_mach_o and sys.platform != "darwin":
        return f"{program} is a macOS program, {here}"
    return ""


def _starts_with(program: Path, start: bytes) -> bool:
    try:
        return read_start(str(program), len(start)) == start
    except OSError:
        return False


def _shebang(program: Path) -> str:
    """Return the interpreter that the first line of a program names; a note in brackets if there is
    none."""
    try:
        first = read_start(str(program), FIRST_LINE_BYTES).partition(b"\n")[0]
    except OSError:
        return "(unreadable)"
    if first.startswith(b"#!"):
        return first[2:].strip(b" \t\n").decode("utf-8", "replace").replace("\r", r"\r")
    return "(a dynamic loader or library is missing)"
