"""The manifest (plugin.toml) of the second contract of nexo: which files have it, and mistakes.

nexo is a dialect, a protocol of extensions, and calls a version of it a contract. A manifest is
read as Accepted, with the configuration of the extension (`spec`), or as Rejected, with errors.
`@shows` names the requirements (`requirements.toml` of nexo) that a test shows.
"""

import pytest

from exthost.dialects.manifest_format import Accepted, ManifestFile, Rejected, Remark
from exthost.dialects.nexo import second_contract
from exthost.dialects.nexo.manifest import FORMAT, NexoManifest
from exthost.dialects.nexo.manifest_v2 import ManifestV2
from exthost.errors import Refused
from exthost.launch.plan import check_host_version
from exthost.model.offer import Tool
from exthost.model.spec import Restart
from tests.dialects.requirements import shows

WITHOUT_COMMAND = """
[plugin]
id = "tide"
version = "1.0.0"
name = "Tides"
description = "Tells tides"
min_nexo_version = ">=0.1.0"
"""
RUNNABLE = WITHOUT_COMMAND + '[plugin.entrypoint]\ncommand = "./tide"\n'
FIRST_CONTRACT = """
[plugin]
id = "tide"
version = "1.0.0"
[capabilities]
tools = ["next"]
[transport]
kind = "stdio"
command = "./tide"
"""


def read_manifest(text: str, name: str = "plugin.toml", siblings: tuple[str, ...] = ()) -> object:
    """Read a manifest of this name, beside which there are the files `siblings`."""
    file = ManifestFile(
        path=f"/p/tide/{name}",
        folder="/p/tide",
        data=text.encode(),
        has_file=lambda path: path in siblings,
    )
    return FORMAT.read(file)


def accept(text: str, name: str = "plugin.toml", siblings: tuple[str, ...] = ()) -> Accepted:
    outcome = read_manifest(text, name, siblings)
    assert isinstance(outcome, Accepted), outcome
    return outcome


def mistakes_in(text: str) -> list[str]:
    outcome = read_manifest(text)
    assert isinstance(outcome, Rejected), outcome
    return [error.message for error in outcome.errors]


@shows("nexo-second-01")
def test_the_shape_decides_which_contract_a_manifest_has() -> None:
    assert isinstance(accept(RUNNABLE).spec.manifest, ManifestV2)
    assert isinstance(accept("manifest_version = 2\n" + RUNNABLE).spec.manifest, ManifestV2)
    assert isinstance(accept(WITHOUT_COMMAND).spec.manifest, ManifestV2)  # by min_nexo_version
    assert isinstance(accept(FIRST_CONTRACT).spec.manifest, NexoManifest)
    assert isinstance(accept("manifest_version = 1\n" + FIRST_CONTRACT).spec.manifest, NexoManifest)
    assert (
        "manifest_version: must be 1 or 2"
        in mistakes_in("manifest_version = 3\n" + FIRST_CONTRACT)[0]
    )


def test_the_number_of_the_shape_must_be_whole() -> None:
    assert "manifest_version: must be 1 or 2" in mistakes_in("manifest_version = 2.0\n" + RUNNABLE)


# A number in TOML may have any number of hexadecimal digits.
LONG_NUMBER = f"0x{'f' * 5000}"


@pytest.mark.parametrize(
    "more",
    [
        f"[plugin.supervisor]\nbackoff_ms = {LONG_NUMBER}",
        "[plugin.supervisor]\nmax_attempts = -1",
        f"[plugin.capabilities.http_server]\nport = {LONG_NUMBER}",
        "[plugin.supervisor]\nmax_attempts = true",
        "[plugin.supervisor]\nbackoff_ms = 1979-05-27",
        "[plugin.supervisor]\nbackoff_ms = inf",
    ],
)
def test_an_odd_value_in_place_of_a_number_is_a_mistake(more: str) -> None:
    assert "must be a whole number from" in mistakes_in(f"{RUNNABLE}{more}\n")[0]


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "1e999", "9" * 5000, "["])
def test_a_schema_that_is_not_json_is_a_mistake(value: str) -> None:
    schema = f'{{"type": "object", "default": {value}}}'
    [mistake] = mistakes_in(f"{RUNNABLE}[plugin.config_schema]\nschema = '{schema}'\n")
    assert mistake.startswith("plugin.config_schema.schema: is not JSON: ")


@pytest.mark.more
def test_the_time_to_compare_lists_of_tools_is_linear() -> None:
    """A comparison of each name with all others would take minutes."""
    names = [f"tide_{number}" for number in range(100_000)]
    text = f"{RUNNABLE}[plugin.tools]\nexpose = {names}\ndeferred = {names}\n"
    manifest = accept(f"{text}[plugin.extends]\ntools = {names}\n").spec.manifest
    tools = tuple(Tool(name) for name in reversed(names))
    assert second_contract._check_tools(tools, manifest, []) == tools


@shows("nexo-second-01")
def test_plugin_toml_has_precedence_over_nexo_plugin_toml() -> None:
    assert accept(RUNNABLE, "nexo-plugin.toml").spec.id == "tide"
    assert read_manifest(RUNNABLE, "nexo-plugin.toml", siblings=("plugin.toml",)) is None
    accepted_file = accept(RUNNABLE, "plugin.toml", siblings=("nexo-plugin.toml",))
    (warning,) = accepted_file.warnings
    assert isinstance(warning, Remark) and warning.file == "nexo-plugin.toml"
    assert warning.text == "it is ignored, because plugin.toml is beside it"


