"""Trials of the sandbox: leases, pipes, page tables, files without end, and the files of the host.

A trial is a test of a promise of SECURITY.md, which runs as root and as an ordinary user. Attacks
run in a sandboxed extension: `explore(extension, code, **facts)` gives the code the dict `facts`,
and returns what the code stores in `result`.
"""

import os
import time
from pathlib import Path
from typing import Any

import exthost
from exthost.errors import Refused
from exthost.events import Spawned
from exthost.launch.package_tree import file_digest
from exthost.process import cgroups
from tests.extensions import nexo_tree
from tests.sandbox.confined import explore, folder, shared_folder, started_explorer, system_explorer
from tests.sandbox.packages import MANIFEST, Package
from tests.sandbox.resources import MEMORY, check_ended
from tests.sandbox.trials import trial


@trial
async def no_lease_on_a_file_makes_the_host_wait() -> None:
    code = """
        import errno, fcntl, os
        with open(facts["file"], "w"):
            pass
        fd = os.open(facts["file"], os.O_RDWR)
        result = []
        for command in (fcntl.F_SETLEASE, 1040):  # 1040 is F_SETDELEG of later kernels
            try:
                fcntl.fcntl(fd, command, fcntl.F_WRLCK)
                result.append("leased")
            except OSError as error:
                result.append(errno.errorcode[error.errno])
        fcntl.lockf(fd, fcntl.LOCK_EX)
    """
    with shared_folder() as place:
        async with started_explorer(permissions={"filesystem": [f"{place}:rw"]}) as ext:
            outcomes = await explore(ext, code, file=str(place / "file"))
            assert outcomes == ["EPERM", "EPERM"], outcomes
            os.close(os.open(place / "file", os.O_RDONLY | os.O_NONBLOCK))


@trial
async def pages_of_its_memory_cannot_be_left_in_a_pipe() -> None:
    code = """
        import ctypes, errno, os
        class Part(ctypes.Structure):
            _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]
        libc = ctypes.CDLL(None, use_errno=True)
        reading, writing = os.pipe()
        data = ctypes.create_string_buffer(2**21)
        part = Part(ctypes.addressof(data), 1)
        done = libc.vmsplice(writing, ctypes.byref(part), 1, 2)
        result = "done" if done >= 0 else errno.errorcode[ctypes.get_errno()]
    """
    async with started_explorer() as ext:
        assert await explore(ext, code) == "ENOSYS"


@trial
async def page_tables_count_as_memory() -> None:
    code = """
        import ctypes, time
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        numbers = [ctypes.c_int] * 3
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *numbers, ctypes.c_long]
        size, read_only, private = 2**38, 1, 0x4022
        start = libc.mmap(None, size, read_only, private, -1, 0)
        libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), 15)
        for offset in range(0, size, 2**21):
            ctypes.string_at(start + offset, 1)
        time.sleep(60)
    """
    if "memory" not in cgroups.find_base().controllers:
        await check_ended("max_memory is 64 MiB", code, {}, permissions={"max_memory": MEMORY})


# Functions that make a file whose reading would not end, or take very long.
def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def link_to_zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


def make_sparse_file(path: Path) -> None:
    path.touch()
    os.truncate(path, 2**40)


@trial
async def files_of_a_package_without_end_do_not_block_the_host() -> None:
    for make_file in (make_pipe, link_to_zeros, make_sparse_file):
        # pyvenv.cfg, a .pth file, and a program whose digest is compared.
        for replaced in ("settings", "pointer", "program", "interpreter"):
            with folder() as place:
                package = Package(place)
                environment = package.root / "venv"
                packages = environment / "lib" / "python3.11" / "site-packages"
                packages.mkdir(parents=True)
                (environment / "bin").mkdir()
                (environment / "bin" / "python").symlink_to(os.path.realpath("/usr/bin/python3"))
                override: dict[str, Any] = {}
                package.write("ext.py", command="./venv/bin/python")
                if replaced == "settings":
                    make_file(environment / "pyvenv.cfg")
                elif replaced == "pointer":
                    (environment / "pyvenv.cfg").write_text("home = /usr/bin\n")
                    make_file(packages / "a.pth")
                else:
                    package.write(command="./run")
                    make_file(package.root / "run")
                    override = {"sha256": {replaced: "0" * 64}}
                began = time.monotonic()
                host = exthost.Host.from_config(package.config(start="lazy", **override))
                async with host:
                    state, cause = host["toy"].state, host["toy"].cause
                    assert state == ("refused" if override else "admitted"), (state, cause)
                assert time.monotonic() - began < 30, (make_file.__name__, replaced)


