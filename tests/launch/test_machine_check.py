"""What happens if this machine can or cannot enforce the sandbox of an extension.

Whether a sandbox works is known only from a trial of it, which blocks, so trials run in a thread,
and their results are cached. Here a fixture replaces the results: a sandbox works, fails, or could
not be tried for the moment.
"""

from typing import Any

import pytest

from exthost.errors import Refused, SpawnFailed
from exthost.launch import machine_check, sandbox_probe
from exthost.launch.extension_user import probe_user_id
from exthost.launch.machine_check import can_enforce, describe_weaknesses, enforced_policy
from exthost.model.probe_result import ProbeResult, SandboxSupport
from exthost.model.spec import Permissions, Spec

WORKS = ProbeResult()  # without a reason
FAILS = ProbeResult("no namespaces", "allow them")
BUSY = ProbeResult("no memory", "free some", is_temporary=True)
LIMITED = Permissions()  # a table without any grant


def spec_of(**fields: Any) -> Spec:
    return Spec(id="a", dialect="morphir", argv=("program",), **fields)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> dict[str, ProbeResult]:
    """The results of the trials of this machine, by the kind of sandbox. All are known."""
    results = {"strict": WORKS, "landlock": WORKS, "pids": WORKS}
    monkeypatch.setattr(sandbox_probe, "find_sandbox_support", lambda: SandboxSupport(uid=1000))
    for kind in ("strict", "landlock"):
        monkeypatch.setattr(
            sandbox_probe, f"probe_{kind}", lambda support, uid, kind=kind: results[kind]
        )
        monkeypatch.setattr(
            sandbox_probe, f"{kind}_is_known", lambda support, uid, kind=kind: kind in results
        )
    monkeypatch.setattr(
        sandbox_probe, "probe_pid_namespace", lambda support: (results["pids"], "/bin/bwrap")
    )
    monkeypatch.setattr(sandbox_probe, "pid_namespace_is_known", lambda support: "pids" in results)
    return results


def test_a_sandbox_that_is_off_has_no_policy_except_for_webassembly() -> None:
    assert enforced_policy(spec_of(permissions=LIMITED)) is LIMITED
    assert enforced_policy(spec_of(permissions=LIMITED, sandbox="off")) is None
    assert enforced_policy(spec_of(permissions=LIMITED, sandbox="off", source="wasm")) is LIMITED
    assert enforced_policy(spec_of()) is None


def test_a_remote_server_without_network_reaches_its_own_host() -> None:
    server = Spec(
        id="a", dialect="mcp", argv=("https://example.org/mcp",), source="http", permissions=LIMITED
    )
    policy = enforced_policy(server)
    assert policy is not None and policy.network == ("example.org:443",)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"permissions": LIMITED, "sandbox": "landlock"}, True),
        ({"permissions": LIMITED, "sandbox": "strict"}, False),
        ({"permissions": LIMITED, "sandbox": "landlock", "source": "wasm"}, False),
        ({"sandbox": "landlock"}, False),
    ],
)
def test_landlock_is_used_for_programs_with_permissions(
    fields: dict[str, Any], expected: bool
) -> None:
    assert machine_check.uses_landlock(spec_of(**fields)) is expected


def test_a_machine_counts_as_probed_when_each_needed_result_is_known(
    machine: dict[str, ProbeResult],
) -> None:
    limited, plain = spec_of(permissions=LIMITED), spec_of(lifetime="plain")
    assert machine_check.is_machine_probed(limited)
    del machine["strict"]
    assert not machine_check.is_machine_probed(limited)
    assert machine_check.is_machine_probed(spec_of(permissions=LIMITED, sandbox="landlock"))
    assert machine_check.is_machine_probed(spec_of())
    del machine["pids"]
    assert not machine_check.is_machine_probed(spec_of())
    assert machine_check.is_machine_probed(plain)


def test_a_temporary_failure_of_a_needed_trial_is_an_error(machine: dict[str, ProbeResult]) -> None:
    machine["strict"] = BUSY
    machine_check.probe_machine(spec_of())
    with pytest.raises(SpawnFailed, match="no memory"):
        machine_check.probe_machine(spec_of(permissions=LIMITED))
    machine.update(strict=FAILS, pids=BUSY)
    machine_check.probe_machine(spec_of(permissions=LIMITED, lifetime="plain"))
    with pytest.raises(SpawnFailed, match="no memory"):
        machine_check.probe_machine(spec_of())


