"""The choice of the cgroup in which the host puts its extensions, and what it writes there.

A cgroup is a group of processes with limits that the kernel enforces. The host may make groups only
in one that was delegated to its user, its "base". The cases are in `vectors/cgroup.toml`. These
tests use no real cgroups.
"""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from exthost.model.launch_plan import Ceiling
from exthost.process.cgroup_rules import (
    CgroupBase,
    FoundCgroup,
    HostIdentity,
    choose_base,
    locate,
    oom_reason,
    parse_cgroup_name,
    plan_cgroup,
)

VECTORS = tomllib.loads((Path(__file__).parents[1] / "vectors" / "cgroup.toml").read_text())
BOTH = frozenset({"memory", "pids"})


def rows(kind: str) -> list[Any]:
    return [pytest.param(row, id=row["name"]) for row in VECTORS[kind]]


@pytest.mark.parametrize("row", rows("locate"))
def test_the_folder_of_the_cgroup_is_found(row: dict[str, str]) -> None:
    mounts = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n" + row["mount"] + "\n"
    assert locate(row["own"] + "\n", mounts) == (row["folder"], row["point"])


def found_cgroup(report: dict[str, Any] | None) -> FoundCgroup | None:
    if report is None:
        return None
    sets = {name: frozenset(report[name]) for name in ("controllers", "enabled") if name in report}
    fields: dict[str, Any] = {"folder": "/g/own", "owner_uid": 1000, "controllers": BOTH | {"io"}}
    fields |= report | sets
    return FoundCgroup(**fields)


@pytest.mark.parametrize("row", rows("choose_base"))
def test_a_cgroup_is_used_only_if_it_is_delegated(row: dict[str, Any]) -> None:
    base = choose_base(
        found_cgroup(row["own"]),
        found_cgroup(row.get("above")),
        uid=row.get("uid", 1000),
        has_systemd=row.get("systemd", False),
    )
    if "reason" in row:
        assert row["reason"] in base.result.reason and base.result.fix
        assert base._replace(result=CgroupBase().result) == CgroupBase()
    else:
        controllers = frozenset(row.get("controllers", BOTH))
        assert base == CgroupBase(row["base"], controllers, row.get("moves_host", False))


def test_without_cgroup_v2_there_is_no_base() -> None:
    assert "no cgroup v2" in choose_base(None, None, uid=0, has_systemd=False).result.reason


MEMORY = (("memory.max", "1000"), ("memory.swap.max", "0"), ("memory.oom.group", "1"))
PIDS = (("pids.max", "36"),)


@pytest.mark.parametrize(
    ("ceiling", "controllers", "settings"),
    [
        (Ceiling(1000, 10), BOTH, MEMORY + PIDS),
        (Ceiling(1000, None), BOTH, MEMORY),
        (Ceiling(None, 10), BOTH, PIDS),
        (Ceiling(1000, 10), {"pids"}, PIDS),
        (Ceiling(1000, 10), {"memory"}, MEMORY),
    ],
)
def test_limits_are_written_for_available_controllers(
    ceiling: Ceiling, controllers: set[str], settings: tuple[tuple[str, str], ...]
) -> None:
    group = plan_cgroup(CgroupBase("/g", frozenset(controllers), moves_host=True), ceiling, b"init")
    assert group is not None and group.settings == settings
    assert (group.base, group.moves_host, group.init) == ("/g", True, b"init")
    assert group.controllers == tuple(sorted(controllers))


@pytest.mark.parametrize(
    ("ceiling", "controllers"),
    [(Ceiling(), BOTH), (Ceiling(1000, None), {"pids"}), (Ceiling(1000, 10), set())],
)
def test_a_cgroup_without_limits_is_not_made(ceiling: Ceiling, controllers: set[str]) -> None:
    assert plan_cgroup(CgroupBase("/g", frozenset(controllers)), ceiling, b"") is None


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ("low 0\nhigh 0\nmax 41\noom 1\noom_kill 4\n", "max_memory is 64 MiB"),
        ("low 0\nmax 41\noom 0\noom_kill 1\n", "ran out of memory"),
        ("low 0\nmax 41\noom 3\noom_kill 0\n", ""),
        ("", ""),
    ],
)
def test_an_extension_that_ran_out_of_memory_is_reported(events: str, reason: str) -> None:
    report = oom_reason(events, 64 * 2**20)
    assert reason in report and bool(report) == bool(reason)


def test_the_name_of_a_cgroup_has_its_owner() -> None:
    owner = HostIdentity(4026531836, 12, 3456)
    assert parse_cgroup_name(owner.extension_cgroup_name(7)) == (owner, True)
    assert parse_cgroup_name(owner.host_cgroup_name) == (owner, False)
    for name in ("exthost", "exthost-1-2-3", "exthost-1-2-3-4x", "x-exthost-1-2-3-4", "init.scope"):
        assert parse_cgroup_name(name) is None
