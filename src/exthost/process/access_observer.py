"""Observes which files a program uses and which addresses it connects to.

An `AccessObserver` starts the processes of an extension under a seccomp filter that reports system
calls (`observed_program.py`). A thread for each process receives the calls, reads their paths and
addresses from the memory of the caller, and lets them continue. All processes that the program
starts are observed as well.

Look-ups of names are observed by replacing the socket: if the program connects a UDP socket to port
53, it gets a socket of ours, and the answers of the server are read on their way.

The observer restricts nothing and must not be used as a sandbox. A program can find out that it is
observed, and can change a path after it was read. The result is therefore only a proposal.
"""

import fcntl
import ipaddress
import os
import select
import shutil
import socket
import stat
import struct
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple, cast, get_args

from exthost.model.launch_plan import LaunchPlan
from exthost.model.observed_access import (
    Destination,
    FileUse,
    Observations,
    ObservedCall,
    PathArgument,
)
from exthost.process.child import Child
from exthost.process.dns_answers import read_answer

# The ioctls of the observer's end of a filter (linux/seccomp.h, SECCOMP_IOCTL_NOTIF_…): receive a
# call, answer it, ask whether its caller still waits, and put a descriptor into the caller.
_RECEIVE, _SEND, _IS_VALID, _ADD_DESCRIPTOR = 0xC0502100, 0xC0182101, 0x40082102, 0x40182103
# The size of struct seccomp_notif.
_NOTIFICATION_BYTES = 80
# The flag of an answer with which the kernel executes the call. Without it, the call just returns
# the result in the answer.
_CONTINUE = 1
# The flag of _ADD_DESCRIPTOR with which the descriptor replaces one of the caller.
_REPLACE_DESCRIPTOR = 1

# The script that applies the filter.
_LAUNCHER = str(Path(__file__).with_name("observed_program.py"))

# The longest folder in which the path of a Unix socket still has room: it has 107 bytes at most.
_MAX_TEMP_BYTES = 64

# The size of struct sockaddr_storage.
_MAX_ADDRESS_BYTES = 128

_PAGE_BYTES = 4096
_MAX_PATH_BYTES = 4096
# In place of the descriptor of a folder: the working folder.
_AT_FDCWD = -100
_DNS_PORT = 53
_MAX_DATAGRAM_BYTES = 65535

# The number of a system call, on every architecture.
_PIDFD_GETFD = 438

# A program can use any number of paths. More than these are only counted.
_MAX_PATHS = 100_000
_MAX_ADDRESSES = 10_000

# A program that looks up names opens a socket for each. More than these are not relayed, and their
# names are unknown.
_MAX_RELAYED_SOCKETS = 200

# How long the launched process may take until it has applied the filter. It takes a tenth of a
# second on an idle machine.
_START_SECONDS = 60.0

# Folders whose files are interfaces of the kernel. Every sandbox has its own.
_KERNEL_FOLDERS = ("/proc/", "/sys/", "/dev/")


class _ReportedCall(NamedTuple):
    """A system call that waits for the observer.

    id         the kernel's number of the report
    pid        the caller: a process or a thread
    call       how the call is read
    arguments  its six arguments
    """

    id: int
    pid: int
    call: ObservedCall
    arguments: list[int]


class _Route(NamedTuple):
    """Where the name relay forwards what a socket receives.

    source     the socket that receives
    target     the socket that sends
    is_answer  whether the source receives the answers of a name server
    """

    source: socket.socket
    target: socket.socket
    is_answer: bool


