"""The plans of a sandbox, as data: the options of bubblewrap, the filter of system calls (seccomp),
resource limits, and the init program, which is the first process in the sandbox.

No sandbox is made here. The filter is a small program that the kernel runs before each system call;
`run_filter` runs it as the kernel would.
"""

import hashlib
import os
import re
import shutil
import struct
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

import exthost
from exthost.launch.sandbox import pid_namespace, seccomp, strict
from exthost.launch.sandbox.initcode import INIT, PROGRAM
from exthost.launch.sandbox.strict import View, VisiblePath
from exthost.launch.sandbox.system_calls import DENIED, GROUPS, NETWORK, calls
from exthost.model.launch_plan import Ceiling, ResourceLimit
from exthost.model.probe_result import SandboxSupport
from exthost.model.spec import Limits, Permissions
from exthost.process.resource_limits import (
    ceiling,
    lower_to,
    max_sockets,
    prlimit_command,
    resource_limits,
    with_defaults,
)

USER = SandboxSupport(
    bwrap="/usr/bin/bwrap", setpriv="/usr/bin/setpriv", machine="x86_64", uid=1000
)
ROOT = SandboxSupport(bwrap="/usr/bin/bwrap", setpriv="/usr/bin/setpriv", machine="x86_64", uid=0)

VIEW = View(
    visible_paths=(
        VisiblePath("/home/a/ext", "read", "package"),
        VisiblePath("/usr", "read", "system"),
        VisiblePath("/home/a/ext/out", "write", "granted"),
        VisiblePath("/data", "write", "granted"),
    ),
    links=(("/bin", "usr/bin"), ("/usr/bin/python3", "python3.11")),
    cwd="/home/a/ext",
)

NAMESPACE_OPTIONS = [
    *("--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL"),
    *("--as-pid-1", "--new-session"),
]
PRIVATE_MOUNTS = [
    *("--dev", "/dev"),
    *("--size", "268435456", "--perms", "1777", "--tmpfs", "/tmp"),
    *("--size", "67108864", "--perms", "1777", "--tmpfs", "/dev/shm"),
    *("--proc", "/proc"),
]
VISIBLE_OPTIONS = [
    *("--bind", "/data", "/data", "--ro-bind", "/usr", "/usr"),
    *("--ro-bind", "/home/a/ext", "/home/a/ext"),
    *("--bind", "/home/a/ext/out", "/home/a/ext/out"),
    *("--symlink", "usr/bin", "/bin"),
    *("--remount-ro", "/dev", "--remount-ro", "/proc", "--remount-ro", "/"),
    *("--chdir", "/home/a/ext"),
]


def test_the_options_of_the_tree_lifetime() -> None:
    assert pid_namespace.plan_wrapper("x86_64").options == (), "no wrapper program is needed"
    wrapper = pid_namespace.plan_wrapper("x86_64", "/usr/bin/bwrap", (ResourceLimit(0, 1, 2),))
    assert list(wrapper.options) == [
        *("/usr/bin/bwrap", "--unshare-pid", "--as-pid-1"),
        *("--dev-bind", "/", "/", "--proc", "/proc"),
    ]
    assert wrapper.init == INIT["x86_64"] and not wrapper.filter
    assert wrapper.limits == (ResourceLimit(0, 1, 2),)


def test_the_options_of_the_strict_sandbox_for_a_user() -> None:
    wrapper = strict.plan_wrapper(USER, VIEW, network=False)
    assert list(wrapper.options) == [
        "/usr/bin/bwrap",
        *NAMESPACE_OPTIONS,
        *PRIVATE_MOUNTS,
        *VISIBLE_OPTIONS,
    ]
    assert wrapper.filter == seccomp.program("x86_64", network=False)


def test_with_network_only_the_network_is_shared() -> None:
    wrapper = strict.plan_wrapper(USER, VIEW, network=True)
    assert list(wrapper.options) == [
        "/usr/bin/bwrap",
        *NAMESPACE_OPTIONS,
        "--share-net",
        *PRIVATE_MOUNTS,
        *VISIBLE_OPTIONS,
    ]
    assert wrapper.filter == seccomp.program("x86_64", network=True)


