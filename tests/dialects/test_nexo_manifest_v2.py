"""The manifest of nexo's second contract: which files have it, and what is a mistake in one."""

import pytest

from exthost.dialects.manifest_format import Accepted, ManifestFile, Rejected, Remark
from exthost.dialects.nexo.manifest import FORMAT, NexoManifest
from exthost.dialects.nexo.manifest_v2 import ManifestV2
from exthost.errors import Refused
from exthost.launch.plan import check_host_version
from exthost.model.spec import Restart
from tests.dialects.requirements import shows

LEAST = """
[plugin]
id = "tide"
version = "1.0.0"
name = "Tides"
description = "Tells tides"
min_nexo_version = ">=0.1.0"
"""
RUN = LEAST + '[plugin.entrypoint]\ncommand = "./tide"\n'
FLAT = """
[plugin]
id = "tide"
version = "1.0.0"
[capabilities]
tools = ["next"]
[transport]
kind = "stdio"
command = "./tide"
"""


def read(text: str, name: str = "plugin.toml", beside: tuple[str, ...] = ()) -> object:
    file = ManifestFile(
        path=f"/p/tide/{name}",
        folder="/p/tide",
        data=text.encode(),
        has_file=lambda path: path in beside,
    )
    return FORMAT.read(file)


def accepted(text: str, name: str = "plugin.toml", beside: tuple[str, ...] = ()) -> Accepted:
    verdict = read(text, name, beside)
    assert isinstance(verdict, Accepted), verdict
    return verdict


def mistakes(text: str) -> list[str]:
    verdict = read(text)
    assert isinstance(verdict, Rejected), verdict
    return [error.message for error in verdict.errors]


@shows("nexo-second-01")
def test_the_shape_decides_which_contract_a_manifest_has() -> None:
    assert isinstance(accepted(RUN).spec.manifest, ManifestV2)
    assert isinstance(accepted("manifest_version = 2\n" + RUN).spec.manifest, ManifestV2)
    assert isinstance(accepted(LEAST).spec.manifest, ManifestV2)  # by min_nexo_version
    assert isinstance(accepted(FLAT).spec.manifest, NexoManifest)
    assert isinstance(accepted("manifest_version = 1\n" + FLAT).spec.manifest, NexoManifest)
    assert "manifest_version: must be 1 or 2" in mistakes("manifest_version = 3\n" + FLAT)[0]


@shows("nexo-second-01")
def test_plugin_toml_comes_before_nexo_plugin_toml() -> None:
    assert accepted(RUN, "nexo-plugin.toml").spec.id == "tide"
    assert read(RUN, "nexo-plugin.toml", beside=("plugin.toml",)) is None
    both = accepted(RUN, "plugin.toml", beside=("nexo-plugin.toml",))
    (warning,) = both.warnings
    assert isinstance(warning, Remark) and warning.file == "nexo-plugin.toml"
    assert warning.text == "it is ignored, because plugin.toml is beside it"


@shows("nexo-second-03")
def test_without_a_command_it_is_listed_but_not_started() -> None:
    for text in (LEAST, LEAST + '[plugin.entrypoint]\ncommand = " "\n'):
        spec = accepted(text).spec
        assert spec.argv == () and "no command" in spec.unrunnable
    assert accepted(RUN).spec.argv == ("./tide",)


@shows("nexo-second-14")
def test_restarts_are_off_unless_the_manifest_asks_for_them() -> None:
    assert accepted(RUN + "[plugin.supervisor]\nmax_attempts = 9\n").spec.restart == Restart()
    restart = accepted(RUN + "[plugin.supervisor]\nrespawn = true\nbackoff_ms = 250\n").spec.restart
    assert restart == Restart(
        strategy="exponential", initial_delay=0.25, max_delay=60, max_retries=3
    )


@shows("nexo-second-13")
def test_parts_that_are_not_offered_are_accepted_with_a_warning() -> None:
    text = (
        RUN
        + '[plugin.sandbox]\nenabled = true\n[plugin.poller]\nevery = "1m"\n[plugin.ui]\na = 1\n'
    )
    (warning,) = accepted(text).warnings
    assert "sandbox, poller; [overrides.tide] permissions = {}" in str(warning)


def test_an_id_that_the_first_contract_reserves_is_allowed() -> None:
    assert accepted(RUN.replace('"tide"', '"telegram"')).spec.id == "telegram"


MISTAKES = {
    "plugin.id: 'Tide' is not an id": RUN.replace('"tide"', '"Tide"'),
    "plugin.description: must not be blank": RUN.replace('"Tells tides"', '" "'),
    "plugin.name: is missing": RUN.replace('name = "Tides"\n', ""),
    "plugin.min_nexo_version": RUN.replace(">=0.1.0", "soon"),
    "plugin.colour: unknown key": LEAST + "colour = 1\n",
    "capabilities: unknown key": "manifest_version = 2\n[capabilities]\ntools = []\n" + RUN,
    "plugin.entrypoint.env.NEXO_X: is a name that only the host sets": RUN
    + 'env = { NEXO_X = "1" }\n',
    "plugin.extends.tools: 'a' is also in hooks": RUN
    + '[plugin.extends]\nhooks = ["a"]\ntools = ["a"]\n',
    "is repeated": RUN + '[plugin.extends]\ntools = ["tide_a", "tide_a"]\n',
    "plugin.tools.deferred: 'tide_b' is not in expose": RUN
    + '[plugin.tools]\nexpose = ["tide_a"]\ndeferred = ["tide_b"]\n',
    "'tide_c' is not in expose": RUN
    + '[[plugin.tools.outbound]]\nname = "tide_c"\ninput_schema = "{}"\n',
    "'send' does not begin with tide_": RUN
    + '[plugin.tools]\nexpose = ["send"]\n[[plugin.tools.outbound]]\nname = "send"\n'
    + 'input_schema = "{}"\n',
    "plugin.tools.outbound[0].input_schema: is not JSON": RUN
    + '[plugin.tools]\nexpose = ["tide_a"]\n[[plugin.tools.outbound]]\nname = "tide_a"\n'
    + 'input_schema = "{"\n',
    'plugin.config_schema.schema: its root must have "type": "object"': RUN
    + '[plugin.config_schema]\nschema = \'{"type": "array"}\'\n',
    "plugin.config_schema.shape": RUN + '[plugin.config_schema]\nshape = "text"\n',
    "plugin.supervisor.backoff_ms: must be a whole number from 100 to 300000, and is 5": RUN
    + "[plugin.supervisor]\nbackoff_ms = 5\n",
    "plugin.sandbox.network": RUN + '[plugin.sandbox]\nnetwork = "some"\n',
}


@pytest.mark.parametrize("text", MISTAKES, ids=range(len(MISTAKES)))
@shows("nexo-second-01", "nexo-second-03")
def test_a_mistake_is_named_with_its_key(text: str) -> None:
    assert any(text in message for message in mistakes(MISTAKES[text])), mistakes(MISTAKES[text])


@shows("nexo-second-01")
def test_min_nexo_version_is_a_requirement_on_the_host() -> None:
    check_host_version(accepted(RUN).spec)
    with pytest.raises(Refused, match="needs a host of version >=9"):
        check_host_version(accepted(RUN.replace(">=0.1.0", ">=9")).spec)
