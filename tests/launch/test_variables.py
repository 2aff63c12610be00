"""Which environment variables of the host an extension gets, and in which its settings are found.

Without a `permissions` table, the dialect (the protocol of the extension) or `env_policy` decides.
With one, the extension gets a few harmless variables and those that the operator, the author of the
config, passes: `env = { NOTES_KEY = { from = "NOTES_KEY" } }`. A package is an extension with a
manifest of its own; its manifest is not trusted to choose a variable of the host.
"""

from dataclasses import replace
from typing import Any

import pytest

from exthost.dialects.mcp.dialect import DIALECT as MCP
from exthost.dialects.morphir.dialect import DIALECT as MORPHIR
from exthost.dialects.synaps.dialect import DIALECT as SYNAPS
from exthost.errors import Refused
from exthost.launch.plan import admit, prepare
from exthost.launch.variables import build_environment, grant_line, withheld_variables
from exthost.model.empty_mapping import EMPTY_MAPPING
from exthost.model.spec import DeclaredSetting, HostEnvRef, Package, Permissions, Requires, Spec

# The environment of the host.
HOST = {
    "PATH": "/usr/bin:/bin",
    "LANG": "C",
    "HOME": "/home/a",
    "TMPDIR": "/tmp",
    "EDITOR": "vi",
    "NOTES_KEY": "secret",
}
# A package that requires NOTES_KEY, and has a setting `api_key` with the value of that variable.
PACKAGE_SPEC = Spec(
    id="notes",
    argv=("/bin/true",),
    cwd="/",
    dialect="synaps",
    requires=Requires(env=("NOTES_KEY",)),
    settings=(DeclaredSetting("api_key", ("NOTES_KEY",), required=True, secret="NOTES_KEY"),),
    package=Package(root="/srv/notes", argv=("/bin/true",), cwd="/"),
)
SANDBOXED_SPEC = replace(PACKAGE_SPEC, permissions=Permissions())


@pytest.mark.parametrize("dialect", [MORPHIR, MCP, SYNAPS])
def test_permissions_pass_only_the_variables_that_most_programs_need(dialect: Any) -> None:
    spec = Spec(id="x", argv=("/bin/true",), permissions=Permissions())
    assert build_environment(spec, dialect, HOST, EMPTY_MAPPING).passed == (
        "HOME",
        "LANG",
        "PATH",
        "TMPDIR",
    )
    filtered = replace(spec, env_policy="filtered")
    assert "EDITOR" in build_environment(filtered, dialect, HOST, EMPTY_MAPPING).passed, (
        "env_policy can pass more"
    )


def test_without_permissions_the_policy_of_the_dialect_applies() -> None:
    assert "EDITOR" in build_environment(replace(PACKAGE_SPEC), MORPHIR, HOST, EMPTY_MAPPING).passed
    assert "NOTES_KEY" in build_environment(PACKAGE_SPEC, SYNAPS, HOST, EMPTY_MAPPING).passed
    assert prepare(PACKAGE_SPEC, SYNAPS, HOST).context.config == {"api_key": "secret"}
    off = replace(SANDBOXED_SPEC, sandbox="off")
    assert prepare(off, SYNAPS, HOST).context.config == {"api_key": "secret"}


def test_a_setting_gets_its_value_from_a_variable_of_the_config() -> None:
    spec = replace(PACKAGE_SPEC, env={"NOTES_KEY": "another"})
    assert prepare(spec, SYNAPS, HOST).context.config == {"api_key": "another"}
    spec = replace(PACKAGE_SPEC, env={"NOTES_KEY": HostEnvRef("OTHER_KEY")})
    config = prepare(spec, SYNAPS, {**HOST, "OTHER_KEY": "renamed"}).context.config
    assert config == {"api_key": "renamed"}


def test_the_config_of_a_package_with_permissions_has_no_secret() -> None:
    assert withheld_variables(SANDBOXED_SPEC, HOST) == ("NOTES_KEY",)
    with pytest.raises(Refused) as caught:
        prepare(SANDBOXED_SPEC, SYNAPS, HOST)
    line = '[overrides.notes] env = { NOTES_KEY = { from = "NOTES_KEY" } }'
    assert line == grant_line(SANDBOXED_SPEC, ["NOTES_KEY"]) and line in caught.value.help
    for policy in (None, "filtered", "minimal"):
        spec = replace(SANDBOXED_SPEC, env_policy=policy)
        assert "NOTES_KEY" not in build_environment(spec, SYNAPS, HOST, EMPTY_MAPPING).variables


