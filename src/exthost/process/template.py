"""A template: a Python process that has imported the modules of extensions, and from which their
processes are forked (`start_method = "template"`).

The template runs `template_program` in a PID namespace. As without a template, each start makes a
PID namespace for the extension, and "our init" in it: the first process of the namespace, a program
of the host (`launch/sandbox/init.c`). The new namespace is below that of the template. A process
that is forked from the template joins it, gives up the rights that this needs, and then runs the
program. If it cannot join, our init executes the program itself: a start from a template fails only
if an ordinary start would.

The template of a sandboxed extension runs in the sandbox of the extension, since it executes code
of its packages. A start makes a copy of that sandbox (`make_sandbox` in init.c). If no process
joins the copy, nothing is executed there, and the caller starts the program without a template.
The processes that are forked from a sandboxed template share its network: its loopback addresses,
and the proxy that leads to the hosts of `permissions.network`.

The template gets no variables, arguments or descriptors of an extension. They are in a file in
memory that only the forked process reads.
"""

import fcntl
import os
import socket
import struct
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import resources
from typing import Any, NamedTuple

from exthost.errors import escape_controls
from exthost.model.launch_plan import ExpectedPath, LaunchPlan
from exthost.process.child import Child
from exthost.process.copied_pages import find_copied_pages
from exthost.process.init_channel import SandboxCopy, TemplateEnds
from exthost.process.memory_file import memory_file
from exthost.process.procfs import max_pid
from exthost.wire.jsontext import decode

_SOURCE = "template_program.py"

# The interpreter reads the program of the template from its stdin. The global variables of
# `__main__` stay empty: they are those of the extension's program.
_BOOTSTRAP = (
    'exec(\'import os\\nb=b""\\nwhile len(b)<{0}:b+=os.read(0,{0}-len(b))\\n'
    'exec(compile(b,"<exthost template>","exec"),'
    '{{"__name__":"exthost_template","__file__":"<exthost template>"}})\',{{}})'
)

# The largest report that is read. A report that lists the files of a thousand modules is far
# smaller.
_MAX_REPORT_BYTES = 4 * 2**20

# How many modules with a fault, missing modules and variables a report may name. Usual programs
# have a few of each. Code that the template has imported may have written the report.
MAX_NAMES = 2000
_MAX_TEXT = 500

# How many files a report may name, and how long looking at them may take before a start. A thousand
# files take milliseconds. Hostile code can name paths of many symbolic links.
_MAX_FILES = 20_000
_CHECK_SECONDS = 0.5

# The least size of the file in memory that describes a start. The forked process overwrites the
# description with its answer.
_ANSWER_BYTES = 4096

# Space for the names of the modules that a program imports.
LEARNED_BYTES = 512 * 1024

# The request to the kernel for the user namespace that a namespace belongs to.
_NS_GET_USERNS = 0xB701

# For the choice of pids, as in init.c: the pids of the processes that a program starts begin at a
# number that depends on the pid of its wrapper, because programs of several namespaces may name
# files in a shared folder after their pids. The multiples of 2^32 / golden ratio, modulo 2^32, are
# far apart. Once the kernel has used the largest pid, it goes on with 300, not with 1.
_RESERVED_PIDS = 300
_GOLDEN_RATIO = 2654435769


class TemplateInputs(NamedTuple):
    """What a template is made from. Two extensions with the same inputs share a template.

    argv     the interpreter and its options
    env      the environment variables that the interpreter and the modules read
    options  the options of its sandbox
    filter   the system call filter of its sandbox
    mounts   each path that is mounted in its sandbox, with the device and inode of the file there
    cwd      the working folder, where modules may read files
    owner    an object that only the starts that may share the template have; None for all starts.
             A sandboxed extension does not share its template, because code in a template can look
             at the processes that are forked from it
    modules  the modules to import, in this order
    refused  the modules that are not imported
    """

    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    options: tuple[str, ...]
    filter: bytes
    mounts: tuple[ExpectedPath, ...]
    cwd: str
    owner: object | None
    modules: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


