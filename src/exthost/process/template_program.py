"""The program of a template: a Python process that imports modules once and forks a process for
each start of an extension.

A start from a template is faster than an ordinary start, because the modules are imported already.
The interpreter of the extension runs this file, so it uses only the standard library, and works
with Python 3.8. It imports nothing of exthost. The host (`process/template.py`) sends the text of
this file, the names of the modules, and a message for each start. A start can be made in advance:
the process then copies the memory that the program is going to write to, and waits before it runs
the program.

The template reads no variables or arguments of an extension: these are in a file that only the
forked process reads. That process joins the namespaces of the start, which the first process in
them makes (`launch/sandbox/init.c`). Then it gives up the rights that it has there, and runs the
program in place of this one. If that fails, the start is "cold": the first process executes the
program in the ordinary way. A start from the template is "warm".
"""

import os
import sys

# The modules of the interpreter itself, before this program imports its own.
_KNOWN_BEFORE = frozenset(sys.modules)

# As few modules as possible (`_socket` instead of `socket`): programs that do not need them have
# them in memory, too.
import _socket  # noqa: E402
import ctypes  # noqa: E402
import gc  # noqa: E402
import importlib  # noqa: E402
import importlib.machinery  # noqa: E402
import resource  # noqa: E402
import signal  # noqa: E402
import stat  # noqa: E402
import struct  # noqa: E402

_libc = ctypes.CDLL(None, use_errno=True)

# The kinds of namespaces, by their names in /proc/PID/ns, with their flags for setns(2).
_NAMESPACES = (
    ("user", 0x10000000),
    ("mnt", 0x00020000),
    ("pid", 0x20000000),
    ("net", 0x40000000),
    ("ipc", 0x08000000),
    ("uts", 0x04000000),
    ("cgroup", 0x02000000),
)
# Numbers of Linux that the standard library does not have: system calls (capset(2) has another one
# on each architecture), and constants of capset(2), prctl(2), seccomp(2) and madvise(2).
_PIDFD_OPEN = 434
_CAPSET = {"x86_64": 126, "aarch64": 91}
_CAPABILITY_VERSION = 0x20080522
_PR_SET_DUMPABLE = 4
_PR_SET_NAME, _PR_SET_SECCOMP, _PR_CAPBSET_DROP, _PR_SET_MM = 15, 22, 24, 35
_PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 38, 47
_PR_SET_MM_MAP = 14
_SECCOMP_FILTER = 2
_AMBIENT_CLEAR_ALL = 4
_LAST_CAPABILITY = 63
_MADV_POPULATE_WRITE = 23

# The modules and packages that the template has imported, without those of its own program.
_imported = set()

# The original function: `_Preload.run` replaces `os.stat` for a while.
_stat = os.stat

# File systems whose files are made when they are read.
_VIRTUAL = ("/proc/", "/sys/", "/dev/")

# The names of the folders in which packages are installed.
_PACKAGE_FOLDERS = ("site-packages", "dist-packages", "lib-dynload")

# Signals that every Python process ignores. Their disposition is not copied.
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


class _Refusal(BaseException):
    """Raised in place of importing a module that a template must not import. It is not an
    Exception, so that no importing module catches it and goes on without the refused one."""


class _Cold(Exception):
    """Raised if a start cannot use the template. The message is the reason."""


# -- import of modules -----------------------------------------------------------------------------


class _WatchedStat:
    """`os.stat` while modules are imported. It calls `on_absent` with a path at which there is no
    file. A module may keep it, so it equals the original, which is in `os.supports_fd` and other
    sets."""

    def __init__(self, original, on_absent):
        self._original = original
        self._on_absent = on_absent

    def __call__(self, *arguments, **options):
        try:
            return self._original(*arguments, **options)
        except (FileNotFoundError, NotADirectoryError):
            if arguments:
                self._on_absent(arguments[0])
            raise

    def __eq__(self, other):
        return other is self or other is self._original

    def __hash__(self):
        return hash(self._original)

    def __getattr__(self, name):
        return getattr(self._original, name)


