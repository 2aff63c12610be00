"""Trials of the network: the sockets that an extension can make, and the addresses it can reach.

A trial is a test of a promise of SECURITY.md, which runs as root and as an ordinary user.
`started_explorer` starts a sandboxed extension that runs Python code: `explore(extension, code,
**facts)` gives the code the dict `facts`, and returns what the code stores in `result`.
"""

import contextlib
import socket
import uuid
from typing import Any

from tests.sandbox.confined import explore, shared_folder, started_explorer
from tests.sandbox.trials import trial

# Makes a socket of each kind. The result is "made" or the name of the error, by the name of the
# kind. A kind is a family, a type and perhaps a protocol. Those that do not have a name in Python
# on every machine are numbers. 0x300 stands for packets of every protocol.
SOCKETS = """
    import errno, socket
    result = {}
    kinds = {
        "tcp": (socket.AF_INET, socket.SOCK_STREAM), "udp": (socket.AF_INET, socket.SOCK_DGRAM),
        "tcp6": (socket.AF_INET6, socket.SOCK_STREAM), "unix": (socket.AF_UNIX, socket.SOCK_STREAM),
        "unix dgram": (socket.AF_UNIX, socket.SOCK_DGRAM), "vsock": (40, socket.SOCK_STREAM),
        "netlink route": (16, socket.SOCK_RAW, 0), "netlink uevent": (16, socket.SOCK_RAW, 15),
        "raw icmp": (socket.AF_INET, socket.SOCK_RAW, 1),
        "packet": (17, socket.SOCK_RAW, 0x300), "bluetooth": (31, socket.SOCK_RAW),
        "alg": (38, socket.SOCK_SEQPACKET), "xdp": (44, socket.SOCK_RAW),
    }
    for name, arguments in kinds.items():
        try:
            socket.socket(*arguments).close()
            result[name] = "made"
        except OSError as error:
            result[name] = errno.errorcode[error.errno]
"""

# Makes a pair of Unix sockets of each type; some of the numbers are of no type. The result is as
# above, by the number.
PAIRS = """
    import errno, socket
    result = {}
    for type in range(1, 11):
        try:
            socket.socketpair(socket.AF_UNIX, type)
            result[type] = "made"
        except OSError as error:
            result[type] = errno.errorcode[error.errno]
"""


@trial
async def without_network_only_connected_unix_pairs_can_be_made() -> None:
    async with started_explorer() as ext:
        outcomes = await explore(ext, SOCKETS)
        assert set(outcomes.values()) == {"EPERM"}, outcomes
        # A datagram socket could send to any path. SOCK_RAW makes one too, if the family is Unix.
        expected = {str(type): "EPERM" for type in range(1, 11)}
        expected[str(int(socket.SOCK_STREAM))] = "made"
        expected[str(int(socket.SOCK_SEQPACKET))] = "made"
        assert await explore(ext, PAIRS) == expected