class TemplateReport(NamedTuple):
    """What a template reports when it has imported its modules.

    modules  how many modules are loaded
    faults   modules that cannot be in a template, each with the reason
    missing  modules that could not be imported, each with the reason
    reads    variables that modules read when they were imported, each with one of these modules.
             The name "*" stands for all variables
    files    path of each file that was used or looked for: its device, inode and modification time;
             zeros if it is not there
    """

    modules: int
    faults: Mapping[str, str]
    missing: Mapping[str, str]
    reads: Mapping[str, str]
    files: Mapping[str, tuple[int, int, int]]


class Template:
    """A template process.

    inputs        what it was made from
    report        its report; None until its modules are imported
    users         the ids of the extensions that use it
    starts        how many starts were made from it and are not closed
    is_retired    whether it was closed
    copied_pages  the ranges of memory that its processes copy; b"" until they are known
    """

    def __init__(self, plan: LaunchPlan, inputs: TemplateInputs, extension: str) -> None:
        """Start the template. `plan` has its namespace and limits."""
        source = resources.files(__package__).joinpath(_SOURCE).read_bytes()
        self.inputs = inputs
        self.report: TemplateReport | None = None
        self.users: set[str] = set()
        self.starts = 0
        self.is_retired = False
        self.copied_pages = b""
        self._output = b""
        # The descriptors of `TemplateEnds.under` and `SandboxCopy.outer`, while they are open.
        self._init = self._outer = -1
        self._private_mounts = plan.wrapper.private_mounts if plan.wrapper is not None else ()
        bootstrap = _BOOTSTRAP.format(len(source))
        argv = (*inputs.argv, "-c", bootstrap)
        self.child = Child(
            LaunchPlan(
                argv=argv,
                cwd=plan.cwd,
                env=dict(inputs.env),
                wrapper=plan.wrapper,
                network=plan.network,
                ceiling=plan.ceiling,
                group=plan.group,
            ),
            extension,
            is_template=True,
        )
        self._socket = socket.socket(fileno=os.dup(self.child.stdin))
        self._socket.setblocking(False)
        settings = pack((" ".join(inputs.modules).encode(), " ".join(inputs.refused).encode()))
        self._unsent = source + struct.pack("<I", len(settings)) + settings
        self.write()

    def write(self) -> bool:
        """Send its program and its settings to the template. Return whether all of it is sent, or
        cannot be sent because the template has ended."""
        while self._unsent:
            try:
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
            except BlockingIOError:
                return False
            except OSError:
                self._unsent = b""
        return True

    @property
    def descriptor(self) -> int:
        """The socket, which is writable while `write` returned False."""
        return self._socket.fileno()

    def read(self) -> bool:
        """Read the report. Return False if the template has ended or has sent something else."""
        try:
            data = os.read(self.child.stdout, 65536)
        except BlockingIOError:
            return True
        except OSError:
            data = b""
        if self.report is None:
            self._output += data
            if len(self._output) > _MAX_REPORT_BYTES:
                return False
            if self._output.endswith(b"\n"):
                self.report, self._output = _read_report(self._output, self._is_seen), b""
                self._init = self._open_init()
                return self.report is not None and self._init >= 0
            return bool(data)
        return False

    def _is_seen(self, path: str, inode: int) -> bool:
        """Return whether the file that the template saw at this path is the one that the host sees
        there: not if it is in a private file system of the sandbox. `inode` is 0 if the template
        saw no file."""
        mounted = [mount.path for mount in self.inputs.mounts]
        if not mounted:
            return True  # no sandbox
        # Mounts can be inside each other. The innermost one that contains the path decides.
        private_depth = _depth_below(path, self._private_mounts)
        is_in_mount = _depth_below(path, mounted) > private_depth
        # A file outside all mounts exists in the sandbox only if symlinks lead to a mounted one.
        return is_in_mount or (bool(inode) and private_depth < 0)

    def _open_init(self) -> int:
        """Return a pidfd of our init; -1 if it has ended."""
        pid = self.child.init_pid
        if pid is None:
            return -1
        try:
            if self.inputs.filter:
                self._outer = _find_owner_of_mounts(pid)
            return os.pidfd_open(pid)
        except OSError:
            return -1

    def start(
        self,
        fields: Mapping[str, bytes],
        learned: int = -1,
        sandbox: Callable[[int], SandboxCopy] | None = None,
        *,
        waits: bool = False,
    ) -> "WarmStart":
        """Return a new start.

        fields   describe the program
        learned  a file for the names of the modules that it imports, -1 for none
        sandbox  returns what our init needs to copy the sandbox of the template. Its argument is
                 the user namespace that made the mounts of that sandbox. None for a program
                 without a sandbox
        waits    whether the process waits for `WarmStart.go_on` before it runs the program"""
        self.starts += 1
        copy = None if sandbox is None else sandbox(self._outer)
        return WarmStart(self, fields, learned, copy, waits=waits)

    def send(self, descriptors: Sequence[int]) -> None:
        """Let the template fork a process, and pass it these descriptors. Raises OSError."""
        socket.send_fds(self._socket, [b"s"], list(descriptors))

    def look_at_pages(self, pids: Sequence[int]) -> None:
        """Find the pages of memory that the first of these processes has copied from the template,
        unless they are known from an earlier process."""
        if not self.copied_pages and pids:
            self.copied_pages = find_copied_pages(pids[0])

    @property
    def namespace(self) -> int:
        """The first descriptor of `TemplateEnds`. It belongs to the template."""
        return self._init

    def find_changed_file(self) -> str:
        """Return a file of the environment that has changed since the template read it, or a file
        that was replaced since it was mounted; "" if there is none."""
        assert self.report is not None
        deadline = time.monotonic() + _CHECK_SECONDS
        for mounted in self.inputs.mounts:
            if find_file(mounted.path) != mounted:
                return mounted.path
        for path, expected in self.report.files.items():
            found = (0, 0, 0)
            try:
                status = os.stat(path)  # noqa: PTH116 - a thousand files before each start
                found = (status.st_dev, status.st_ino, status.st_mtime_ns)
            except (FileNotFoundError, NotADirectoryError):
                pass
            except (OSError, ValueError):  # the template names the paths, and may be hostile
                return path
            if found != expected:
                return path
            if time.monotonic() > deadline:
                return path
        return ""

    def close(self) -> None:
        """End the template and all processes in its namespace. The caller reaps the child."""
        self.is_retired = True
        if self._socket.fileno() >= 0:
            self._socket.close()
        for fd in (self._init, self._outer):
            if fd >= 0:
                os.close(fd)
        self._init = self._outer = -1
        self.child.close_stdin()
        self.child.kill()