def test_root_keeps_its_uid_if_other_users_cannot_reach_the_program() -> None:
    options = list(strict.plan_wrapper(ROOT, VIEW, network=False).options)
    assert options[0] == "/usr/bin/bwrap"
    position = options.index("--proc")
    assert options[position + 2 : position + 5] == ["--ro-bind-try", "/proc/sys", "/proc/sys"]
    assert "/proc/sysrq-trigger" in options
    assert strict.describe(ROOT, VIEW, network=False)["uid"] == "0 without capabilities"


def test_root_drops_its_uid_if_other_users_can_reach_the_program() -> None:
    view = View(visible_paths=(VisiblePath("/usr", "read", "system"),), cwd="/usr", uid=65534)
    options = list(strict.plan_wrapper(ROOT, view, network=False).options)
    drop_privileges = ["/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"]
    assert options[:6] == [*drop_privileges, "/usr/bin/bwrap"] and "--ro-bind-try" not in options
    assert strict.describe(ROOT, view, network=False)["uid"] == "65534"


def test_a_working_folder_that_is_not_shown_is_empty() -> None:
    view = View(visible_paths=(VisiblePath("/usr", "read", "system"),), cwd="/work")
    options = list(strict.plan_wrapper(USER, view, network=False).options)
    last_options = ["/dev", "--remount-ro", "/proc", "--remount-ro", "/", "--chdir", "/work"]
    assert options[-10:] == ["--dir", "/work", "--remount-ro", *last_options]


def test_max_memory_is_the_size_of_each_private_file_system() -> None:
    wrapper = strict.plan_wrapper(USER, VIEW, network=False, max_memory=1000)
    sizes = [
        word
        for before, word in zip(wrapper.options, wrapper.options[1:], strict=False)
        if before == "--size"
    ]
    assert sizes == ["1000", "1000"] and wrapper.private_mounts == ("/tmp", "/dev/shm")


def test_a_private_folder_is_mounted_before_the_paths_inside_it() -> None:
    inside = VisiblePath("/home/a/.npm/x/node_modules", "read", "package of the command")
    view = View(visible_paths=(inside,), private_folders=("/home/a/.npm",))
    wrapper = strict.plan_wrapper(USER, view, network=False)
    options = list(wrapper.options)
    position = options.index("/home/a/.npm")
    assert options[position - 5 : position] == ["--size", "536870912", "--perms", "0700", "--tmpfs"]
    assert position < options.index(inside.path)
    assert wrapper.private_mounts == ("/tmp", "/dev/shm", "/home/a/.npm")
    assert strict.private_sizes(view, 1000)["/home/a/.npm"] == 1000


@pytest.mark.parametrize("name", ["--share-net", "-", "--", "a b\n--dev-bind", "--seccomp 3"])
def test_any_path_is_one_argument_of_its_option(name: str) -> None:
    path = f"/data/{name}"
    view = View(visible_paths=(VisiblePath(path, "read", "granted"),), cwd=path)
    options = list(strict.plan_wrapper(USER, view, network=False).options)
    assert options.count(path) == 3
    for position, word in enumerate(options):
        if word == path:
            assert options[position - 1] in ("--ro-bind", path, "--chdir")
    assert "--share-net" not in options


# -- the filter ----------------------------------------------------------------------------------

ALLOW, KILL = "allow", "kill"
EPERM, ENOSYS, EAFNOSUPPORT = 1, 38, 97


@cache
def filter_of(machine: str, network: bool) -> bytes:
    return seccomp.program(machine, network=network)


def run_filter(
    machine: str, number: int, *arguments: int, network: bool = False, arch: int | None = None
) -> str | int:
    """Run the filter like the kernel, and return what happens to this system call."""
    code = filter_of(machine, network)
    arch = seccomp.ARCHITECTURES[machine] if arch is None else arch
    padded_arguments = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("=iIQ6Q", number, arch, 0, *padded_arguments)
    instructions = list(struct.iter_unpack("=HBBI", code))
    position = accumulator = 0
    while True:
        kind, when_true, when_false, value = instructions[position]
        position += 1
        match kind:
            case 0x20:  # load a word of the data
                (accumulator,) = struct.unpack_from("=I", data, value)
            case 0x54:  # and
                accumulator &= value
            case 0x15:  # jump if equal
                position += when_true if accumulator == value else when_false
            case 0x45:  # jump if a bit is set
                position += when_true if accumulator & value else when_false
            case 0x35:  # jump if greater or equal
                position += when_true if accumulator >= value else when_false
            case 0x06:  # return
                if value == 0x7FFF0000:
                    return ALLOW
                return KILL if value == 0x80000000 else value & 0xFFFF
            case _:
                raise AssertionError(f"the kernel would refuse {kind:#x}")