def test_permissions_that_cannot_be_enforced_refuse_the_extension_unless_the_config_allows_it(
    machine: dict[str, ProbeResult],
) -> None:
    spec = spec_of(permissions=LIMITED)
    assert can_enforce(spec)
    machine["strict"] = BUSY
    assert can_enforce(spec)
    machine.update(strict=FAILS, landlock=FAILS)
    with pytest.raises(Refused, match="cannot be enforced: no namespaces") as caught:
        can_enforce(spec)
    assert 'sandbox = "landlock"' in caught.value.help
    with pytest.raises(Refused) as caught:
        can_enforce(spec, as_host=True)
    assert "let every user reach its program" in caught.value.help
    with pytest.raises(Refused) as caught:
        can_enforce(spec_of(permissions=LIMITED, sandbox="landlock"))
    assert "leave its permissions out" in caught.value.help
    lenient = spec_of(permissions=LIMITED, sandbox="best-effort")
    assert not can_enforce(lenient)
    with pytest.raises(Refused):
        can_enforce(spec_of(permissions=LIMITED, sandbox="best-effort", on_weaker="refuse"))


async def test_no_trial_is_run_on_an_event_loop(machine: dict[str, ProbeResult]) -> None:
    machine["strict"] = FAILS
    with pytest.raises(Refused):
        can_enforce(spec_of(permissions=LIMITED))
    del machine["strict"]
    assert can_enforce(spec_of(permissions=LIMITED))


def test_the_trial_is_run_as_the_user_of_the_extension(monkeypatch: pytest.MonkeyPatch) -> None:
    support = SandboxSupport(uid=0, setpriv="/bin/setpriv")
    users: list[int | None] = []

    def probe(support: SandboxSupport, uid: int | None) -> ProbeResult:
        users.append(uid)
        return WORKS

    monkeypatch.setattr(sandbox_probe, "find_sandbox_support", lambda: support)
    monkeypatch.setattr(sandbox_probe, "probe_strict", probe)
    assert can_enforce(spec_of(permissions=LIMITED), as_host=True)
    assert can_enforce(spec_of(permissions=LIMITED))
    assert users == [None, probe_user_id(support)] and users[1] is not None


def test_a_pid_namespace_is_used_if_it_works_and_required_if_the_config_says_so(
    machine: dict[str, ProbeResult],
) -> None:
    find = machine_check.find_pid_namespace
    assert find(spec_of(lifetime="plain")) == (None, "")
    assert find(spec_of()) == (WORKS, "/bin/bwrap")
    machine["pids"] = FAILS
    assert find(spec_of()) == (None, "")
    for fields in ({"lifetime": "tree"}, {"on_weaker": "refuse"}):
        with pytest.raises(Refused, match="no namespaces") as caught:
            find(spec_of(**fields))
        assert caught.value.code == "X0380"
    machine["pids"] = BUSY
    with pytest.raises(SpawnFailed):
        find(spec_of())


def test_weaknesses_name_the_restriction_and_the_reason(machine: dict[str, ProbeResult]) -> None:
    machine.update(strict=FAILS, pids=FAILS)
    limited = spec_of(permissions=LIMITED)
    landlock = spec_of(permissions=LIMITED, sandbox="landlock")
    assert describe_weaknesses(limited, "namespace", True) == []
    assert describe_weaknesses(limited, "namespace", False) == [
        ("sandbox", "its permissions are not enforced: no namespaces")
    ]
    assert describe_weaknesses(spec_of(), "namespace", False) == []
    ((kind, reason),) = describe_weaknesses(landlock, "namespace", True)
    assert kind == "sandbox" and reason.startswith("Landlock is weaker")
    assert describe_weaknesses(spec_of(), "process group", False) == [
        ("lifetime", "its processes can outlive a killed host: no namespaces")
    ]
    assert describe_weaknesses(spec_of(lifetime="plain"), "process group", False) == []
