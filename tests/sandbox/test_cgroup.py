"""Whether a cgroup may be had, and what is written to which of its files; `vectors/cgroup.toml`."""

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
def test_our_group_is_found_where_it_can_be_seen(row: dict[str, str]) -> None:
    mounts = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n" + row["mount"] + "\n"
    assert locate(row["own"] + "\n", mounts) == (row["folder"], row["point"])


def found_cgroup(report: dict[str, Any] | None) -> FoundCgroup | None:
    if report is None:
        return None
    sets = {name: frozenset(report[name]) for name in ("controllers", "enabled") if name in report}
    usual: dict[str, Any] = {"folder": "/g/own", "owner_uid": 1000, "controllers": BOTH | {"io"}}
    usual |= report | sets
    return FoundCgroup(**usual)


@pytest.mark.parametrize("row", rows("choose_base"))
def test_a_group_is_used_only_where_it_is_ours(row: dict[str, Any]) -> None:
    found = choose_base(
        found_cgroup(row["own"]),
        found_cgroup(row.get("above")),
        uid=row.get("uid", 1000),
        has_systemd=row.get("systemd", False),
    )
    if "reason" in row:
        assert row["reason"] in found.result.reason and found.result.fix
        assert found._replace(result=CgroupBase().result) == CgroupBase()
    else:
        controllers = frozenset(row.get("controllers", BOTH))
        assert found == CgroupBase(row["base"], controllers, row.get("moves_host", False))


def test_without_version_2_there_is_nothing_to_choose() -> None:
    assert "no cgroup v2" in choose_base(None, None, uid=0, has_systemd=False).result.reason


MEMORY = (("memory.max", "1000"), ("memory.swap.max", "0"), ("memory.oom.group", "1"))
PIDS = (("pids.max", "36"),)


@pytest.mark.parametrize(
    ("most", "controllers", "settings"),
    [
        (Ceiling(1000, 10), BOTH, MEMORY + PIDS),
        (Ceiling(1000, None), BOTH, MEMORY),
        (Ceiling(None, 10), BOTH, PIDS),
        (Ceiling(1000, 10), {"pids"}, PIDS),
        (Ceiling(1000, 10), {"memory"}, MEMORY),
    ],
)
def test_limits_are_written_where_there_is_a_controller(
    most: Ceiling, controllers: set[str], settings: tuple[tuple[str, str], ...]
) -> None:
    group = plan_cgroup(CgroupBase("/g", frozenset(controllers), moves_host=True), most, b"init")
    assert group is not None and group.settings == settings
    assert (group.base, group.moves_host, group.init) == ("/g", True, b"init")
    assert group.controllers == tuple(sorted(controllers))


@pytest.mark.parametrize(
    ("most", "controllers"),
    [(Ceiling(), BOTH), (Ceiling(1000, None), {"pids"}), (Ceiling(1000, 10), set())],
)
def test_a_group_that_would_contain_nothing_is_not_made(
    most: Ceiling, controllers: set[str]
) -> None:
    assert plan_cgroup(CgroupBase("/g", frozenset(controllers)), most, b"") is None


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ("low 0\nhigh 0\nmax 41\noom 1\noom_kill 4\n", "max_memory is 64 MiB"),
        ("low 0\nmax 41\noom 0\noom_kill 1\n", "ran out of memory"),
        ("low 0\nmax 41\noom 3\noom_kill 0\n", ""),
        ("", ""),
    ],
)
def test_an_extension_that_ran_out_of_memory_is_reported(events: str, why: str) -> None:
    report = oom_reason(events, 64 * 2**20)
    assert why in report and bool(report) == bool(why)


def test_a_name_shows_the_owner_of_its_group() -> None:
    owner = HostIdentity(4026531836, 12, 3456)
    assert parse_cgroup_name(owner.extension_cgroup_name(7)) == (owner, True)
    assert parse_cgroup_name(owner.host_cgroup_name) == (owner, False)
    for name in ("exthost", "exthost-1-2-3", "exthost-1-2-3-4x", "x-exthost-1-2-3-4", "init.scope"):
        assert parse_cgroup_name(name) is None
