"""Which limits apply to an extension: those of the config, of its dialect or of the host.

A dialect is the protocol that an extension speaks. A limit in the config takes precedence over the
dialect's, but cannot exceed what the protocol itself allows: 10 MiB for a message in "cigen", no
maximum in "roder". `@shows` names the requirements of a dialect (its `requirements.toml`) that a
test shows.
"""

from dataclasses import replace
from typing import Any

import pytest

from exthost.config import config_from_mapping
from exthost.dialects.find import find_dialect
from exthost.errors import ConfigError
from exthost.launch.limits import resolve_limits, resolve_method_limits
from exthost.model.spec import Limits, Permissions, Spec
from tests.dialects.requirements import shows


@shows("cigen-wire-03")
@pytest.mark.parametrize(
    ("dialect", "configured", "expected"),
    [
        ("cigen", None, 10 * 2**20),
        ("cigen", 2**20, 2**20),
        ("cigen", 64 * 2**20, 10 * 2**20),
        ("roder", 64 * 2**20, 64 * 2**20),
    ],
)
def test_the_maximum_of_the_dialect_limits_max_message(
    dialect: str, configured: int | None, expected: int
) -> None:
    spec = Spec(id="a", argv=("x",), limits=Limits(max_message=configured))
    assert resolve_limits(spec, find_dialect(dialect)).max_message == expected


@shows("cigen-wire-03")
def test_a_max_message_above_the_maximum_of_the_dialect_is_a_mistake() -> None:
    entry = {"name": "a", "dialect": "cigen", "source": {"type": "process", "command": "x"}}
    document: dict[str, Any] = {"extensions": [{**entry, "limits": {"max_message": "10MiB"}}]}
    assert config_from_mapping(document).specs[0].limits.max_message == 10 * 2**20

    document = {"extensions": [{**entry, "limits": {"max_message": "64MiB"}}]}
    with pytest.raises(ConfigError) as caught:
        config_from_mapping(document)
    assert caught.value.evidence.key == "extensions[0].limits.max_message"
    assert "10,485,760" in caught.value.message and caught.value.code == "X0103"

    # A default is for extensions of every dialect, so it is lowered without an error.
    document = {"defaults": {"limits": {"max_message": "64MiB"}}, "extensions": [entry]}
    (spec,) = config_from_mapping(document).specs
    assert resolve_limits(spec, find_dialect("cigen")).max_message == 10 * 2**20


@pytest.mark.parametrize(
    ("max_execution_time", "expected"), [(None, 30.0), (5.0, 5.0), (60.0, 30.0)]
)
def test_max_execution_time_lowers_the_time_limit_of_calls(
    max_execution_time: float | None, expected: float
) -> None:
    permissions = Permissions(max_execution_time=max_execution_time)
    spec = Spec(id="a", argv=("x",), limits=Limits(call=30.0), permissions=permissions)
    limits = resolve_limits(spec, find_dialect("morphir"))
    assert limits.call == expected
    assert limits.max_in_flight != 1, "calls can still run at the same time"


def test_max_execution_time_lowers_the_limit_of_methods_unless_the_config_limits_calls() -> None:
    dialect = find_dialect("synaps")  # synaps has a time limit of its own for some methods
    limits_of_dialect = dialect.traits.method_limits
    spec = Spec(id="a", argv=("x",))
    assert limits_of_dialect and resolve_method_limits(spec, dialect) == limits_of_dialect
    limited = replace(spec, permissions=Permissions(max_execution_time=0.5))
    assert resolve_method_limits(limited, dialect) == dict.fromkeys(limits_of_dialect, 0.5)
    # `limits.call` of the config applies to all methods, so no method has a limit of its own.
    assert resolve_method_limits(replace(limited, limits=Limits(call=9.0)), dialect) == {}
