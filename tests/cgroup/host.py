"""A test program: a host that is alone in a cgroup, starts a program in another cgroup, and prints
a report as JSON.

    python -m tests.cgroup.host BASE LIFETIME [END]

A cgroup is a group of processes that the kernel can limit, and BASE is the folder of that of the
host. LIFETIME is how the program is ended with the host: plain (a process group), tree (a pid
namespace) or strict (a sandbox). With END "killed", the host ends by SIGKILL while the program
runs.
"""

import dataclasses
import json
import os
import select
import signal
import sys
from pathlib import Path
from typing import Any

from exthost.launch import sandbox_probe
from exthost.launch.file_view import ViewRequest, compute_view, system_view
from exthost.launch.sandbox import pid_namespace, strict
from exthost.launch.sandbox.initcode import INIT
from exthost.model.launch_plan import Cgroup, LaunchPlan, Wrapper
from exthost.process.child import Child
from exthost.process.host_protection import harden

# A program that starts a process in a new session, prints its descriptors and the names of its
# variables, and waits for the end of stdin.
PROGRAM = """
import os, subprocess, sys
fds = sorted(int(name) for name in os.listdir("/proc/self/fd"))[:-1]
command = [sys.executable, "-S", "-E", "-c", "import time; time.sleep(600)"]
quiet = {name: subprocess.DEVNULL for name in ("stdin", "stdout", "stderr")}
subprocess.Popen(command, start_new_session=True, **quiet)
print(fds, sorted(set(os.environ) - {"LC_CTYPE", "LD_LIBRARY_PATH"}), flush=True)
sys.stdin.read()
"""

WAIT_SECONDS = 20.0


def plan_wrapper_of(lifetime: str, argv: tuple[str, ...]) -> Wrapper | None:
    support = sandbox_probe.find_sandbox_support()
    if lifetime == "plain":
        return None
    if lifetime == "tree":
        return pid_namespace.plan_wrapper(support.machine)
    view = compute_view(ViewRequest(extension="host", argv=argv, cwd="/"))
    return strict.plan_wrapper(support, view, network=False)


def pids_in(folder: Path) -> list[int]:
    return [int(word) for word in (folder / "cgroup.procs").read_text().split()]


def uid_inside(group: Cgroup) -> int:
    """Return the user id of a program that runs as nobody, after it has entered this group."""
    wrapper = strict.plan_wrapper(
        sandbox_probe.find_sandbox_support(),
        dataclasses.replace(system_view(), uid=strict.NOBODY),
        network=False,
    )
    argv = ("/bin/sh", "-c", "echo; read line")
    child = Child(LaunchPlan(argv=argv, cwd="/", wrapper=wrapper, group=group))
    try:
        select.select([child.stdout, child.exit_fd], [], [], WAIT_SECONDS)
        pids = [
            process
            for path in Path(group.base).glob("exthost-*-*[0-9]")
            for process in pids_in(path)
        ]
        assert len(pids) == 1, (pids, child.poll_exit())
        status = Path(f"/proc/{pids[0]}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("Uid:")).split()[1])
    finally:
        child.kill()
        select.select([child.exit_fd], [], [], WAIT_SECONDS)
        child.reap()
        child.close_stdin()
        child.close_outputs()


def main(base: str, lifetime: str, end: str = "") -> None:
    harden()  # as the command line does: root then owns more of the files in /proc/self
    argv = (sys.executable, "-S", "-E", "-c", PROGRAM)
    machine = sandbox_probe.find_sandbox_support().machine
    group = Cgroup(base=base, settings=(), moves_host=True, init=INIT[machine])
    # The interpreter's own library may be found by this variable alone.
    library = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    env = {"WORD": "a", **library}
    plan = LaunchPlan(argv=argv, cwd="/", env=env, wrapper=plan_wrapper_of(lifetime, argv))
    before = set(Path("/proc/self/fd").iterdir())
    child = Child(dataclasses.replace(plan, group=group))
    select.select([child.stdout], [], [], WAIT_SECONDS)
    output = os.read(child.stdout, 4096).decode()
    # The host has moved itself into exthost-…-host; the other cgroup is that of the program.
    (folder,) = [path for path in Path(base).glob("exthost-*") if not path.name.endswith("-host")]
    inside = pids_in(folder)
    report: dict[str, Any] = {
        "output": output,
        "grouped": child.has_cgroup,
        "inside": len(inside),
        "wrapper is inside": lifetime != "plain" and child.pid in inside,
        "base is empty": not pids_in(Path(base)),
        "host is in its leaf": os.getpid() in pids_in(next(Path(base).glob("exthost-*-host"))),
        "pids": inside,
    }
    if end == "killed":
        print(json.dumps(report), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    child.close_stdin()
    select.select([child.exit_fd], [], [], WAIT_SECONDS)
    report["exit"] = str(child.poll_exit())
    child.reap()
    child.close_outputs()
    report["descriptors"] = len(set(Path("/proc/self/fd").iterdir()) - before)
    print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