class WarmStart:
    """One start from a template: a `TemplateStart` for `Child`.

    A start can be made in advance (`waits`). Its process copies the pages of memory that an earlier
    process has copied, and waits for `go_on` before it runs the program. If `records`, the process
    records the modules that it imports."""

    def __init__(
        self,
        template: Template,
        fields: Mapping[str, bytes],
        learned: int,
        sandbox: SandboxCopy | None,
        *,
        waits: bool,
    ) -> None:
        self.template: Template | None = template
        self.has_modules = bool(template.inputs.modules)
        self.waits = waits
        self.records = learned >= 0
        self._gate = -1  # the pipe whose other end a process that waits reads
        self._sandbox = sandbox
        self.on_close: Callable[[], None] = lambda: None
        self._fields = dict(fields)
        self._learned = learned
        self._request = -1  # the file that describes the start, and then has the answer
        # The end of a socket to our init, for the process that joins the namespace.
        self._join: socket.socket | None = None
        self._outcome: tuple[bool, str] | None = None

    def ends(self) -> TemplateEnds:
        """Return the descriptors for our init, among them one end of a new socket."""
        assert self.template is not None
        ours, inits = socket.socketpair()
        for end in (ours, inits):  # so that the receiver of a message gets the pid of the sender
            end.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._join = ours
        return TemplateEnds(self.template.namespace, inits.detach(), self._sandbox)

    def send(self, pid: int, descriptors: Sequence[int]) -> None:
        """Let the template fork the program. `pid` is that of the wrapper, and `descriptors` are
        stdin, stdout and stderr of the program."""
        assert self._join is not None and self.template is not None
        fields = self._fields
        if "init_makes_namespace" in fields:
            place = (pid * _GOLDEN_RATIO & 0xFFFFFFFF) * (max_pid() - _RESERVED_PIDS) >> 32
            fields |= {"pid": b"%d" % pid, "next_pid": b"%d" % (_RESERVED_PIDS + place)}
        if self._learned >= 0:
            fields["learns"] = b"1"
        descriptors = [*descriptors, self._learned] if self._learned >= 0 else [*descriptors]
        opened: list[int] = []
        try:
            if self.waits:
                gate, self._gate = os.pipe()
                opened.append(gate)
                opened.append(memory_file("exthost-pages", self.template.copied_pages))
            self._request = memory_file(
                "exthost-start",
                pack((pack(part for name in fields for part in (name.encode(), fields[name])),)),
                _ANSWER_BYTES,
            )
            self.template.send((self._request, self._join.fileno(), *descriptors, *opened))
        except OSError as error:
            # `_join` is closed below. So our init reads the end of the file, and executes the
            # program without the template.
            self._outcome = False, f"the template does not answer: {error.strerror}"
        finally:
            self._join.close()
            self._fields = {}
            for fd in opened:
                os.close(fd)

    def go_on(self) -> bool:
        """Let the process run the program. Return False if it has ended."""
        try:
            os.write(self._gate, b"\1")
        except OSError:
            return False
        finally:
            self._close_gate()
        return True

    def _close_gate(self) -> None:
        if self._gate >= 0:
            os.close(self._gate)
            self._gate = -1

    @property
    def is_waiting(self) -> bool:
        """Whether its process has joined its namespace."""
        return self._request >= 0 and os.pread(self._request, 5, 0) == b"warm\n"

    def outcome(self) -> tuple[bool, str]:
        """Return whether the process was forked from the template, and the reason if it was not.
        Call this only after the program has sent something, since it answers before that."""
        if self._outcome is None:
            text = ""
            if self._request >= 0:
                data = os.pread(self._request, _ANSWER_BYTES, 0).partition(b"\0")[0]
                text = data.decode("utf-8", "replace")
                os.close(self._request)
                self._request = -1
            kind, _, reason = text.partition("\n")
            reason = escape_controls(reason[:_MAX_TEXT])
            self._outcome = kind == "warm", reason if kind == "cold" else ""
            if kind not in ("warm", "cold"):
                self._outcome = False, "the template did not answer in time"
        return self._outcome

    def close(self) -> None:
        """End the use of the template. The outcome stays known."""
        self._close_gate()
        self.outcome()
        if self._request >= 0:  # the start could not be sent
            os.close(self._request)
            self._request = -1
        if self.template is not None:
            self.template.starts -= 1
            self.template = None
            self.on_close()


