"""The environment variables that a child process gets from the host.

A policy decides: "filtered" passes all variables whose names do not look like secrets, "minimal"
only those of a list, "declared" only PATH. Variables that the config sets are added. The variables
of the host that are not passed are `held_back`, which the host reports.
"""

import os
import subprocess
import sys
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exthost.errors import ConfigError
from exthost.model.launch_plan import LaunchPlan
from exthost.model.secret_names import looks_secret
from exthost.process.environment import POLICIES, Snapshot, child_environment
from exthost.process.own_process import host_environ

HOST = {"PATH": "/bin", "HOME": "/root", "GITHUB_TOKEN": "ghp_1", "LANG": "C"}

NAMES = st.sampled_from(["PATH", "HOME", "LANG", "API_KEY", "MY_SECRET_THING", "X", "gh_token"])
VARIABLES = st.dictionaries(NAMES, st.sampled_from(["", "1", "2"]))


@pytest.mark.parametrize(
    "name",
    [
        "GITHUB_TOKEN",
        "API_KEY",
        "CLIENT_SECRET",
        "DB_PASSWORD",
        "AWS_CREDENTIAL",
        "AZURE_PAT",
        "BASIC_AUTH",
        "OPENAI_APIKEY",
        "HTTP_BEARER",
        "WEB_SESSION",
        "github_token",
        "Api_Key",
        "PASSWORD",
        "PGPASSWORDFILE",
        "MYSECRETS",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "DB_PWD",
        "DB_PASSWD",
        "SMTP_PASS",
        "GPG_PASSPHRASE",
        "GPG_PASSPHRASE_FILE",
        "PASSPHRASES",
        "HTPASSWD",
        "AWS_CREDENTIALS",
        "SSH_PRIVATE_KEY_FILE",
        "my_private_key_path",
    ],
)
def test_a_name_that_looks_like_a_secret_is_withheld(name: str) -> None:
    assert looks_secret(name)
    environment = child_environment({name: "v", "A": "b"}, "filtered")
    assert dict(environment.variables) == {"A": "b"}
    assert environment.held_back == (name,)


@pytest.mark.parametrize(
    "name",
    [
        *("PATH", "TOKEN", "KEY", "TOKENS", "KEYBOARD", "AUTHOR", "XDG_SESSION_ID"),
        *("API_KEYS", "PAT", "PWD", "OLDPWD"),
    ],
)
def test_a_name_that_only_resembles_a_secret_is_passed(name: str) -> None:
    assert not looks_secret(name)
    assert child_environment({name: "v"}, "filtered").passed == (name,)


def test_only_an_allowed_secret_is_passed() -> None:
    host = HOST | {"OTHER_TOKEN": "o"}
    environment = child_environment(host, "filtered", allowed=("GITHUB_TOKEN", "NOT_THERE_KEY"))
    assert environment.variables["GITHUB_TOKEN"] == "ghp_1"
    assert environment.held_back == ("OTHER_TOKEN",)
    assert "NOT_THERE_KEY" not in environment.variables


def test_the_policy_minimal_passes_only_its_list() -> None:
    environment = child_environment(HOST, "minimal", names=("PATH", "LANG", "TERM"))
    assert dict(environment.variables) == {"PATH": "/bin", "LANG": "C"}
    assert environment.held_back == ("GITHUB_TOKEN", "HOME")


def test_the_policy_declared_passes_only_path() -> None:
    environment = child_environment(HOST, "declared", names=("HOME",), allowed=("GITHUB_TOKEN",))
    assert dict(environment.variables) == {"PATH": "/bin"}
    assert environment.passed == ("PATH",)


def test_the_policy_declared_adds_no_path_if_the_host_has_none() -> None:
    assert dict(child_environment({"HOME": "/"}, "declared").variables) == {}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_configured_variable_does_not_remove_path(policy: str) -> None:
    environment = child_environment(HOST, policy, names=("PATH",), configured={"CITY": "Lima"})
    assert environment.variables["PATH"] == "/bin"
    assert environment.variables["CITY"] == "Lima"
    assert environment.configured == ("CITY",)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_configured_variable_has_precedence_over_the_host(policy: str) -> None:
    environment = child_environment(HOST, policy, names=("PATH",), configured={"PATH": "/mine"})
    assert environment.variables["PATH"] == "/mine"
    assert "PATH" not in environment.passed
    assert "PATH" in environment.held_back


