"""Groups of the kernel's, really made: who is in them and who is not, and that none is left.

They need a tree of cgroup v2 that we may write in, and no controller. That memory and processes
are held where there are controllers is tried in a virtual machine: `make trial-cgroup`.
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
from tests.extensions.proc import gone
from tests.process.test_child import close
from tests.sandbox.trial_users import USERS, missing

pytestmark = pytest.mark.skipif(tree() is None, reason="no tree of cgroup v2 to write in")

RUN_SECONDS = 150
SOON_SECONDS = 120


@pytest.fixture(autouse=True)
def as_if_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """What this process found out and did before is forgotten."""
    monkeypatch.setattr(cgroups, "_bases", {})
    monkeypatch.setattr(cgroups, "_prepared", set())


@pytest.fixture
def base() -> Iterator[Path]:
    with delegated("root") as group:
        yield group


def group_below(base: Path, **settings: Any) -> Cgroup:
    return Cgroup(
        **{
            "base": str(base),
            "settings": (),
            "init": INIT[sandbox_probe.find_sandbox_support().machine],
            **settings,
        }
    )


def soon(happens: Callable[[], bool]) -> None:
    until = time.monotonic() + SOON_SECONDS
    while not happens():
        assert time.monotonic() < until
        time.sleep(0.005)


def hosted(user: str, base: Path, *words: str) -> dict[str, Any]:
    ran = run_in(base, user, ("-m", "tests.cgroup.host", str(base), *words), RUN_SECONDS)
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("way", ["plain", "tree", "strict"])
@pytest.mark.parametrize("user", USERS)
def test_exactly_a_program_and_its_descendants_are_in_its_group(user: str, way: str) -> None:
    if why := missing(user):
        pytest.skip(why)
    with delegated(user) as base:
        report = hosted(user, base, way)
        assert report["said"] == "[0, 1, 2] ['WORD']\n"
        assert report["grouped"] and report["inside"] == 2 and not report["wrapper is inside"]
        assert report["host is in its leaf"] and report["base is empty"]
        assert report["exit"] == "exited with 0"
        assert report["descriptors"] == 0
        assert [path.name[-4:] for path in base.glob("exthost-*")] == ["host"]


def test_a_process_that_becomes_nobody_first_enters_too(base: Path) -> None:
    assert uid_inside(group_below(base)) == NOBODY
    assert not list(base.glob("exthost-*"))


def test_a_daemon_that_nothing_else_contains_ends_with_its_program(base: Path) -> None:
    script = "setsid sleep 600 >/dev/null 2>&1 & echo $!; read line"
    child = Child(LaunchPlan(argv=("/bin/sh", "-c", script), group=group_below(base)))
    daemon = int(os.read(child.stdout, 64))
    soon(lambda: os.getsid(daemon) == daemon)
    close(child)
    soon(lambda: gone(daemon) and not list(base.glob("exthost-*")))


@pytest.mark.parametrize("way", ["plain", "tree"])
def test_the_processes_left_by_a_killed_host_are_ended_and_removed_by_the_next(
    base: Path, way: str
) -> None:
    report = hosted("root", base, way, "killed")
    assert len(list(base.glob("exthost-*"))) == 2
    close(Child(LaunchPlan(argv=("/bin/true",), group=group_below(base))))
    soon(lambda: all(map(gone, report["pids"])) and not list(base.glob("exthost-*")))


def test_the_processes_in_a_dead_hosts_leaf_are_not_ended_by_another(base: Path) -> None:
    us = cgroups._this_host()
    leaf = base / us._replace(started=1).host_cgroup_name
    leaf.mkdir()
    with subprocess.Popen(["/bin/sleep", "600"]) as bystander:
        (leaf / "cgroup.procs").write_text(str(bystander.pid))
        close(Child(LaunchPlan(argv=("/bin/true",), group=group_below(base))))
        assert bystander.poll() is None and leaf.exists()
        bystander.kill()
    soon(lambda: not leaf.exists())


def test_a_dead_hosts_leaf_is_removed_when_its_last_process_has_ended(base: Path) -> None:
    """A namespace that lost its host is in its leaf for a moment."""
    leaf = base / cgroups._this_host()._replace(started=1).host_cgroup_name
    leaf.mkdir()
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) as ending:
        (leaf / "cgroup.procs").write_text(str(ending.pid))
        cgroups._remove_leftovers(str(base))
        assert leaf.exists() and ending.poll() is None
        ending.communicate()
    soon(lambda: not leaf.exists())


def test_groups_of_hosts_that_live_or_cannot_be_known_stay(base: Path) -> None:
    us = cgroups._this_host()
    kept = [
        us.extension_cgroup_name(1_000_000),
        HostIdentity(us.namespace + 1, 1, 1).extension_cgroup_name(7),
        "exthost-1-1-1-1x",
    ]
    for name in kept:
        (base / name).mkdir()
    close(Child(LaunchPlan(argv=("/bin/true",), group=group_below(base))))
    assert {path.name for path in base.glob("exthost-*")} == set(kept)


def test_a_group_that_is_refused_is_reported_and_the_start_goes_on_without_it(base: Path) -> None:
    for wrong in (
        group_below(base / "nowhere"),
        group_below(base, settings=(("memory.nothing", "1"),)),
        group_below(base, controllers=("nothing",)),
    ):
        cgroups._prepared.clear()
        cgroups._bases[os.getpid()] = CgroupBase(str(base), frozenset({"memory"}))
        child = Child(LaunchPlan(argv=("/bin/cat",), group=wrong))
        try:
            assert not child.has_cgroup
            result = cgroups.find_base().result
            assert wrong.base in result.reason and result.fix
        finally:
            close(child)
    assert not list(base.glob("exthost-*"))


def test_a_host_that_is_not_alone_does_not_step_aside(base: Path) -> None:
    with subprocess.Popen(["/bin/sleep", "600"]) as ours:
        # Nobody's child but a shell's that has ended, so not one of ours.
        script = 'sleep 600 >/dev/null & echo $! >"$0"; echo $!'
        words = ["/bin/sh", "-c", script, str(base / "cgroup.procs")]
        stranger = int(subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout)
        (base / "cgroup.procs").write_text(str(ours.pid))
        assert cgroups.create(group_below(base, moves_host=True)) is None
        assert "other processes" in cgroups.find_base().result.reason
        inside = {int(word) for word in (base / "cgroup.procs").read_text().split()}
        assert inside == {ours.pid, stranger} and not list(base.glob("exthost-*"))
        ours.kill()
        os.kill(stranger, 9)


def test_a_program_that_cannot_be_started_leaves_no_group(base: Path) -> None:
    with pytest.raises(SpawnFailed) as caught:
        Child(LaunchPlan(argv=("/nowhere/program",), group=group_below(base)))
    assert caught.value.code == "X0401"
    assert not list(base.glob("exthost-*"))


def test_a_group_is_seen_as_it_is(base: Path) -> None:
    observed = cgroups._inspect(str(base))
    assert (observed.folder, observed.owner_uid, observed.is_delegated) == (str(base), 0, True)
    assert (
        observed.is_writable
        and observed.can_kill
        and not (observed.is_root or observed.has_processes or observed.has_foreign_members)
    )
    os.setxattr(base, "trusted.delegate", b"0")
    (base / "foreign").mkdir()
    observed = cgroups._inspect(str(base))
    assert observed.has_foreign_members and not observed.is_delegated
    (base / "foreign").rmdir()
    with subprocess.Popen(["/bin/sleep", "600"]) as ours:
        (base / "cgroup.procs").write_text(str(ours.pid))
        (base / cgroups._this_host().host_cgroup_name).mkdir()
        observed = cgroups._inspect(str(base))
        assert observed.has_processes and not observed.has_foreign_members
        ours.kill()


def test_reading_changes_nothing_and_is_done_once(monkeypatch: pytest.MonkeyPatch) -> None:
    here = tree()
    assert here is not None
    before = sorted(path.name for path in here.iterdir() if path.is_dir())
    first = cgroups.find_base()
    monkeypatch.setattr(cgroups, "_find_base", None)
    assert cgroups.find_base() is first and first.result.works == bool(first.folder)
    assert sorted(path.name for path in here.iterdir() if path.is_dir()) == before


def test_a_machine_without_cgroups_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(path: str) -> str:
        raise FileNotFoundError(path)

    monkeypatch.setattr(cgroups, "_read", read)
    report = cgroups.find_base().result
    assert "no cgroup v2" in report.reason and report.fix