def test_an_extension_is_refused_if_a_required_variable_is_not_passed() -> None:
    spec = replace(SANDBOXED_SPEC, settings=(), requires=Requires(env=("HOME", "NOTES_KEY")))
    with pytest.raises(Refused) as caught:
        admit(spec, MORPHIR, HOST)
    error = caught.value
    assert error.code == "X0365" and error.evidence.details == ("NOTES_KEY",)
    assert '[overrides.notes] env = { NOTES_KEY = { from = "NOTES_KEY" } }' in error.help
    admit(replace(spec, env={"NOTES_KEY": HostEnvRef("NOTES_KEY")}), MORPHIR, HOST)
    admit(replace(spec, permissions=None), MORPHIR, HOST)
    # Also without a package, and without permissions but with a policy that passes few variables.
    for changes in ({"package": None}, {"permissions": None, "env_policy": "declared"}):
        with pytest.raises(Refused) as caught:
            admit(replace(spec, **changes), MORPHIR, HOST)
        assert caught.value.code == "X0365"
    with pytest.raises(Refused) as caught:
        admit(spec, MORPHIR, {**HOST, "NOTES_KEY": ""})
    assert caught.value.code == "X0301", "the variable is not set at all"


def test_an_advisory_requirement_of_a_variable_that_is_set_nowhere_is_only_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    requires = Requires(env=("ABSENT_KEY",), is_advisory=True)
    admit(replace(SANDBOXED_SPEC, settings=(), requires=requires), MORPHIR, HOST)
    assert "ABSENT_KEY" in caplog.text


def test_variables_of_the_operator_are_passed() -> None:
    spec = replace(SANDBOXED_SPEC, env={"NOTES_KEY": HostEnvRef("NOTES_KEY")})
    launch = prepare(spec, SYNAPS, HOST)
    assert launch.context.config == {"api_key": "secret"}
    assert launch.plan.env["NOTES_KEY"] == "secret" and withheld_variables(spec, HOST) == ()


# The variable that synaps derives for the setting `api_key` of `notes`. It derives the same name
# for the setting `key` of `notes_api`: a package could choose its id to read the other's secret.
OWN_VARIABLE = "SYNAPS_EXTENSION_NOTES_API_KEY"
OTHER_PACKAGE = replace(
    PACKAGE_SPEC,
    id="notes_api",
    requires=Requires(),
    settings=(DeclaredSetting("key", (OWN_VARIABLE,), default="none"),),
)


def test_a_package_with_permissions_cannot_choose_a_variable_by_its_id() -> None:
    host = {**HOST, OWN_VARIABLE: "secret of notes"}
    assert prepare(OTHER_PACKAGE, SYNAPS, host).context.config == {"key": "secret of notes"}
    sandboxed = replace(OTHER_PACKAGE, permissions=Permissions())
    assert prepare(sandboxed, SYNAPS, host).context.config == {"key": "none"}
    assert withheld_variables(sandboxed, host) == (OWN_VARIABLE,)
    assert withheld_variables(sandboxed, HOST) == (), "a variable that is not set is not withheld"
    granted = replace(sandboxed, env={OWN_VARIABLE: HostEnvRef(OWN_VARIABLE)})
    assert prepare(granted, SYNAPS, host).context.config == {"key": "secret of notes"}


def test_the_error_of_a_withheld_variable_has_the_line_that_grants_it() -> None:
    settings = (DeclaredSetting("key", (OWN_VARIABLE,), required=True),)
    spec = replace(OTHER_PACKAGE, settings=settings, permissions=Permissions())
    host = {**HOST, OWN_VARIABLE: "secret of notes"}
    with pytest.raises(Refused) as caught:
        prepare(spec, SYNAPS, host)
    line = f'[overrides.notes_api] env = {{ {OWN_VARIABLE} = {{ from = "{OWN_VARIABLE}" }} }}'
    assert caught.value.code == "X0350" and line in caught.value.help
