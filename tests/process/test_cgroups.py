"""Real cgroups: each contains exactly the processes of one extension, and none remains.

A host puts each extension into a cgroup (a kernel's group of processes) below its `base`:

    BASE/exthost-…-host   the host itself, its "leaf": a cgroup with children has no processes
    BASE/exthost-…-7      an extension; the names contain what identifies the host

When a host is killed, the next one ends the processes of its extensions and removes the groups.
The tests need a writable tree of cgroup v2, but no controllers. `make trial-cgroup` tests the
limits of memory and processes in a virtual machine with controllers.
"""

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from exthost.errors import SpawnFailed
from exthost.launch import sandbox_probe
from exthost.launch.sandbox.initcode import INIT
from exthost.launch.sandbox.strict import NOBODY
from exthost.model.launch_plan import Cgroup, LaunchPlan
from exthost.process import cgroups
from exthost.process.cgroup_rules import CgroupBase, HostIdentity
from exthost.process.child import Child
from tests.cgroup.delegation import delegated, run_in, tree
from tests.cgroup.host import uid_inside
from tests.extensions.proc import is_gone
from tests.process.test_child import close
from tests.sandbox.trial_users import USERS, missing

pytestmark = pytest.mark.skipif(tree() is None, reason="no tree of cgroup v2 to write in")

RUN_SECONDS = 150
WAIT_SECONDS = 120


