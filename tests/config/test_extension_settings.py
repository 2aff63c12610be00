"""The typed keys of an entry are those that the config reader accepts."""

from typing import get_type_hints

import pytest

from exthost.config import entry, extension_settings
from exthost.config.extension_settings import ExtensionSettings
from exthost.documents import settings


def test_an_entry_has_the_keys_that_the_reader_accepts() -> None:
    # `connect` takes the command and the dialect by themselves.
    accepted = set(entry._readers(None, frozenset())) - {"source", "dialect"}
    assert set(get_type_hints(ExtensionSettings)) == accepted


@pytest.mark.parametrize(
    ("name", "accepted"),
    [
        ("LimitSettings", settings._LIMITS),
        ("RestartSettings", settings._RESTART),
        ("BreakerSettings", settings._BREAKER),
        ("PoolSettings", settings._POOL),
        ("PermissionSettings", settings._PERMISSIONS),
    ],
)
def test_a_table_of_an_entry_has_the_keys_that_the_reader_accepts(
    name: str, accepted: object
) -> None:
    assert set(get_type_hints(getattr(extension_settings, name))) == set(accepted)  # type: ignore[call-overload]