class _Preload:
    """Imports the modules of the environment, and records what their import does.

    files    the files that were read or looked for, each with its device, inode and time; zeros if
             it is not there
    faults   modules that must not be in a template, but be imported by each process, each with the
             reason
    reads    variables that modules read, each with such a module
    missing  modules that could not be imported, each with the reason
    """

    def __init__(self, refused, roots):
        self._refused = refused
        self._roots = roots
        self._stack = []  # the modules that are being imported; the innermost is the last
        self._created = []  # files and folders that the innermost modules have created
        self._may_share = False  # whether a module may have shared memory
        self._mappings = _shared_mappings()
        self._resources_at_fault = (0, 0)  # the result of `_resources` at the last fault
        self.files = {}
        self.faults = {}
        self.reads = {}
        self.missing = {}

    def run(self, names):
        """Import the modules. Until it is done, other methods replace the loaders' `exec_module`
        and the class of `os.environ`, to record what is used."""
        loaders = (
            importlib.machinery.SourceFileLoader,
            importlib.machinery.SourcelessFileLoader,
            importlib.machinery.ExtensionFileLoader,
        )
        # None for a loader that inherits the method.
        originals = [(loader, loader.__dict__.get("exec_module")) for loader in loaders]
        variables = type(os.environ)
        for loader in loaders:
            loader.exec_module = self._wrap_exec_module(loader.exec_module)
        os.environ.__class__ = self._make_recording_class(variables)
        os.stat = _WatchedStat(_stat, self._look_at)
        sys.addaudithook(self._observe)
        try:
            for name in names:
                if name not in sys.modules:
                    self._import(name)
        finally:
            os.stat = _stat
            os.environ.__class__ = variables
            for loader, original in originals:
                if original is None:
                    del loader.exec_module
                else:
                    loader.exec_module = original

    def _import(self, name):
        try:
            importlib.import_module(name)
        except BaseException as error:
            self.missing[name] = str(error)[:200] or type(error).__name__

    def _wrap_exec_module(self, execute):
        """Return an `exec_module` that checks a module before it is executed, and its effects
        afterwards."""

        def exec_module(loader, module):
            name, path = module.__name__, getattr(module.__spec__, "origin", None) or ""
            if name in self._refused:
                raise _Refusal("it is not imported by a template")
            if not path.startswith(self._roots):
                raise _Refusal("it is not a file of the environment")
            self.files[path] = _identify(path) or (0, 0, 0)
            # Code in C can share memory in ways that are not seen.
            self._may_share |= isinstance(loader, importlib.machinery.ExtensionFileLoader)
            resources_before = _resources()
            self._stack.append(name)
            try:
                return execute(loader, module)
            finally:
                self._stack.pop()
                self._check_effects(name, resources_before)

        return exec_module

    def _observe(self, event, arguments):
        """Handle an audit event of the interpreter. An audit hook cannot be removed, so this one
        returns at once when no module is being imported."""
        if not self._stack:
            return
        try:
            self._handle(event, arguments)
        except (TypeError, ValueError, IndexError):
            pass  # a module has made an event of this name itself

    def _handle(self, event, arguments):
        """Record what an audit event shows about the module that is being imported."""
        if event == "open":
            path, _, flags = arguments
            if flags & os.O_CREAT:
                self._note_creation(path)
            elif flags & os.O_ACCMODE == os.O_RDONLY:
                self._look_at(path)
        elif event == "os.mkdir":
            self._note_creation(arguments[0])
        elif event == "os.rename":
            self._note_creation(arguments[1])
        elif event == "mmap.__new__":
            self._may_share = True

    def _look_at(self, path):
        """Record a file that a module reads or looks for. The host replaces the template when such
        a file has changed, or when one that was missing exists."""
        path = _absolute(path) if self._stack else ""
        is_module = path.endswith((".py", ".pyc")) and path.startswith(self._roots)
        if path and not is_module and not path.startswith(_VIRTUAL) and path not in self.files:
            status = _identify(path)
            if status is not None:
                self.files[path] = status

    def _note_creation(self, path):
        path = _absolute(path)
        if path and not _is_bytecode(path) and not os.path.lexists(path):
            self._created.append(path)

    def _check_effects(self, name, resources_before):
        """Record a fault if the import has created files, shared memory, threads or descriptors: a
        forked process would share them, or lack them."""
        created, self._created = list(filter(os.path.lexists, self._created)), []
        if created:
            self.faults[name] = "it creates %s when it is imported" % created[0]
            return
        if self._may_share or "multiprocessing.synchronize" in sys.modules:
            self._may_share = False
            mappings = _shared_mappings()
            if mappings > self._mappings:
                self._mappings = mappings
                self.faults[name] = "it shares memory when it is imported"
                return
        threads, descriptors = _resources()
        # The innermost module is checked first. Its threads and descriptors must not count for the
        # modules that import it, so theirs are compared with the numbers at the last fault.
        threads_before = max(resources_before[0], self._resources_at_fault[0])
        descriptors_before = max(resources_before[1], self._resources_at_fault[1])
        if threads > threads_before:
            self.faults[name] = "it starts a thread when it is imported"
        elif descriptors > descriptors_before:
            self.faults[name] = "it opens a file or socket when it is imported"
        else:
            return
        self._resources_at_fault = (threads, descriptors)

    def _make_recording_class(self, variables):
        """Return a subclass of this class of variables that records which ones are read."""
        preload = self

        class _RecordingVariables(variables):
            def __getitem__(self, name):
                preload._note_variable(name)
                return super().__getitem__(name)

            def __iter__(self):
                preload._note_variable("*")
                return super().__iter__()

        return _RecordingVariables

    def _note_variable(self, name):
        """Record that the module that is being imported reads a variable; "*" for all of them."""
        if self._stack and isinstance(name, str):
            self.reads.setdefault(name, self._stack[-1])