@pytest.fixture(autouse=True)
def clear_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clear the caches of the module."""
    monkeypatch.setattr(cgroups, "_bases", {})
    monkeypatch.setattr(cgroups, "_prepared", set())


@pytest.fixture
def base() -> Iterator[Path]:
    with delegated("root") as group:
        yield group


def group_below(base: Path, **settings: Any) -> Cgroup:
    """Return the plan of a cgroup for an extension, below a base."""
    return Cgroup(
        **{
            "base": str(base),
            "settings": (),
            "init": INIT[sandbox_probe.find_sandbox_support().machine],
            **settings,
        }
    )


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def run_host(user: str, base: Path, *args: str) -> dict[str, Any]:
    """Run `tests.cgroup.host` as this user in the cgroup, and return its report."""
    result = run_in(base, user, ("-m", "tests.cgroup.host", str(base), *args), RUN_SECONDS)
    report: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return report


@pytest.mark.more
@pytest.mark.parametrize("lifetime", ["plain", "tree", "strict"])
@pytest.mark.parametrize("user", USERS)
def test_exactly_a_program_and_its_descendants_are_in_its_group(user: str, lifetime: str) -> None:
    if reason := missing(user):
        pytest.skip(reason)
    with delegated(user) as base:
        report = run_host(user, base, lifetime)
        assert report["output"] == "[0, 1, 2] ['WORD']\n"
        assert report["grouped"] and report["inside"] == 2 and not report["wrapper is inside"]
        assert report["host is in its leaf"] and report["base is empty"]
        assert report["exit"] == "exited with 0"
        assert report["descriptors"] == 0
        assert [path.name[-4:] for path in base.glob("exthost-*")] == ["host"]


def test_a_process_that_becomes_nobody_is_in_its_group(base: Path) -> None:
    assert uid_inside(group_below(base)) == NOBODY
    assert not list(base.glob("exthost-*"))


def test_a_daemon_in_a_group_ends_with_its_program(base: Path) -> None:
    script = "setsid sleep 600 >/dev/null 2>&1 & echo $!; read line"
    child = Child(LaunchPlan(argv=("/bin/sh", "-c", script), group=group_below(base)))
    daemon = int(os.read(child.stdout, 64))
    wait_until(lambda: os.getsid(daemon) == daemon)
    close(child)
    wait_until(lambda: is_gone(daemon) and not list(base.glob("exthost-*")))


@pytest.mark.parametrize("lifetime", ["plain", "tree"])
def test_the_next_host_ends_the_processes_of_a_killed_host(base: Path, lifetime: str) -> None:
    report = run_host("root", base, lifetime, "killed")
    assert len(list(base.glob("exthost-*"))) == 2
    close(Child(LaunchPlan(argv=("/bin/true",), group=group_below(base))))
    wait_until(lambda: all(map(is_gone, report["pids"])) and not list(base.glob("exthost-*")))


def test_other_processes_in_the_leaf_of_a_dead_host_are_not_ended(base: Path) -> None:
    # The leaf of a host with our pid that started at another time, and so does not run any more.
    leaf = base / cgroups._this_host()._replace(started=1).host_cgroup_name
    leaf.mkdir()
    with subprocess.Popen(["/bin/sleep", "600"]) as bystander:
        (leaf / "cgroup.procs").write_text(str(bystander.pid))
        close(Child(LaunchPlan(argv=("/bin/true",), group=group_below(base))))
        assert bystander.poll() is None and leaf.exists()
        bystander.kill()
    wait_until(lambda: not leaf.exists())


def test_the_leaf_of_a_dead_host_is_removed_after_its_last_process(base: Path) -> None:
    """The init process of a namespace stays in the leaf for a moment after its host."""
    leaf = base / cgroups._this_host()._replace(started=1).host_cgroup_name
    leaf.mkdir()
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) as last_process:
        (leaf / "cgroup.procs").write_text(str(last_process.pid))
        cgroups._remove_leftovers(str(base))
        assert leaf.exists() and last_process.poll() is None
        last_process.communicate()
    wait_until(lambda: not leaf.exists())


def test_groups_of_live_or_unknown_hosts_are_not_removed(base: Path) -> None:
    this_host = cgroups._this_host()
    kept_names = [
        this_host.extension_cgroup_name(1_000_000),
        HostIdentity(this_host.namespace + 1, 1, 1).extension_cgroup_name(7),
        "exthost-1-1-1-1x",
    ]
    for name in kept_names:
        (base / name).mkdir()
    close(Child(LaunchPlan(argv=("/bin/true",), group=group_below(base))))
    assert {path.name for path in base.glob("exthost-*")} == set(kept_names)


def test_a_group_that_cannot_be_made_is_reported_and_the_program_starts(base: Path) -> None:
    for impossible_group in (
        group_below(base / "nowhere"),
        group_below(base, settings=(("memory.nothing", "1"),)),
        group_below(base, controllers=("nothing",)),
    ):
        cgroups._prepared.clear()
        cgroups._bases[os.getpid()] = CgroupBase(str(base), frozenset({"memory"}))
        child = Child(LaunchPlan(argv=("/bin/cat",), group=impossible_group))
        try:
            assert not child.has_cgroup
            result = cgroups.find_base().result
            assert impossible_group.base in result.reason and result.fix
        finally:
            close(child)
    assert not list(base.glob("exthost-*"))


def test_a_host_does_not_move_if_other_processes_are_in_its_group(base: Path) -> None:
    with subprocess.Popen(["/bin/sleep", "600"]) as our_child:
        # The parent of this process has ended, so it is not a child of this host.
        script = 'sleep 600 >/dev/null & echo $! >"$0"; echo $!'
        shell_command = ["/bin/sh", "-c", script, str(base / "cgroup.procs")]
        foreign_pid = int(subprocess.run(shell_command, stdout=subprocess.PIPE, check=True).stdout)
        (base / "cgroup.procs").write_text(str(our_child.pid))
        assert cgroups.create(group_below(base, moves_host=True)) is None
        assert "other processes" in cgroups.find_base().result.reason
        pids_in_base = {int(word) for word in (base / "cgroup.procs").read_text().split()}
        assert pids_in_base == {our_child.pid, foreign_pid} and not list(base.glob("exthost-*"))
        our_child.kill()
        os.kill(foreign_pid, 9)


def test_a_program_that_cannot_be_started_leaves_no_group(base: Path) -> None:
    with pytest.raises(SpawnFailed) as caught:
        Child(LaunchPlan(argv=("/nowhere/program",), group=group_below(base)))
    assert caught.value.code == "X0401"
    assert not list(base.glob("exthost-*"))


def test_the_properties_of_a_group_are_read(base: Path) -> None:
    properties = cgroups._inspect(str(base))
    assert properties.folder == str(base) and properties.owner_uid == 0
    assert properties.is_delegated and properties.is_writable and properties.can_kill
    assert not properties.is_root
    assert not properties.has_processes and not properties.has_foreign_members
    os.setxattr(base, "trusted.delegate", b"0")
    (base / "foreign").mkdir()
    properties = cgroups._inspect(str(base))
    assert properties.has_foreign_members and not properties.is_delegated
    (base / "foreign").rmdir()
    with subprocess.Popen(["/bin/sleep", "600"]) as our_child:
        (base / "cgroup.procs").write_text(str(our_child.pid))
        (base / cgroups._this_host().host_cgroup_name).mkdir()
        properties = cgroups._inspect(str(base))
        assert properties.has_processes and not properties.has_foreign_members
        our_child.kill()


def test_finding_the_base_makes_no_group_and_is_done_once(monkeypatch: pytest.MonkeyPatch) -> None:
    cgroup_tree = tree()
    assert cgroup_tree is not None
    before = sorted(path.name for path in cgroup_tree.iterdir() if path.is_dir())
    first_base = cgroups.find_base()
    monkeypatch.setattr(cgroups, "_find_base", None)
    assert cgroups.find_base() is first_base and first_base.result.works == bool(first_base.folder)
    assert sorted(path.name for path in cgroup_tree.iterdir() if path.is_dir()) == before


def test_a_machine_without_cgroups_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(path: str) -> str:
        raise FileNotFoundError(path)

    monkeypatch.setattr(cgroups, "_read", read)
    report = cgroups.find_base().result
    assert "no cgroup v2" in report.reason and report.fix