@trial
async def files_that_an_extension_can_write_are_run_by_no_other() -> None:
    with shared_folder() as place, folder() as home, shared_folder() as program_folder:
        writer = system_explorer(program_folder / "writer")
        tool = system_explorer(place / "tool")
        spawned = list[Spawned]()
        entries = [
            entry("tool", tool),
            entry("writer", writer, permissions={"filesystem": [f"{place}:rw"]}),
        ]
        environ = {**os.environ, "EXTHOST_HOME": str(home)}
        # Python imports modules from the folder of the script, which is granted to the writer.
        for order in (entries, entries[::-1]):
            host = exthost.Host.from_config({"extensions": order}, environ=environ)
            host.events.subscribe(Spawned, spawned.append)
            async with host:
                last = host[order[1]["name"]]
                assert isinstance(last.cause, Refused) and last.cause.code == "X0396", last.cause
                assert last.state == "refused" and host[order[0]["name"]].state == "ready"
        assert [item.extension for item in spawned] == ["tool", "writer"]
        # A pinned script also imports modules from its folder, unless Python runs with -I.
        entries[0]["sha256"] = file_digest(str(tool))
        async with exthost.Host.from_config({"extensions": entries}, environ=environ) as host:
            assert host["writer"].state == "refused", host["writer"].cause
        tool.write_text(tool.read_text().replace("python3 -SE", "python3 -SEI", 1))
        del entries[0]["sha256"]
        async with exthost.Host.from_config({"extensions": entries}, environ=environ) as host:
            assert {ext.state for ext in host.extensions} == {"ready"}
            outcomes = await explore(host["writer"], "open(facts['tool'], 'w')", tool=str(tool))
            assert outcomes["raised"] in ("OSError", "PermissionError"), outcomes


@trial
async def a_package_that_an_extension_puts_into_a_search_path_is_not_run() -> None:
    with shared_folder() as place, folder() as home, shared_folder() as program_folder:
        search_path = place / "extensions"
        search_path.mkdir()
        search_path.chmod(0o777)
        config: dict[str, Any] = {
            "discovery": {"search_paths": [str(search_path)]},
            "extensions": [
                entry(
                    "writer",
                    system_explorer(program_folder / "writer"),
                    permissions={"filesystem": [f"{place}:rw"]},
                )
            ],
        }
        environ = {**os.environ, "EXTHOST_HOME": str(home)}
        code = """
            import os
            os.makedirs(facts["folder"])
            for name, text in facts["files"].items():
                with open(facts["folder"] + "/" + name, "w") as file:
                    file.write(text)
        """
        values = {"command": '"python3"', "args": '["ext.py"]', "more": ""}
        files = {"plugin.toml": MANIFEST.format(**values), "ext.py": nexo_tree.CHILD.read_text()}
        async with exthost.Host.from_config(config, environ=environ) as host:
            await explore(host["writer"], code, folder=str(search_path / "toy"), files=files)
        async with exthost.Host.from_config(config, environ=environ) as host:
            cause = host["toy"].cause
            assert host["toy"].state == "refused" and isinstance(cause, Refused), host["toy"].state
            assert cause.code == "X0396", cause