def _identify(path):
    """Return device, inode and time of a file; zeros if it is not there, None if it is not a file
    or cannot be looked at."""
    try:
        status = _stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return 0, 0, 0
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns


def _absolute(path):
    """Return an absolute path; "" if it cannot be named in a report."""
    try:
        path = os.path.abspath(os.fsdecode(path))
        path.encode()
    except (TypeError, ValueError):
        return ""  # such as the number of a descriptor
    return path


def _is_bytecode(path):
    """Return whether the interpreter creates this path when it compiles a module."""
    prefix = getattr(sys, "pycache_prefix", None)
    return "__pycache__" in path or (prefix is not None and path.startswith(prefix))


def _shared_mappings():
    """Return how many ranges of memory this process would share with those that are forked from
    it."""
    with open("/proc/self/maps", "rb") as file:
        return sum(b" rw-s " in line or b" rwxs " in line for line in file)


def _resources():
    """Return the numbers of threads and of open descriptors of this process."""
    return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))


def _environment_files():
    """Return the files that the interpreter has used by now, and the folders of packages, each with
    its device, inode and time. A new package, or another interpreter, changes the environment."""
    packages = [path for path in sys.path if os.path.basename(path) in _PACKAGE_FOLDERS]
    paths = [*packages, os.path.join(sys.prefix, "pyvenv.cfg"), sys.executable]
    for folder in packages:
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        paths += [os.path.join(folder, name) for name in names if name.endswith(".pth")]
    # Modules that such files import, and sitecustomize.
    specs = [getattr(module, "__spec__", None) for module in list(sys.modules.values())]
    paths += [spec.origin for spec in specs if getattr(spec, "has_location", False)]
    environment = {}
    for path in paths:
        try:
            status = os.stat(path)
        except (OSError, TypeError, ValueError):
            continue
        environment[path] = (status.st_dev, status.st_ino, status.st_mtime_ns)
    return environment


def _environment_roots():
    """Return the beginnings of the paths of modules that a template imports: those of the
    interpreter and of installed packages."""
    roots = {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix}
    folders = {os.path.dirname(os.__file__)}
    folders.update(path for path in sys.path if os.path.basename(path) in _PACKAGE_FOLDERS)
    libraries = {os.path.join(root, name) for root in roots for name in ("lib", "lib64", "Lib")}
    return tuple(sorted(folder + os.sep for folder in folders | libraries if folder))


# -- messages --------------------------------------------------------------------------------------


def _unpack(data):
    """Return the fields of a message: names and values, each after its length."""
    fields, position = [], 0
    while position < len(data):
        (length,) = struct.unpack_from("<I", data, position)
        fields.append(data[position + 4 : position + 4 + length])
        position += 4 + length
    return fields


