"""The typed keys of an entry are those that the config reader accepts."""

from typing import get_type_hints

import pytest

from exthost.config import entry, extension_settings
from exthost.config.extension_settings import ExtensionSettings
from exthost.model.documents import setting_keys


def test_an_entry_has_the_keys_that_the_reader_accepts() -> None:
    # `connect` takes the command and the dialect by themselves.
    accepted = set(entry._readers(None, frozenset())) - {"source", "dialect"}
    assert set(get_type_hints(ExtensionSettings)) == accepted


@pytest.mark.parametrize(
    ("name", "accepted"),
    [
        ("LimitSettings", setting_keys.LIMITS),
        ("RestartSettings", setting_keys.RESTART),
        ("BreakerSettings", setting_keys.BREAKER),
        ("PoolSettings", setting_keys.POOL),
        ("PermissionSettings", setting_keys.PERMISSIONS),
    ],
)
def test_a_table_of_an_entry_has_the_keys_that_the_reader_accepts(
    name: str, accepted: object
) -> None:
    assert set(get_type_hints(getattr(extension_settings, name))) == set(accepted)  # type: ignore[call-overload]