NUMBERS: Mapping[str, Mapping[str, int]] = {
    "x86_64": {"socket": 41, "socketpair": 53, "connect": 42, "read": 0, "mount": 165, "clone": 56},
    "aarch64": {
        "socket": 198,
        "socketpair": 199,
        "connect": 203,
        "read": 63,
        "mount": 40,
        "clone": 220,
    },
}


@pytest.mark.parametrize("machine", seccomp.ARCHITECTURES)
def test_the_filter_without_network(machine: str) -> None:
    calls = NUMBERS[machine]
    for family in range(64):
        assert run_filter(machine, calls["socket"], family, 1) == EPERM
    assert run_filter(machine, calls["connect"], 3) == EPERM
    assert run_filter(machine, calls["socketpair"], 1, 1 | 0x80000) == ALLOW
    assert run_filter(machine, calls["socketpair"], 1, 2 | 0x80000) == EPERM
    assert run_filter(machine, calls["socketpair"], 2, 1) == EAFNOSUPPORT
    assert run_filter(machine, calls["mount"]) == EPERM
    for io_uring_call in (425, 426, 427):
        assert run_filter(machine, io_uring_call) == ENOSYS
    # 17 is SIGCHLD: a clone like that of a fork.
    assert run_filter(machine, calls["read"]) == run_filter(machine, calls["clone"], 17) == ALLOW


@pytest.mark.parametrize("network", [False, True])
@pytest.mark.parametrize("machine", seccomp.ARCHITECTURES)
def test_only_listed_system_calls_exist(machine: str, network: bool) -> None:
    """Each number is allowed, denied or unknown. Other tests check calls with filtered
    arguments."""
    allowed = {call.number(machine) for call in calls(network=network)}
    denied = {call.number(machine) for call in DENIED}
    if not network:
        denied |= {call.number(machine) for call in GROUPS[NETWORK]}
    assert not allowed & denied - {None}
    by_name = {call.number(machine): call.name for group in GROUPS.values() for call in group}
    for number in (*range(1000), 0x40000000, 0x40000001, 0x7FFFFFFF, -1):
        if by_name.get(number) in ("socket", "socketpair"):
            continue
        expected = ALLOW if number in allowed else EPERM if number in denied else ENOSYS
        assert run_filter(machine, number, network=network) == expected, (
            number,
            by_name.get(number),
        )


def test_no_system_call_is_listed_twice() -> None:
    system_calls = [call for group in (*GROUPS.values(), DENIED) for call in group]
    assert len({call.name for call in system_calls}) == len(system_calls)
    for machine in seccomp.ARCHITECTURES:
        numbers = [
            call.number(machine) for call in system_calls if call.number(machine) is not None
        ]
        assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize(
    ("compiler", "machine"), [("gcc", "x86_64"), ("aarch64-linux-gnu-gcc", "aarch64")]
)
def test_the_numbers_are_those_of_the_kernels_headers(compiler: str, machine: str) -> None:
    program = shutil.which(compiler)
    if program is None:
        pytest.skip(f"no {compiler}")
    names = [call for group in (*GROUPS.values(), DENIED) for call in group]
    lines = ["#include <asm/unistd.h>", *(f"{call.name}=__NR_{call.name}" for call in names)]
    command = [program, "-E", "-P", "-x", "c", "-"]
    text = "\n".join(lines)
    out = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    if machine == "x86_64" and os.uname().machine != machine:
        pytest.skip("this gcc is for another machine")
    for call in names:
        definition = re.search(rf"^{call.name}\s*=\s*([0-9]+)$", out, re.MULTILINE)
        if definition is not None:  # older headers lack the newest calls
            assert call.number(machine) == int(definition[1]), call


@pytest.mark.parametrize("machine", seccomp.ARCHITECTURES)
def test_no_clone_makes_a_namespace(machine: str) -> None:
    number = NUMBERS[machine]["clone"]
    for bit in range(32):
        outcome = run_filter(machine, number, 1 << bit)
        is_flag_of_a_namespace = bit in (17, 25, 26, 27, 28, 29, 30)  # CLONE_NEWNS, NEWCGROUP, …
        assert outcome == (EPERM if is_flag_of_a_namespace else ALLOW), bit