def _json(value):
    """Return JSON text. The module json is not imported, since the program may not import it."""
    if isinstance(value, dict):
        return "{%s}" % ",".join(_json(str(k)) + ":" + _json(value[k]) for k in value)
    if isinstance(value, (list, tuple)):
        return "[%s]" % ",".join(map(_json, value))
    if isinstance(value, str):
        units = value.encode("utf-16-be", "surrogatepass")
        codes = struct.unpack(">%dH" % (len(units) // 2), units)
        return '"%s"' % "".join(
            chr(c) if 32 <= c < 127 and c not in (34, 92) else "\\u%04x" % c for c in codes
        )
    return {None: "null", True: "true", False: "false"}.get(value, str(value))


def _write_all(fd, data):
    while data:
        data = data[os.write(fd, data) :]


# -- the start of a program ------------------------------------------------------------------------


class _Start:
    """One start: the description that the host wrote for it, and the descriptors that it sent.

    request  the file with the description, which is overwritten with the answer
    join     the socket to the first process of the namespaces
    learned  the file for the names of the modules that the program imports; -1 for none
    gate     the pipe from which a process that was made in advance reads when to go on; -1 if the
             process does not wait
    pages    the file with the ranges of memory that such a process copies; -1 for none
    values   the fields of the description
    target   the script, or the module if `is_module`
    """

    def __init__(self, descriptors):
        self.request, self.join, self.stdin, self.stdout, self.stderr, *more = descriptors
        data = _read_file(self.request)
        self._size = len(data)  # the file must not become shorter: it is sealed and cannot grow
        self.report("")  # erases the file, because the variables may be secrets
        # A message that is followed by zeros, up to the least size of the file.
        (length,) = struct.unpack_from("<I", data)
        fields = _unpack(data[4 : 4 + length])
        self.values = dict(zip(fields[::2], fields[1::2]))
        # The host sends the further descriptors in this order, each only if it is needed.
        self.learned = more.pop(0) if self.flag(b"learns") else -1
        self.gate, self.pages = more if more else (-1, -1)
        self.argv = _unpack(self.values[b"argv"])
        self.orig_argv = _unpack(self.values[b"orig_argv"])
        variables = _unpack(self.values[b"env"])
        self.env = list(zip(variables[::2], variables[1::2]))
        self.target = os.fsdecode(self.values[b"target"])
        self.is_module = self.flag(b"module")

    def flag(self, name):
        return self.values.get(name) == b"1"

    def report(self, text):
        """Write the answer to the host over the description of the start."""
        text = text.encode("utf-8", "replace")[: self._size - 1]
        os.pwrite(self.request, text.ljust(self._size, b"\0"), 0)


def _read_file(fd):
    """Return the content of an open file, from its beginning."""
    data, position = b"", 0
    while True:
        part = os.pread(fd, 1 << 20, position)
        if not part:
            return data
        data += part
        position += len(part)


def _serve(sock):
    """Fork a process for each start. Return only in a process that is to run a program."""
    while True:
        descriptors = _receive(sock)
        if not os.fork():
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            return _join(descriptors)
        for fd in descriptors:
            os.close(fd)


def _receive(sock):
    """Return the descriptors of the next start."""
    while True:
        try:
            # Room for 16 descriptors, of 4 bytes each. At most 8 are sent.
            message, ancillary, _, _ = sock.recvmsg(1, _socket.CMSG_LEN(16 * 4))
        except InterruptedError:
            continue
        if not message:
            os._exit(0)  # the host has closed its end, or has ended
        descriptors = []
        for _, _, data in ancillary:
            descriptors += struct.unpack("%di" % (len(data) // 4), data[: len(data) // 4 * 4])
        return descriptors


def _copy_pages(fd):
    """Write to ranges of memory that are still shared with the template, which copies them. The
    kernel ignores ranges that are not there; before Linux 5.14 it ignores all."""
    for address, size in struct.iter_unpack("=QQ", _read_file(fd)):
        start, length = ctypes.c_void_p(address), ctypes.c_size_t(size)
        _libc.madvise(start, length, _MADV_POPULATE_WRITE)


def _join(descriptors):
    """Join the namespaces of a start. Return in a new process, which is to run the program.

    A process that joins a PID namespace is not in it; only its children are. So this process forks
    a child, which chooses the pid of the program and forks it. The child exits, so that the first
    process of the namespace becomes the parent of the program."""
    start = None
    try:
        start = _Start(descriptors)
        if start.flag(b"sandboxed"):
            _enter_sandbox(start.join)
            start.gains_rights = True
        else:
            start.gains_rights = _enter(_await_init(start.join)) and os.geteuid() != 0
        if os.fork():
            os._exit(0)
        _take_over_settings(start)
        _choose_pid(start)
        program = os.fork()
        if program:
            _spread_pids(start)
            _write_all(start.join, struct.pack("=i", program))
            os._exit(0)
    except BaseException as error:
        _decline(start, error)
    return start


def _decline(start, error):
    """Let the program be executed without the template, and report the reason."""
    try:
        reason = (
            str(error) if isinstance(error, _Cold) else "%s: %s" % (type(error).__name__, error)
        )
        if start is not None:
            start.report("cold\n" + reason)
            os.write(start.join, struct.pack("=i", 0))
    finally:
        os._exit(1)


def _await_init(join):
    """Wait for the first process of the namespace, and return its pid in this namespace, to which
    the kernel translates the pid of a sender."""
    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, fileno=os.dup(join))
    message, ancillary, _, _ = sock.recvmsg(1, _socket.CMSG_LEN(12))
    sock.close()
    for level, kind, data in ancillary:
        if level == _socket.SOL_SOCKET and kind == _socket.SCM_CREDENTIALS and message:
            return struct.unpack("3i", data[:12])[0]  # pid, uid, gid
    raise _Cold("the first process of its namespace has ended")


def _enter_sandbox(join):
    """Join the namespaces of a sandbox, which its first process sends when it has made them."""
    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, fileno=os.dup(join))
    # Room for the credentials of the sender and for four descriptors.
    _, ancillary, _, _ = sock.recvmsg(1, _socket.CMSG_SPACE(12) + _socket.CMSG_SPACE(16))
    sock.close()
    namespaces = []
    for level, kind, data in ancillary:
        if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
            namespaces += struct.unpack("%di" % (len(data) // 4), data[: len(data) // 4 * 4])
    if not namespaces:
        raise _Cold("its sandbox could not be made")
    for fd in namespaces:
        if _libc.setns(fd, 0) != 0:
            reason = os.strerror(ctypes.get_errno())
            raise _Cold("it could not join its sandbox: %s" % reason)
        os.close(fd)


def _enter(init):
    """Join all namespaces of a process. Return whether this process has changed its user namespace:
    it then has all capabilities in the new one."""
    flags = 0
    for name, flag in _NAMESPACES:
        try:
            theirs, ours = (os.stat("/proc/%s/ns/%s" % (pid, name)) for pid in (init, "self"))
        except FileNotFoundError:
            continue  # the kernel has no namespaces of this kind
        if theirs.st_ino != ours.st_ino:
            flags |= flag
    pidfd = _libc.syscall(_PIDFD_OPEN, init, 0)
    if pidfd < 0 or _libc.setns(pidfd, flags) != 0:
        number = ctypes.get_errno()
        raise _Cold("it could not join its namespace: %s" % os.strerror(number))
    os.close(pidfd)
    return bool(flags & _NAMESPACES[0][1])


def _take_over_settings(start):
    """Copy what the first process of the namespace got from the host, as a program that it
    executes would."""
    os.chdir(start.values.get(b"cwd", b"/proc/1/cwd"))
    with open("/proc/1/status", "rb") as file:
        lines = dict(line.split(b":", 1) for line in file if b":" in line)
    os.umask(int(lines.get(b"Umask", b"022"), 8))
    ignored = int(lines[b"SigIgn"], 16)
    for number in range(1, 32):
        if number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD) + _IGNORED_BY_PYTHON:
            continue
        is_ignored = signal.getsignal(number) == signal.SIG_IGN
        if ignored >> (number - 1) & 1:  # SigIgn is a bit mask, in which signal 1 is bit 0
            signal.signal(number, signal.SIG_IGN)
        elif is_ignored:
            normal = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            signal.signal(number, normal)
    for kind in range(16):
        try:
            limits = resource.prlimit(1, kind)
            if limits != resource.getrlimit(kind):
                resource.setrlimit(kind, limits)
        except (ValueError, OSError):
            pass  # the kernel does not know it, or it cannot be raised
    start.folder = _first_folder(start)
    if start.folder is not None:
        hidden = _importable_names(start.folder)
        if common := sorted(hidden & _imported):
            raise _Cold("its folder %s has a module %s of its own" % (start.folder, common[0]))


def _importable_names(folder):
    """Return the names of the modules and packages in a folder. The folder of a console script has
    programs that are called like modules."""
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return set()
    suffixes = tuple(importlib.machinery.all_suffixes())
    return {
        entry.name.partition(".")[0]
        for entry in entries
        if entry.name.endswith(suffixes) or entry.is_dir()
    }


def _first_folder(start):
    """Return the first folder of the program's module search path; None if it has none."""
    if sys.flags.isolated or getattr(sys.flags, "safe_path", False):
        return None
    if start.is_module:
        return os.getcwd()
    return os.path.dirname(os.path.realpath(start.target))


def _choose_pid(start):
    """Let the next process have the pid that the host chose for the program, if it chose one."""
    pid = int(start.values.get(b"pid", b"0"))
    if pid:
        _write_last_pid(pid - 1)


def _spread_pids(start):
    """Let the pids of the processes that the program starts begin where the host chose, so that two
    extensions seldom have processes of the same pid."""
    next_pid = int(start.values.get(b"next_pid", b"0"))
    if next_pid:
        _write_last_pid(next_pid)


def _write_last_pid(pid):
    """Let the pid of the next process in this namespace be the one after this."""
    try:
        with open("/proc/sys/kernel/ns_last_pid", "w") as file:
            file.write(str(pid))
    except OSError:
        pass  # the kernel chooses the pid


def _turn_into_program(start):
    """Give this process what the program has: descriptors, limits, variables, rights."""
    if os.read(start.join, 1) != b"\1":
        os._exit(1)  # the program was executed without the template meanwhile
    start.report("warm\n")
    # Until the process that forked this one has exited (see `_join`).
    while os.getppid() != 1:
        os.sched_yield()
    os.setsid()
    if start.learned >= 0:
        _record_imports(start.learned)
    for fd, number in ((start.stdin, 0), (start.stdout, 1), (start.stderr, 2)):
        os.dup2(fd, number)
    if start.pages >= 0:
        _copy_pages(start.pages)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) != start.gate:
            try:
                os.close(int(name))
            except OSError:
                pass  # the descriptor with which the folder was listed
    numbers = [int(number) for number in start.values[b"limits"].split()]
    for kind, soft, hard in zip(numbers[::3], numbers[1::3], numbers[2::3]):
        resource.setrlimit(kind, (soft, hard))
    os.environb.clear()
    for name, value in start.env:
        os.environb[name] = value
    _show_command(start)
    _give_up_rights(start)
    if start.gate >= 0:
        _wait_at_gate(start.gate)


def _wait_at_gate(gate):
    """Wait until the host needs the process of a start that was made in advance."""
    if os.read(gate, 1) != b"\1":
        os._exit(0)  # it is not needed
    os.close(gate)


def _give_up_rights(start):
    """Give up capabilities, and apply the system call filter."""
    if start.flag(b"no_bounding_set"):
        for capability in range(_LAST_CAPABILITY + 1):
            _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    # Where a program is executed, the kernel removes the capabilities of an ordinary user. Nothing
    # is executed here.
    if start.flag(b"no_capabilities") or start.gains_rights:
        _libc.prctl(_PR_CAP_AMBIENT, _AMBIENT_CLEAR_ALL, 0, 0, 0)
        header = struct.pack("Ii", _CAPABILITY_VERSION, 0)
        if _libc.syscall(_CAPSET[os.uname().machine], header, bytes(24)) != 0:
            os._exit(126)
    # Joining a user namespace closes /proc/self to this process, as a set-user-ID program does.
    _libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)
    if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        os._exit(126)
    if code := start.values.get(b"filter"):
        buffer = ctypes.create_string_buffer(code, len(code))
        program = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))
        if _libc.prctl(_PR_SET_SECCOMP, _SECCOMP_FILTER, program, 0, 0) != 0:
            os._exit(126)