def test_a_configured_secret_is_set_although_that_of_the_host_is_withheld() -> None:
    environment = child_environment(HOST, "filtered", configured={"GITHUB_TOKEN": "mine"})
    assert environment.variables["GITHUB_TOKEN"] == "mine"
    assert environment.held_back == ("GITHUB_TOKEN",)


def test_the_error_of_an_unknown_policy_names_the_known_policies() -> None:
    with pytest.raises(ConfigError) as caught:
        child_environment(HOST, "everything")
    assert caught.value.code == "X0103"
    assert "everything" in caught.value.message
    assert all(policy in caught.value.help for policy in POLICIES)
    assert "ghp_1" not in str(caught.value)


@pytest.mark.parametrize("to_text", [repr, str, "{}".format])
def test_no_text_of_an_environment_shows_a_value(to_text: object) -> None:
    assert callable(to_text)
    environment = child_environment(
        {"PATH": "/v-of-path", "A_KEY": "v-of-key"}, "filtered", configured={"CITY": "v-of-city"}
    )
    plan = LaunchPlan(argv=("x",), env=environment.variables)
    for text in (to_text(environment), to_text(environment.variables), to_text(plan)):
        assert "v-of" not in text
        assert "PATH" in text
        assert "CITY" in text


def test_the_inputs_are_neither_changed_nor_kept() -> None:
    host, configured = dict(HOST), {"CITY": "Lima"}
    environment = child_environment(host, "filtered", configured=configured)
    assert (host, configured) == (HOST, {"CITY": "Lima"})
    configured["CITY"] = "Oslo"
    host["HOME"] = "/elsewhere"
    assert (environment.variables["CITY"], environment.variables["HOME"]) == ("Lima", "/root")


def test_the_variables_cannot_be_changed() -> None:
    environment = child_environment(HOST, "filtered")
    with pytest.raises(TypeError):
        environment.variables["PATH"] = "/evil"
    with pytest.raises(TypeError):
        environment.variables.update(PATH="/evil")


def test_the_environment_of_a_snapshot_is_computed_once_per_configuration() -> None:
    host = Snapshot(HOST)
    unconfigured = child_environment(host, "filtered")
    assert (
        child_environment(host, "filtered") is unconfigured == child_environment(HOST, "filtered")
    )
    configured = child_environment(host, "filtered", configured={"CITY": "Lima"})
    assert (
        configured
        == child_environment(HOST, "filtered", configured={"CITY": "Lima"})
        != unconfigured
    )


def test_a_changed_variable_of_the_host_is_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = host_environ()
    assert host_environ() is before and before == dict(os.environ)
    monkeypatch.setenv("CITY", "Lima")
    assert host_environ()["CITY"] == "Lima" and "CITY" not in before


def test_a_real_child_sees_exactly_these_variables() -> None:
    host = {"PATH": os.defpath, "A_TOKEN": "t", "HOME": "/h"}
    environment = child_environment(host, "filtered", configured={"CITY": "Lima"})
    script = "import os; print(sorted(n for n in os.environ if not n.startswith('LC_')))"
    result = subprocess.run(
        [sys.executable, "-c", script],
        env=environment.variables,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert result.stdout.strip() == "['CITY', 'HOME', 'PATH']"


@given(
    host=VARIABLES,
    policy=st.sampled_from(POLICIES),
    names=st.sets(NAMES),
    allowed=st.sets(NAMES),
    configured=VARIABLES,
)
def test_every_variable_is_either_passed_or_withheld(
    host: Mapping[str, str],
    policy: str,
    names: set[str],
    allowed: set[str],
    configured: Mapping[str, str],
) -> None:
    environment = child_environment(
        host, policy, names=names, allowed=allowed, configured=configured
    )
    passed, held_back = set(environment.passed), set(environment.held_back)
    assert passed | held_back == set(host)
    assert not passed & held_back
    assert passed | set(environment.configured) == set(environment.variables)
    assert not passed & set(environment.configured)
    for name, value in environment.variables.items():
        assert value == (configured[name] if name in configured else host[name])
    for group in (environment.passed, environment.held_back, environment.configured):
        assert list(group) == sorted(group)
    if policy == "filtered":
        assert not {name for name in passed - allowed if looks_secret(name)}