def find_file(path: str) -> ExpectedPath:
    """Return the file at a path; a device and an inode of 0 if there is none."""
    try:
        status = os.stat(path)  # noqa: PTH116 - a hundred paths before each start
    except OSError:
        return ExpectedPath(path, 0, 0)
    return ExpectedPath(path, status.st_dev, status.st_ino)


def _find_owner_of_mounts(pid: int) -> int:
    """Return the user namespace that the mount namespace of a process belongs to."""
    mounts = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY)
    try:
        return fcntl.ioctl(mounts, _NS_GET_USERNS)
    finally:
        os.close(mounts)


def pack(fields: "Sequence[bytes] | Any") -> bytes:
    """Return fields as one message, each preceded by its length."""
    return b"".join(struct.pack("<I", len(field)) + field for field in fields)


def _depth_below(path: str, folders: Iterable[str]) -> int:
    """Return the length of the innermost of these files or folders that a path is or lies in."""
    names = (folder.rstrip("/") for folder in folders)
    return max((len(name) for name in names if f"{path}/".startswith(f"{name}/")), default=-1)


def _read_report(data: bytes, is_seen: Callable[[str, int], bool]) -> TemplateReport | None:
    """Return the report in the output of a template; None if it is not valid."""
    try:
        value = decode(data)
        if len(value["files"]) > _MAX_FILES:
            return None
        return TemplateReport(
            modules=int(value["modules"]),
            faults=_read_names(value["faults"]),
            missing=_read_names(value["missing"]),
            reads=_read_names(value["reads"]),
            files={
                str(path): (int(device), int(inode), int(modified))
                for path, (device, inode, modified) in value["files"].items()
                if is_seen(str(path), int(inode))
            },
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _read_names(value: Mapping[str, object]) -> dict[str, str]:
    """Return the names in a part of a report, each with its text. Raises ValueError if there are
    too many."""
    if len(value) > MAX_NAMES:
        raise ValueError("the report of a template has too many names")
    return {
        escape_controls(str(name)[:_MAX_TEXT]): escape_controls(str(text)[:_MAX_TEXT])
        for name, text in value.items()
    }