# Keeps the memory alive that /proc shows as the command line and the variables.
_shown = []


def _show_command(start):
    """Let /proc show the command line and the variables of the program, where the kernel can."""
    name = os.path.basename(start.values[b"program"])[:15]
    _libc.prctl(_PR_SET_NAME, name, 0, 0, 0)
    words = b"".join(word + b"\0" for word in start.orig_argv)
    variables = b"".join(b"%s=%s\0" % pair for pair in start.env)
    memory = ctypes.create_string_buffer(words + variables + b"\0")
    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    # Fields 26 to 28 and 45 to 51 of proc(5); the list begins with field 3.
    start_code, end_code, start_stack = (int(fields[n]) for n in (23, 24, 25))
    start_data, end_data, start_brk = (int(fields[n]) for n in (42, 43, 44))
    _libc.sbrk.restype = ctypes.c_void_p
    first = ctypes.addressof(memory)
    layout = struct.pack(
        "12QIi",
        *(start_code, end_code, start_data, end_data, start_brk, _libc.sbrk(0), start_stack),
        *(first, first + len(words), first + len(words), first + len(words) + len(variables)),
        *(0, 0, -1),
    )
    if _libc.prctl(_PR_SET_MM, _PR_SET_MM_MAP, layout, len(layout), 0) == 0:
        _shown.append(memory)