@trial
async def without_network_no_data_arrives_at_a_listener_of_the_host() -> None:
    with shared_folder() as place, contextlib.ExitStack() as open_sockets:

        def open_listener(family: int, kind: int, address: Any) -> socket.socket:
            listener = open_sockets.enter_context(socket.socket(family, kind))
            listener.bind(address)
            if kind == socket.SOCK_STREAM:
                listener.listen()
            listener.setblocking(False)
            return listener

        stream_path, datagram_path = str(place / "stream"), str(place / "datagram")
        abstract_name = f"\0{uuid.uuid4().hex}"  # of a socket that has no file
        tcp = open_listener(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0))
        udp = open_listener(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0))
        stream = open_listener(socket.AF_UNIX, socket.SOCK_STREAM, stream_path)
        datagram = open_listener(socket.AF_UNIX, socket.SOCK_DGRAM, datagram_path)
        abstract = open_listener(socket.AF_UNIX, socket.SOCK_STREAM, abstract_name)
        async with started_explorer(permissions={"filesystem": [f"{place}:rw"]}) as ext:
            outcomes = await explore(
                ext,
                """
                import ctypes, errno, socket
                libc = ctypes.CDLL(None, use_errno=True)
                def outcome(work):
                    try:
                        return repr(work())
                    except OSError as error:
                        return errno.errorcode[error.errno]
                def make_by_system_call(family, type):  # without Python's own checks
                    fd = libc.socket(family, type, 0)
                    if fd < 0:
                        raise OSError(ctypes.get_errno(), "socket")
                    return fd
                pair = socket.socketpair()
                result = {
                    "tcp": outcome(lambda: socket.create_connection(("127.0.0.1", facts["port"]))),
                    "tcp by system call": outcome(lambda: make_by_system_call(2, 1)),
                    "udp by system call": outcome(lambda: make_by_system_call(2, 2)),
                    "unix by system call": outcome(lambda: make_by_system_call(1, 1)),
                    "datagram pair": outcome(lambda: socket.socketpair(1, socket.SOCK_DGRAM)),
                    "SOCK_RAW pair": outcome(lambda: socket.socketpair(1, socket.SOCK_RAW)),
                    "pair to path": outcome(lambda: pair[0].connect(facts["stream"])),
                    "pair to abstract": outcome(lambda: pair[0].connect(facts["abstract"])),
                    "pair send": outcome(lambda: pair[0].sendto(b"x", facts["datagram"])),
                    "pair bind": outcome(lambda: pair[0].bind(facts["stream"] + ".mine")),
                }
                """,
                port=tcp.getsockname()[1],
                stream=stream_path,
                abstract=abstract_name,
                datagram=datagram_path,
            )
            # A pair is connected, so the kernel itself refuses to send from it to another address.
            # Its other calls are refused by the filter: without it, they fail with other errors, or
            # succeed.
            assert outcomes == dict.fromkeys(outcomes, "EPERM") | {"pair send": "EISCONN"}
        # Nothing has arrived: an `accept` or `recv` would block.
        for listener in (tcp, stream, abstract):
            with contextlib.suppress(BlockingIOError):
                raise AssertionError(f"a connection arrived: {listener.accept()}")
        for listener in (udp, datagram):
            with contextlib.suppress(BlockingIOError):
                raise AssertionError(f"a datagram arrived: {listener.recv(99)!r}")


@trial
async def with_network_only_usual_families_of_sockets_can_be_made() -> None:
    with socket.socket() as tcp:
        tcp.bind(("127.0.0.1", 0))
        tcp.listen()
        async with started_explorer(permissions={"network": True}) as ext:
            outcomes = await explore(ext, SOCKETS)
            allowed_kinds = ("tcp", "udp", "tcp6", "unix", "unix dgram", "netlink route")
            expected = dict.fromkeys(outcomes, "EAFNOSUPPORT") | dict.fromkeys(
                allowed_kinds, "made"
            )
            expected["raw icmp"] = "EPERM"  # by the kernel: the extension has no capabilities
            assert outcomes == expected
            # Connects to a listener of the host, and returns the network interfaces.
            code = """
                import socket
                socket.create_connection(("127.0.0.1", facts["port"]), timeout=5).close()
                result = [name for _, name in socket.if_nameindex()]
            """
            assert "lo" in await explore(ext, code, port=tcp.getsockname()[1])
        tcp.settimeout(5)
        tcp.accept()[0].close()


@trial
async def an_event_loop_works_without_network() -> None:
    async with started_explorer() as ext:
        code = """
            import asyncio
            async def main():
                child = await asyncio.create_subprocess_exec(
                    "/bin/echo", "hi", stdout=asyncio.subprocess.PIPE
                )
                return (await child.communicate())[0].decode()
            result = asyncio.run(main())
        """
        assert await explore(ext, code) == "hi\n"


@trial
async def io_uring_and_other_risky_system_calls_fail() -> None:
    async with started_explorer() as ext:
        code = """
            import ctypes, errno, platform
            libc = ctypes.CDLL(None, use_errno=True)
            # The numbers of the calls. Some differ on aarch64, the other supported architecture.
            x86 = platform.machine() == "x86_64"
            calls = {"io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427,
                     "bpf": 321 if x86 else 280, "perf_event_open": 298 if x86 else 241,
                     "userfaultfd": 323 if x86 else 282, "keyctl": 250 if x86 else 219,
                     "open_by_handle_at": 304 if x86 else 265, "fsopen": 430,
                     "setns": 308 if x86 else 268}
            result = {}
            for name, number in calls.items():
                returned = libc.syscall(number, 0, 0, 0, 0, 0, 0)
                failed = returned < 0
                result[name] = errno.errorcode[ctypes.get_errno()] if failed else returned
        """
        report = await explore(ext, code)
        assert set(report.values()) <= {"ENOSYS", "EPERM"}, report
        assert report["io_uring_setup"] == "ENOSYS" and report["keyctl"] == "EPERM"