@trial
async def the_config_of_the_host_cannot_be_written_moved_or_replaced() -> None:
    code = """
        import os
        result = {}
        def attempt(name, *words):
            try:
                getattr(os, name)(*words)
                result[name + " " + words[0]] = "done"
            except OSError as error:
                result[name + " " + words[0]] = error.errno
        for path in facts["paths"]:
            attempt("rename", path, path + ".moved")
            attempt("remove" if path.endswith(".toml") else "rmdir", path)
        attempt("open", facts["paths"][0], os.O_WRONLY)
        other = facts["place"] + "/other"
        open(other, "w").close()
        attempt("replace", other, facts["paths"][0])
        os.rename(facts["place"] + "/mine", facts["place"] + "/moved")
    """
    with shared_folder() as place, folder() as home, shared_folder() as program_folder:
        for below in ("", "mid/sub"):
            folders = place / below
            folders.mkdir(parents=True, exist_ok=True)
            for path in (folders, folders.parent):
                if path != place.parent:
                    path.chmod(0o777)
            (place / "mine").mkdir()
            (place / "mine").chmod(0o777)
            config = folders / "exthost.toml"
            config.write_text(
                f"""
                [[extensions]]
                name = "writer"
                source = {{ command = "{system_explorer(program_folder / "writer")}" }}
                permissions = {{ filesystem = ["{place}:rw"] }}
                """
            )
            text = config.read_text()
            config_paths = [item for item in (config, *config.parents) if place in item.parents]
            environ = {**os.environ, "EXTHOST_HOME": str(home)}
            async with exthost.Host.from_config(config, environ=environ) as host:
                assert host["writer"].state == "ready", host["writer"].cause
                outcomes = await explore(
                    host["writer"],
                    code,
                    paths=[str(item) for item in config_paths],
                    place=str(place),
                )
                assert "done" not in outcomes.values() and len(outcomes) >= 4, outcomes
                protected = {item["path"]: item for item in host["writer"].enforced["closed"]}
                assert protected[str(config)]["reason"] == "of the host: config", protected
                # An editor replaces the file when it saves. The extension can still be restarted.
                new = config.with_suffix(".new")
                new.write_text(text)
                new.replace(config)
                await host["writer"].restart()
            assert config.read_text() == text
            config.unlink()
            (place / "moved").rmdir()


@trial
async def the_state_folder_of_the_host_is_never_granted() -> None:
    with shared_folder() as place, shared_folder() as program_folder:
        program = system_explorer(program_folder / "run")
        home = place / "home"
        (home / "inner").mkdir(parents=True)
        for path in (home, home / "inner"):
            path.chmod(0o777)
        environ = {**os.environ, "EXTHOST_HOME": str(home)}
        for granted in (place, home, home / "inner"):
            permissions = {"filesystem": [f"{granted}:rw"]}
            config = {"extensions": [entry("writer", program, permissions=permissions)]}
            async with exthost.Host.from_config(config, environ=environ) as host:
                cause = host["writer"].cause
                assert isinstance(cause, Refused) and cause.code == "X0397", cause


def entry(name: str, program: Path, **settings: Any) -> dict[str, Any]:
    source = {"command": str(program)}
    defaults = {"dialect": "morphir", "start": "eager", "restart": {"strategy": "never"}}
    return {"name": name, "source": source, **defaults, **settings}


@trial
async def nothing_in_proc_can_be_written() -> None:
    code = """
        import errno, os
        result = {}
        names = ("oom_score_adj", "comm", "attr/current", "coredump_filter", "clear_refs")
        paths = [f"/proc/{process}/{name}" for process in ("1", "self") for name in names]
        for path in (*paths, "/proc/pressure/memory", "/proc/sys/kernel/core_pattern"):
            try:
                os.close(os.open(path, os.O_WRONLY))
                result[path] = "opened"
            except OSError as error:
                result[path] = errno.errorcode[error.errno]
        with open("/dev/stderr", "w") as file:
            file.write("stderr is a pipe, which can be written")
    """
    async with started_explorer() as ext:
        outcomes = await explore(ext, code)
        assert "opened" not in outcomes.values() and len(outcomes) == 12, outcomes