@shows("nexo-second-03")
def test_a_plugin_without_a_command_is_listed_but_not_started() -> None:
    for text in (WITHOUT_COMMAND, WITHOUT_COMMAND + '[plugin.entrypoint]\ncommand = " "\n'):
        spec = accept(text).spec
        assert spec.argv == () and "no command" in spec.unrunnable
    assert accept(RUNNABLE).spec.argv == ("./tide",)


@shows("nexo-second-14")
def test_restarts_are_off_unless_the_manifest_asks_for_them() -> None:
    assert accept(RUNNABLE + "[plugin.supervisor]\nmax_attempts = 9\n").spec.restart == Restart()
    restart = accept(
        RUNNABLE + "[plugin.supervisor]\nrespawn = true\nbackoff_ms = 250\n"
    ).spec.restart
    assert restart == Restart(
        strategy="exponential", initial_delay=0.25, max_delay=60, max_retries=3
    )


@shows("nexo-second-13")
def test_unsupported_sections_are_accepted_with_a_warning() -> None:
    text = (
        RUNNABLE
        + '[plugin.sandbox]\nenabled = true\n[plugin.poller]\nevery = "1m"\n[plugin.ui]\na = 1\n'
    )
    (warning,) = accept(text).warnings
    assert "sandbox, poller; [overrides.tide] permissions = {}" in str(warning)


def test_an_id_that_the_first_contract_reserves_is_allowed() -> None:
    assert accept(RUNNABLE.replace('"tide"', '"telegram"')).spec.id == "telegram"


def test_an_id_with_a_hyphen_is_allowed() -> None:
    assert accept(RUNNABLE.replace('"tide"', '"high-tide"')).spec.id == "high-tide"


# The expected message, and a manifest with this mistake.
MISTAKES = {
    "plugin.id: 'Tide' is not an id: a letter, then letters, digits, _ and -": RUNNABLE.replace(
        '"tide"', '"Tide"'
    ),
    "plugin.description: must not be blank": RUNNABLE.replace('"Tells tides"', '" "'),
    "plugin.name: is missing": RUNNABLE.replace('name = "Tides"\n', ""),
    "plugin.min_nexo_version": RUNNABLE.replace(">=0.1.0", "soon"),
    "plugin.colour: unknown key": WITHOUT_COMMAND + "colour = 1\n",
    "capabilities: unknown key": "manifest_version = 2\n[capabilities]\ntools = []\n" + RUNNABLE,
    "plugin.entrypoint.env.NEXO_X: is a name that only the host sets": RUNNABLE
    + 'env = { NEXO_X = "1" }\n',
    "plugin.extends.tools: 'a' is also in hooks": RUNNABLE
    + '[plugin.extends]\nhooks = ["a"]\ntools = ["a"]\n',
    "is repeated": RUNNABLE + '[plugin.extends]\ntools = ["tide_a", "tide_a"]\n',
    "plugin.tools.deferred: 'tide_b' is not in expose": RUNNABLE
    + '[plugin.tools]\nexpose = ["tide_a"]\ndeferred = ["tide_b"]\n',
    "'tide_c' is not in expose": RUNNABLE
    + '[[plugin.tools.outbound]]\nname = "tide_c"\ninput_schema = "{}"\n',
    "'send' does not begin with tide_": RUNNABLE
    + '[plugin.tools]\nexpose = ["send"]\n[[plugin.tools.outbound]]\nname = "send"\n'
    + 'input_schema = "{}"\n',
    "plugin.tools.outbound[0].input_schema: is not JSON": RUNNABLE
    + '[plugin.tools]\nexpose = ["tide_a"]\n[[plugin.tools.outbound]]\nname = "tide_a"\n'
    + 'input_schema = "{"\n',
    'plugin.config_schema.schema: its root must have "type": "object"': RUNNABLE
    + '[plugin.config_schema]\nschema = \'{"type": "array"}\'\n',
    "plugin.config_schema.shape": RUNNABLE + '[plugin.config_schema]\nshape = "text"\n',
    "plugin.supervisor.backoff_ms: must be a whole number from 100 to 300000, not 5": RUNNABLE
    + "[plugin.supervisor]\nbackoff_ms = 5\n",
    "plugin.sandbox.network": RUNNABLE + '[plugin.sandbox]\nnetwork = "some"\n',
}


@pytest.mark.parametrize("mistake", MISTAKES, ids=range(len(MISTAKES)))
@shows("nexo-second-01", "nexo-second-03")
def test_a_mistake_is_named_with_its_key(mistake: str) -> None:
    assert any(mistake in message for message in mistakes_in(MISTAKES[mistake])), mistakes_in(
        MISTAKES[mistake]
    )


@shows("nexo-second-01")
def test_min_nexo_version_is_a_requirement_on_the_host() -> None:
    check_host_version(accept(RUNNABLE).spec)
    with pytest.raises(Refused, match="needs a host of version >=9"):
        check_host_version(accept(RUNNABLE.replace(">=0.1.0", ">=9")).spec)