class AccessObserver:
    """Observes the processes that it starts. Close it after they have ended; closing waits for its
    threads."""

    def __init__(self, filter: bytes, calls: Mapping[int, ObservedCall]) -> None:
        """`filter` is the seccomp filter that reports the calls, and `calls` says how each call is
        read, by its number."""
        self._filter = filter
        self._calls = calls
        temp = tempfile.gettempdir()
        self._folder = Path(
            tempfile.mkdtemp(
                prefix="exthost-observer-",
                dir=temp if len(os.fsencode(temp)) <= _MAX_TEMP_BYTES else "/tmp",
            )
        )
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._stop_read, self._stop_write = os.pipe()
        self._files: dict[str, set[FileUse]] = {}
        self._created: set[str] = set()
        self._destinations: dict[Destination, None] = {}
        self._names: dict[str, str] = {}  # name by address
        # Ordered sets: the names that were looked up, the ports on which the program listens (such
        # as "tcp 8080"), and the paths of the Unix sockets to which it connects.
        self._looked_up: dict[str, None] = {}
        self._listeners: dict[str, None] = {}
        self._unix_sockets: dict[str, None] = {}
        self._unseen = 0  # uses that were not recorded: they could not be read, or are too many
        self.start_error = 0  # the errno with which the kernel refused the filter; 0 if it did not

    def spawn(self, plan: LaunchPlan, extension: str = "") -> Child:
        """Start a process under observation. Raises SpawnFailed as `Child` does."""
        path = str(self._folder / f"{len(self._threads)}.sock")
        server = socket.socket(socket.AF_UNIX)
        server.bind(path)
        server.listen(1)
        server.settimeout(_START_SECONDS)
        thread = threading.Thread(
            target=self._serve, args=(server,), name="exthost observer", daemon=True
        )
        self._threads.append(thread)
        thread.start()
        launcher = (sys.executable, "-I", "-S", _LAUNCHER, path)
        return Child(replace(plan, argv=(*launcher, *plan.argv)), extension)

    def observations(self) -> Observations:
        """Return what was observed so far."""
        with self._lock:
            names = self._names
            destinations = tuple(
                destination._replace(name=names.get(destination.address, ""))
                for destination in self._destinations
            )
            return Observations(
                files={path: frozenset(uses) for path, uses in self._files.items()},
                created=frozenset(self._created),
                destinations=destinations,
                names=tuple(self._looked_up),
                listeners=tuple(self._listeners),
                unix_sockets=tuple(self._unix_sockets),
                unseen=self._unseen,
            )

    def close(self) -> None:
        """End the threads. A process that still runs cannot open a file afterwards."""
        os.write(self._stop_write, b"\0")
        for thread in self._threads:
            thread.join()
        os.close(self._stop_write)
        os.close(self._stop_read)
        shutil.rmtree(self._folder, ignore_errors=True)

    # -- one process -------------------------------------------------------------------------------

    def _serve(self, server: socket.socket) -> None:
        """Accept the connection of the launched process, and receive the calls of its program."""
        listener = -1  # the observer's end of the filter, as the kernel calls it
        try:
            with server:
                poll = select.poll()
                poll.register(server, select.POLLIN)
                poll.register(self._stop_read, select.POLLIN)
                if server.fileno() not in [fd for fd, _ in poll.poll(_START_SECONDS * 1000)]:
                    return
                connection, _ = server.accept()
            with connection:
                connection.settimeout(_START_SECONDS)
                connection.sendall(struct.pack("=I", len(self._filter)) + self._filter)
                # The launched process sends the observer's end of its filter, or else the errno
                # with which the kernel refused the filter.
                data, listeners, _, _ = socket.recv_fds(connection, 16, 1)
                if not listeners:
                    self.start_error = struct.unpack("=i", data[:4])[0] if len(data) >= 4 else 0
                    return
                listener = listeners[0]
                connection.sendall(b"\0")
            self._receive_calls(listener)
        except OSError:
            return  # the process ended before it was observed; the start reports that
        finally:
            if listener >= 0:
                os.close(listener)

    def _receive_calls(self, listener: int) -> None:
        """Receive and answer calls until no process is left."""
        relay = _NameRelay(self._note_answer)
        poll = select.poll()
        poll.register(listener, select.POLLIN)
        poll.register(self._stop_read, select.POLLIN)
        try:
            while True:
                for fd, event in poll.poll():
                    if fd == self._stop_read or (fd == listener and event & select.POLLHUP):
                        return
                    if fd == listener:
                        self._receive_call(listener, relay, poll)
                    else:
                        relay.forward(fd)
        finally:
            relay.close()

    def _receive_call(self, listener: int, relay: "_NameRelay", poll: select.poll) -> None:
        """Receive one call, record what it uses, and let it continue."""
        buffer = bytearray(_NOTIFICATION_BYTES)
        try:
            fcntl.ioctl(listener, _RECEIVE, buffer)
        except OSError:  # the caller was killed meanwhile
            return
        # struct seccomp_notif: the fields that are not used are flags, the architecture and the
        # address of the instruction.
        id, pid, _, number, _, _, *arguments = struct.unpack("=QIIiIQ6Q", buffer)
        call = self._calls.get(number)
        flags = _CONTINUE
        if call is not None:
            reported = _ReportedCall(id, pid, call, arguments)
            try:
                if call.use in ("connect", "bind", "send"):
                    if self._observe_address(listener, reported, relay, poll):
                        flags = 0  # it was done in place of the kernel: it returns 0
                else:
                    self._observe_paths(listener, reported)
            # A program can pass any number as an address, also one that no file has as an offset.
            except (OSError, ValueError, OverflowError, struct.error):
                with self._lock:
                    self._unseen += 1
        with suppress(OSError):  # the caller was killed meanwhile
            fcntl.ioctl(listener, _SEND, bytearray(struct.pack("=QqiI", id, 0, 0, flags)))

    def _is_waiting(self, listener: int, reported: _ReportedCall) -> bool:
        """Return whether the caller still waits. Otherwise its pid may be that of another process,
        whose memory was read then."""
        try:
            fcntl.ioctl(listener, _IS_VALID, bytearray(struct.pack("=Q", reported.id)))
        except OSError:
            return False
        return True

    # -- files -------------------------------------------------------------------------------------

    def _observe_paths(self, listener: int, reported: _ReportedCall) -> None:
        """Record the paths of a call."""
        uses = []
        with Path(f"/proc/{reported.pid}/mem").open("rb", buffering=0) as memory:
            for argument in reported.call.paths:
                path = _read_path(reported, memory.fileno(), argument)
                if path:
                    uses.append((path, _find_use(reported, memory.fileno(), path)))
        if self._is_waiting(listener, reported):
            for path, use in uses:
                self._note_file(path, use)

    def _note_file(self, path: str, use: FileUse) -> None:
        """Record the use of a path."""
        if path.startswith(_KERNEL_FOLDERS):
            return
        exists = os.path.lexists(path)
        if not exists and use != "create":
            return  # the call fails
        with self._lock:
            known = self._files.get(path)
            if known is None:
                if len(self._files) >= _MAX_PATHS:
                    self._unseen += 1
                    return
                known = self._files[path] = set()
                if not exists:
                    self._created.add(path)
            known.add(use)

    # -- addresses ---------------------------------------------------------------------------------

    def _observe_address(
        self, listener: int, reported: _ReportedCall, relay: "_NameRelay", poll: select.poll
    ) -> bool:
        """Record an address. Return whether the socket was replaced and connected, so that the call
        has succeeded."""
        call, arguments = reported.call, reported.arguments
        # A socket address: its family, and then for AF_UNIX a path, for AF_INET and AF_INET6 the
        # port and the address.
        length = min(arguments[call.address + 1], _MAX_ADDRESS_BYTES)
        with Path(f"/proc/{reported.pid}/mem").open("rb", buffering=0) as memory:
            data = os.pread(memory.fileno(), length, arguments[call.address])
        if not self._is_waiting(listener, reported) or len(data) < 2:
            return False
        family = struct.unpack("=H", data[:2])[0]
        if family == socket.AF_UNIX:
            # A socket in the abstract namespace, whose name begins with a zero byte, has no file.
            if call.use != "bind" and data[2:3] not in (b"", b"\0"):
                self._note_unix_socket(reported.pid, os.fsdecode(data[2:].split(b"\0")[0]))
            return False
        if family not in (socket.AF_INET, socket.AF_INET6) or len(data) < 8:
            return False
        port = struct.unpack("!H", data[2:4])[0]
        # Before an IPv6 address there are four bytes with the flow information.
        raw = data[4:8] if family == socket.AF_INET else data[8:24]
        address = _plain_address(raw)
        original = _take_descriptor(reported.pid, arguments[0])
        with original:
            is_stream = original.type == socket.SOCK_STREAM
            protocol: Literal["tcp", "udp"] = "tcp" if is_stream else "udp"
            if call.use == "bind":
                if port:  # a client binds port 0 to get any port
                    with self._lock:
                        self._listeners[f"{protocol} {port}"] = None
                return False
            is_look_up = port == _DNS_PORT and not is_stream and call.use == "connect"
            if is_look_up and relay.has_room:
                ours = relay.connect(original.family, str(address), original.gettimeout())
                with ours:
                    _replace_socket(listener, reported, ours)
                for fd in relay.new_descriptors():
                    poll.register(fd, select.POLLIN)
                return True
        if port != _DNS_PORT:
            destination = Destination(str(address), port, protocol)
            with self._lock:
                if len(self._destinations) < _MAX_ADDRESSES:
                    self._destinations[destination] = None
                else:
                    self._unseen += 1
        return False

    def _note_unix_socket(self, pid: int, path: str) -> None:
        """Record the path of a Unix socket to which a process connects, if it exists."""
        full = os.path.normpath(os.path.join(_folder_of(pid, None), path))  # noqa: PTH118
        with self._lock:
            if os.path.lexists(full):
                self._unix_sockets[full] = None

    def _note_answer(self, data: bytes) -> None:
        """Record the name and the addresses in an answer of a name server."""
        name, addresses = read_answer(data)
        if name and len(self._looked_up) < _MAX_ADDRESSES:
            with self._lock:
                self._looked_up[name] = None
                for address in addresses:
                    self._names.setdefault(address, name)