def _reseed():
    """Replace what would be equal in all processes of the template: random numbers that modules
    made when they were imported, and the recorded id of the main thread."""
    modules = sys.modules
    if (numpy := modules.get("numpy.random")) is not None:
        numpy.seed(None)
    if (tempfile := modules.get("tempfile")) is not None:
        tempfile._name_sequence = None
    if (process := modules.get("multiprocessing.process")) is not None:
        process.current_process().authkey = os.urandom(32)
    if (threading := modules.get("threading")) is not None:
        threading.main_thread()._native_id = threading.get_native_id()


def _record_imports(fd):
    """Record the names of all modules that the program imports, in memory that the host reads."""
    import mmap

    size = os.fstat(fd).st_size
    memory = mmap.mmap(fd, size)
    position, known = 0, 0

    def record(event, _):
        nonlocal position, known
        if event not in ("import", "exec") or len(sys.modules) == known:
            return
        names = list(sys.modules)
        new = names[known:] if len(names) > known else names
        known = len(names)
        data = "".join("%s\n" % name for name in new).encode("utf-8", "replace")
        if position + len(data) < size:
            memory[position : position + len(data)] = data
            position += len(data)

    sys.addaudithook(record)


def _run(start):
    """Run the program as the interpreter would have run it."""
    main = sys.modules["__main__"]
    if sys.path and sys.path[0] == "":
        del sys.path[0]
    arguments = [os.fsdecode(word) for word in start.argv]
    sys.orig_argv = [os.fsdecode(word) for word in start.orig_argv]
    if start.is_module:
        import runpy

        sys.argv = ["-m", *arguments]
        if start.folder is not None:
            sys.path.insert(0, start.folder)
        runpy._run_module_as_main(start.target)
        return
    sys.argv = [start.target, *arguments]
    if start.folder is not None:
        sys.path.insert(0, start.folder)
    path = os.path.abspath(start.target) if sys.version_info >= (3, 9) else start.target
    main.__file__ = path
    main.__cached__ = None
    main.__loader__ = importlib.machinery.SourceFileLoader("__main__", path)
    with open(path, "rb") as file:
        source = file.read()
    try:
        exec(compile(source, path, "exec", 0, True), main.__dict__)
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        raise SystemExit(1) from None


