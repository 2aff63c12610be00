"""The limits in force: the config's, the dialect's, ours; and what the dialect allows at most."""

from typing import Any

import pytest

from exthost.config import config_from_mapping
from exthost.dialects.find import find_dialect
from exthost.errors import ConfigError
from exthost.launch.limits import resolve_limits
from exthost.model.spec import Limits, Spec
from tests.dialects.requirements import shows


@shows("cigen-wire-03")
@pytest.mark.parametrize(
    ("dialect", "configured", "in_force"),
    [
        ("cigen", None, 10 * 2**20),
        ("cigen", 2**20, 2**20),
        ("cigen", 64 * 2**20, 10 * 2**20),
        ("roder", 64 * 2**20, 64 * 2**20),
    ],
)
def test_a_message_is_not_longer_than_the_dialect_allows(
    dialect: str, configured: int | None, in_force: int
) -> None:
    spec = Spec(id="a", argv=("x",), limits=Limits(max_message=configured))
    assert resolve_limits(spec, find_dialect(dialect)).max_message == in_force


@shows("cigen-wire-03")
def test_an_entry_that_asks_for_longer_messages_than_its_dialect_allows_is_a_mistake() -> None:
    entry = {"name": "a", "dialect": "cigen", "source": {"type": "process", "command": "x"}}
    document: dict[str, Any] = {"extensions": [{**entry, "limits": {"max_message": "10MiB"}}]}
    assert config_from_mapping(document).specs[0].limits.max_message == 10 * 2**20
    document = {"extensions": [{**entry, "limits": {"max_message": "64MiB"}}]}
    with pytest.raises(ConfigError) as caught:
        config_from_mapping(document)
    assert caught.value.evidence.key == "extensions[0].limits.max_message"
    assert "10,485,760" in caught.value.message and caught.value.code == "X0103"
    document = {"defaults": {"limits": {"max_message": "64MiB"}}, "extensions": [entry]}
    (spec,) = config_from_mapping(document).specs
    assert resolve_limits(spec, find_dialect("cigen")).max_message == 10 * 2**20