class _NameRelay:
    """Forwards look-ups of names to the server that the program wanted, and shows the answers to
    `note_answer`."""

    def __init__(self, note_answer: Callable[[bytes], None]) -> None:
        self._note_answer = note_answer
        self._routes: dict[int, _Route] = {}  # by descriptor of the source
        self._new: list[int] = []

    def connect(self, family: int, server: str, timeout: float | None) -> socket.socket:
        """Return a socket for the program, connected to this relay. With a `timeout` of 0, the
        socket does not block."""
        upstream = socket.socket(family, socket.SOCK_DGRAM)
        ours = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        theirs = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            upstream.connect((server, _DNS_PORT))
            ours.bind(("127.0.0.1", 0))
            theirs.bind(("127.0.0.1", 0))
            ours.connect(theirs.getsockname())
            theirs.connect(ours.getsockname())
            theirs.setblocking(timeout != 0)
            upstream.setblocking(False)
            ours.setblocking(False)
        except BaseException:
            for each in (upstream, ours, theirs):
                each.close()
            raise
        self._routes[ours.fileno()] = _Route(ours, upstream, is_answer=False)
        self._routes[upstream.fileno()] = _Route(upstream, ours, is_answer=True)
        self._new += [ours.fileno(), upstream.fileno()]
        return theirs

    @property
    def has_room(self) -> bool:
        """Whether another socket can be relayed."""
        return len(self._routes) < 2 * _MAX_RELAYED_SOCKETS  # two routes for each

    def new_descriptors(self) -> list[int]:
        """Return the file descriptors that were opened since the last call."""
        new, self._new = self._new, []
        return new

    def forward(self, fd: int) -> None:
        """Forward one datagram."""
        route = self._routes[fd]
        with suppress(OSError):  # the other end is gone; a look-up may fail
            data = route.source.recv(_MAX_DATAGRAM_BYTES)
            if route.is_answer:
                self._note_answer(data)
            route.target.send(data)

    def close(self) -> None:
        for route in self._routes.values():  # each socket is the source of one
            route.source.close()