def _main():
    """Import the modules, report, and serve starts. Return the start in a forked process."""
    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, fileno=0)
    size = struct.unpack("<I", _read_exactly(sock, 4))[0]
    names, refused = _unpack(_read_exactly(sock, size))
    preload = _Preload(frozenset(refused.decode().split()), _environment_roots())
    environment = _environment_files()
    preload.run(names.decode().split())
    report = {
        "modules": len(sys.modules),
        "faults": preload.faults,
        "missing": preload.missing,
        "reads": preload.reads,
        "files": {**environment, **preload.files},
    }
    # Computed here because each forked process would copy the memory of all these names.
    _imported.update(name.partition(".")[0] for name in sys.modules if name not in _KNOWN_BEFORE)
    gc.collect()
    if hasattr(gc, "freeze"):
        gc.freeze()  # the collector of a forked process would copy the pages of these objects
    _write_all(1, _json(report).encode() + b"\n")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the processes that join are not waited for
    start = _serve(sock)
    sock.detach()
    _turn_into_program(start)
    _reseed()
    return start


def _read_exactly(sock, size):
    data = b""
    while len(data) < size:
        part = sock.recv(size - len(data))
        if not part:
            os._exit(0)
        data += part
    return data


# The host executes the text of this file under this name (see `_BOOTSTRAP` in template.py).
if __name__ == "exthost_template":
    _run(_main())
