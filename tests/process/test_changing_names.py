"""The proxy of an extension with a name server whose answers change, and with servers that
redirect: which server gets a request, and which gets the secret of `inject`.

The proxy reaches only the hosts of `permissions.network`, and adds a header with a secret to the
requests to one of them. `changing_names.py` makes the requests in a network of its own; the fixture
has, for each of its steps, the reply and the heads that each server got. FIRST, SECOND and OTHER
are the addresses of the servers. SECOND is not allowed.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.process.changing_names import FIRST, OTHER, SECOND

NAMESPACES = ["unshare", "--map-root-user", "--net", "--mount"]
SECRET = "authorization: Bearer s3cret\r\n"


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run the program, and return its report."""
    if subprocess.run([*NAMESPACES, "true"], capture_output=True, timeout=60).returncode:
        pytest.skip("this user cannot make namespaces")
    folder = tmp_path_factory.mktemp("names")
    program = [sys.executable, "-m", "tests.process.changing_names", str(folder)]
    result = subprocess.run(
        [*NAMESPACES, *program],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    report: dict[str, Any] = json.loads(result.stdout)
    return report


@pytest.mark.more
def test_a_name_is_looked_up_once_for_each_connection(steps: dict[str, Any]) -> None:
    assert steps["allowed"]["reply"] == FIRST
    step = steps["changed after the look-up"]
    assert step["reply"] == FIRST and step["unused answers"] == 1 and not step[SECOND]


@pytest.mark.more
@pytest.mark.parametrize("name", ["changed", "private", "metadata"])
def test_a_name_that_leads_to_an_address_that_is_not_allowed_is_refused(
    steps: dict[str, Any], name: str
) -> None:
    assert steps[name]["reply"].startswith("403 exthost refused api.test.example:80")
    assert not any(steps[name][server] for server in (FIRST, SECOND, OTHER))


@pytest.mark.more
def test_of_several_addresses_only_those_that_are_allowed_are_tried(steps: dict[str, Any]) -> None:
    assert steps["both"]["reply"] == FIRST and not steps["both"][SECOND]


@pytest.mark.more
def test_the_secret_is_sent_to_its_host_in_any_spelling(steps: dict[str, Any]) -> None:
    for name in ("allowed", "upper case and a dot"):
        [head] = steps[name][FIRST]
        assert SECRET in head, name
    assert all(SECRET in head for head in steps["redirect to itself"][FIRST])


@pytest.mark.more
@pytest.mark.parametrize(
    ("name", "server"),
    [
        ("redirect to another host", OTHER),
        ("redirect to an address", OTHER),
        ("redirect to its own address", FIRST),
    ],
)
def test_a_redirect_to_another_host_does_not_carry_the_secret(
    steps: dict[str, Any], name: str, server: str
) -> None:
    """`inject` names a host: the address of that host is another one."""
    assert steps[name]["reply"] == server
    heads = [*steps[name][FIRST], *steps[name][OTHER]]
    assert len(heads) == 2 and SECRET in heads[0]
    assert "s3cret" not in heads[1]


@pytest.mark.more
def test_the_secret_follows_its_name_to_another_allowed_address(steps: dict[str, Any]) -> None:
    """The name server decides about a name. The list has the address OTHER, for another host."""
    step = steps["redirect and change"]
    assert step["reply"] == OTHER and all(SECRET in head for head in (*step[FIRST], *step[OTHER]))