def _replace_socket(listener: int, reported: _ReportedCall, ours: socket.socket) -> None:
    """Put our socket in the place of the one that the caller wants to connect."""
    theirs = reported.arguments[0] & 0xFFFFFFFF  # a descriptor: the upper half is undefined
    # struct seccomp_notif_addfd
    request = struct.pack(
        "=QIIII", reported.id, _REPLACE_DESCRIPTOR, ours.fileno(), theirs, os.O_CLOEXEC
    )
    fcntl.ioctl(listener, _ADD_DESCRIPTOR, bytearray(request))


def _find_use(reported: _ReportedCall, memory: int, path: str) -> FileUse:
    """Return how this call uses this path. `memory` is the open memory of the caller."""
    call = reported.call
    if call.name in ("mkdir", "mkdirat") and os.path.lexists(path):
        return "look"  # it fails, and most programs ignore that
    if call.use in get_args(FileUse):
        return cast(FileUse, call.use)
    flags = reported.arguments[call.flags]
    if call.name == "openat2":
        flags = struct.unpack("=Q", os.pread(memory, 8, flags))[0]
    if flags & os.O_PATH:
        return "look"
    if flags & os.O_TMPFILE == os.O_TMPFILE:
        return "create"
    if flags & os.O_CREAT and not os.path.lexists(path):
        return "create"
    if flags & (os.O_WRONLY | os.O_RDWR | os.O_TRUNC):
        return "write"
    try:
        return "list" if stat.S_ISDIR(os.stat(path).st_mode) else "read"  # noqa: PTH116
    except OSError:
        return "read"