@pytest.mark.parametrize("machine", seccomp.ARCHITECTURES)
def test_a_personality_can_be_read_but_not_changed(machine: str) -> None:
    number = {"x86_64": 135, "aarch64": 92}[machine]
    assert run_filter(machine, number, 0xFFFFFFFF) == run_filter(machine, number, 0) == ALLOW
    assert run_filter(machine, number, 0x0040000) == run_filter(machine, number, 8) == EPERM


@pytest.mark.parametrize("machine", seccomp.ARCHITECTURES)
def test_without_network_the_buffers_of_sockets_keep_their_size(machine: str) -> None:
    number = {"x86_64": 54, "aarch64": 208}[machine]
    denied = [option for option in range(100) if run_filter(machine, number, 3, 1, option) == EPERM]
    assert denied == [7, 32]  # SO_SNDBUF and SO_SNDBUFFORCE
    assert run_filter(machine, number, 3, 6, 7) == ALLOW  # an option of another level
    assert run_filter(machine, number, 3, 1, 7, network=True) == ALLOW


@pytest.mark.parametrize("machine", seccomp.ARCHITECTURES)
def test_the_filter_with_network(machine: str) -> None:
    calls = NUMBERS[machine]
    allowed = {1, 2, 10, 16}  # AF_UNIX, AF_INET, AF_INET6, AF_NETLINK
    for family in range(64):
        expected = ALLOW if family in allowed else EAFNOSUPPORT
        assert run_filter(machine, calls["socket"], family, 3, 0, network=True) == expected
    for protocol in range(1, 22):
        outcome = run_filter(machine, calls["socket"], 16, 3, protocol, network=True)
        assert outcome == EAFNOSUPPORT, "only NETLINK_ROUTE is allowed"
    assert run_filter(machine, calls["connect"], 3, network=True) == ALLOW
    assert run_filter(machine, calls["socketpair"], 1, 2, network=True) == ALLOW
    assert run_filter(machine, 425, network=True) == ENOSYS


# System calls that set a mode: the number on each machine, and the arguments before the mode.
SETS_MODE: Mapping[str, tuple[Mapping[str, int], tuple[int, ...]]] = {
    "chmod": ({"x86_64": 90}, (1,)),
    "fchmod": ({"x86_64": 91, "aarch64": 52}, (3,)),
    "fchmodat": ({"x86_64": 268, "aarch64": 53}, (3, 1)),
    "fchmodat2": ({"x86_64": 452, "aarch64": 452}, (3, 1)),
    "mkdir": ({"x86_64": 83}, (1,)),
    "mkdirat": ({"x86_64": 258, "aarch64": 34}, (3, 1)),
    "mknod": ({"x86_64": 133}, (1,)),
    "mknodat": ({"x86_64": 259, "aarch64": 33}, (3, 1)),
    "creat": ({"x86_64": 85}, (1,)),
    "open that creates": ({"x86_64": 2}, (1, 0o101)),
    "open without a name": ({"x86_64": 2}, (1, 0o20200001)),
    "openat that creates": ({"x86_64": 257, "aarch64": 56}, (3, 1, 0o101)),
    "openat without a name": ({"x86_64": 257, "aarch64": 56}, (3, 1, 0o20200001)),
}


@pytest.mark.parametrize("network", [False, True])
@pytest.mark.parametrize("call", SETS_MODE)
@pytest.mark.parametrize("machine", seccomp.ARCHITECTURES)
def test_no_call_sets_the_user_or_group_id_bit(machine: str, call: str, network: bool) -> None:
    numbers, before = SETS_MODE[call]
    if machine not in numbers:
        return
    for mode, expected in ((0o755, ALLOW), (0o1777, ALLOW), (0o4755, EPERM), (0o2644, EPERM)):
        assert run_filter(machine, numbers[machine], *before, mode, network=network) == expected


@pytest.mark.parametrize("machine", seccomp.ARCHITECTURES)
def test_the_mode_of_an_open_that_creates_no_file_is_ignored(machine: str) -> None:
    number = {"x86_64": 257, "aarch64": 56}[machine]
    assert run_filter(machine, number, 3, 1, 0, 0o6777) == ALLOW
    assert run_filter(machine, 437, 3, 1, 2, 24) == ENOSYS


@pytest.mark.parametrize("machine", seccomp.ARCHITECTURES)
def test_without_network_only_stream_and_seqpacket_pairs_are_allowed(machine: str) -> None:
    number = NUMBERS[machine]["socketpair"]
    flags = 0o2004000  # SOCK_CLOEXEC | SOCK_NONBLOCK
    allowed = [kind for kind in range(16) if run_filter(machine, number, 1, kind | flags) == ALLOW]
    assert allowed == [1, 5]  # SOCK_STREAM and SOCK_SEQPACKET


@pytest.mark.parametrize("machine", seccomp.ARCHITECTURES)
def test_a_call_of_another_architecture_ends_the_process(machine: str) -> None:
    i386, arm = 0x40000003, 0x40000028
    assert run_filter(machine, 0, arch=i386) == run_filter(machine, 0, arch=arm) == KILL


def test_the_x32_system_calls_do_not_exist() -> None:
    assert run_filter("x86_64", 0x40000000 | 41, 2, 1) == ENOSYS


def test_a_socket_family_is_compared_as_32_bits() -> None:
    assert run_filter("x86_64", 41, (1 << 32) | 40, 1, network=True) == EAFNOSUPPORT


def test_an_unknown_machine_has_no_filter() -> None:
    with pytest.raises(KeyError):
        seccomp.program("riscv64", network=False)


# -- limits --------------------------------------------------------------------------------------


def test_limits_of_the_kernel_are_wider_than_those_of_the_watchdog() -> None:
    """The watchdog of the host should end an extension first, since it reports the reason."""
    limits = Limits(cpu=1.5, nofile=64, fsize=1000, nproc=10)
    policy = Permissions(max_memory=100)
    # 0 is RLIMIT_CPU, 1 FSIZE, 2 DATA, 6 NPROC, 7 NOFILE.
    assert resource_limits(limits, policy) == (
        ResourceLimit(0, 2, 3),
        ResourceLimit(1, 1000, 1000),
        ResourceLimit(2, 400, 400),
        ResourceLimit(6, 36, 36),
        ResourceLimit(7, 64, 64),
    )
    assert ceiling(limits, policy) == Ceiling(100, 10, 2)
    assert resource_limits(Limits(), None) == () and ceiling(Limits(), None) == Ceiling()


def test_no_limit_is_above_that_of_the_host() -> None:
    limits = (ResourceLimit(0, 2, 3), ResourceLimit(7, 1024, 1024))
    assert lower_to(limits, {0: 2, 7: 64}.__getitem__) == (
        ResourceLimit(0, 2, 2),
        ResourceLimit(7, 64, 64),
    )
    assert lower_to(limits, {0: -1, 7: 1024}.__getitem__) == limits


@pytest.mark.parametrize(
    ("memory", "files"), [(None, 1024), (2**20, 64), (2**27, 256), (2**40, 1024)]
)
def test_a_sandboxed_extension_has_a_limit_of_descriptors(memory: int | None, files: int) -> None:
    assert with_defaults(Limits(), memory) == Limits(nofile=files, nproc=512)
    configured = Limits(nofile=5000, nproc=2, cpu=1)
    assert with_defaults(configured, memory) == configured


@pytest.mark.parametrize(("memory", "sockets"), [(2**20, 64), (2**26, 240), (2**30, 3855)])
def test_the_buffers_of_all_sockets_take_at_most_max_memory(memory: int, sockets: int) -> None:
    assert max_sockets(memory, 212_992) == sockets


def test_limits_as_arguments_of_prlimit() -> None:
    limits = (ResourceLimit(0, 1, 2), ResourceLimit(7, 64, 64))
    assert prlimit_command("/usr/bin/prlimit", limits) == (
        *("/usr/bin/prlimit", "--cpu=1:2", "--nofile=64:64", "--"),
    )
    assert prlimit_command("/usr/bin/prlimit", ()) == ()


# -- the init ------------------------------------------------------------------------------------


def test_the_init_program_was_built_from_its_source() -> None:
    source = Path(exthost.__file__).parent / "launch" / "sandbox" / "init.c"
    built_from = hashlib.sha256(source.read_bytes()).hexdigest()
    assert built_from == PROGRAM.source_sha256, "init.c was changed: run `make init`"
    machines = {"x86_64": 62, "aarch64": 183}
    assert set(INIT) == set(machines) == set(seccomp.ARCHITECTURES)
    for machine, number in machines.items():
        code = INIT[machine]
        assert code[:4] == b"\x7fELF" and struct.unpack_from("<H", code, 18) == (number,)
        assert len(code) < 8192, "the program should fit into two pages"