def _read_path(reported: _ReportedCall, memory: int, argument: PathArgument) -> str:
    """Return the absolute path that a call names; symbolic links in it are not resolved. Return ""
    if the call names an open folder itself by an empty path."""
    raw = _read_text(memory, reported.arguments[argument.path])
    if not raw:
        return ""
    path = os.fsdecode(raw)
    if not path.startswith("/"):
        folder = None if argument.folder is None else reported.arguments[argument.folder]
        path = f"{_folder_of(reported.pid, folder)}/{path}"
    if path.startswith("/proc/self/"):
        return path
    return os.path.normpath(path)


def _folder_of(pid: int, fd: int | None) -> str:
    """Return the folder of a file descriptor of a process; its working folder for None."""
    if fd is not None:  # an argument of 64 bits, whose lower half is a signed number
        fd = struct.unpack("=i", struct.pack("=I", fd & 0xFFFFFFFF))[0]
    entry = "cwd" if fd is None or fd == _AT_FDCWD else f"fd/{fd}"
    return os.readlink(f"/proc/{pid}/{entry}")  # noqa: PTH115


def _read_text(memory: int, address: int) -> bytes:
    """Return the bytes at an address up to a zero byte. Only one page is read at a time, since the
    next one may not exist."""
    text = b""
    while address and len(text) < _MAX_PATH_BYTES:
        part = os.pread(memory, _PAGE_BYTES - address % _PAGE_BYTES, address)
        head, zero, _ = part.partition(b"\0")
        text += head
        if zero or not part:
            return text
        address += len(part)
    return text


def _plain_address(raw: bytes) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Return an address; the IPv4 address for an IPv6 address that contains one."""
    address = ipaddress.ip_address(raw)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _take_descriptor(pid: int, fd: int) -> socket.socket:
    """Return a socket of a process. `pid` may be a thread, which has no pidfd of its own before
    Linux 6.9, so its process is opened."""
    status = Path(f"/proc/{pid}/status").read_text()
    process = int(status.partition("\nTgid:")[2].split(None, 1)[0])
    import ctypes  # imported lazily: the import takes as long as the start of a program

    pidfd = os.pidfd_open(process)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        copy = libc.syscall(_PIDFD_GETFD, pidfd, ctypes.c_int(fd & 0xFFFFFFFF), 0)
        if copy < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    finally:
        os.close(pidfd)
    connection = socket.socket(fileno=copy)
    # The new object must know whether the socket blocks: a timeout of 0 is a socket that does not.
    if not os.get_blocking(copy):
        connection.setblocking(False)
    return connection
