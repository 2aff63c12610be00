"""The registry of tools during lookups in other threads, changes and interrupts.

The registry of a host finds a tool by its name. It builds a table of all tools at the first lookup
after a change (`mark_stale`). The table must be complete and current, also if another thread looks
up a tool, an extension changes, or Ctrl-C arrives while it is built.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType

import pytest

from exthost.errors import NotFound
from exthost.host.registry import MAX_LOGGED_WARNINGS, Registry, log_once
from exthost.model.lock_record import Quarantine
from exthost.model.names import registered_name
from exthost.model.offer import NO_OFFER, Offer, Tool

WAIT_SECONDS = 30


class FakeExtension:
    """An extension with one tool. `on_read` is called when the registry reads its tools."""

    serves = True
    offer: Offer = NO_OFFER
    quarantined: Mapping[str, Quarantine] = MappingProxyType({})

    def __init__(self, id: str, on_read: Callable[[], None] = lambda: None) -> None:
        self.id = id
        self.on_read = on_read
        self.internals = self

    @property
    def tools(self) -> Mapping[str, Tool]:
        self.on_read()
        return {"echo": Tool("echo")}

    def registered_name(self, tool: str) -> str:
        return registered_name(self.id, tool)


def test_a_lookup_finds_the_tool_while_another_thread_builds_the_table() -> None:
    is_building, may_continue = threading.Event(), threading.Event()

    def wait_in_the_first_thread() -> None:
        if not is_building.is_set():
            is_building.set()
            assert may_continue.wait(WAIT_SECONDS)

    registry = Registry()
    registry.set_extensions([FakeExtension("a", wait_in_the_first_thread)])
    with ThreadPoolExecutor(1) as pool:
        other_lookup = pool.submit(registry.find, "echo")
        assert is_building.wait(WAIT_SECONDS)
        try:
            assert registry.get("ext_a_echo") is not None
            assert registry.find("echo").extension == "a"
        finally:
            may_continue.set()
        assert other_lookup.result(WAIT_SECONDS).extension == "a"


def test_the_lookup_after_an_interrupted_one_finds_the_tools() -> None:
    interrupts = [KeyboardInterrupt()]

    def interrupt_once() -> None:
        if interrupts:
            raise interrupts.pop()

    registry = Registry()
    registry.set_extensions([FakeExtension("a"), FakeExtension("b", interrupt_once)])
    with pytest.raises(KeyboardInterrupt):
        registry.find("ext_a_echo")
    assert registry.fresh_owners == {}
    assert list(registry.tools) == ["ext_a_echo", "ext_b_echo"]
    assert registry.fresh_owners == {"ext_a_echo": ("a", "echo"), "ext_b_echo": ("b", "echo")}


def test_a_table_built_during_a_change_is_not_used_afterwards() -> None:
    owners = [FakeExtension("a")]

    def change_during_the_build() -> None:
        owners[:] = [FakeExtension("b")]
        registry.mark_stale()

    owners[0].on_read = change_during_the_build
    registry = Registry()
    registry.set_extensions(owners)
    assert registry.find("echo").extension == "a", "the state at the beginning of the lookup"
    assert registry.fresh_owners == {}
    assert registry.find("echo").extension == "b"
    with pytest.raises(NotFound):
        registry.find("ext_a_echo")


@pytest.mark.parametrize(
    ("name", "help"),
    [
        ("weather", "weather is an extension: name one of its tools, as in weather:TOOL"),
        ("ecko", "did you mean 'echo'?"),
        ("weather:ecko", "did you mean 'weather:echo'?"),
        ("whether:echo", "did you mean 'weather:echo'?"),
        ("something", "see the list of tools"),
    ],
)
def test_the_error_for_an_unknown_tool_has_a_next_step(name: str, help: str) -> None:
    registry = Registry()
    registry.set_extensions([FakeExtension("weather")])
    with pytest.raises(NotFound) as caught:
        registry.find(name)
    assert caught.value.code == "X1201" and caught.value.help.startswith(help)  # no such tool


def test_a_limited_number_of_different_warnings_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    logger, logged_warnings = logging.getLogger("test"), set[str]()
    for number in range(3 * MAX_LOGGED_WARNINGS):
        log_once(logger, logged_warnings, f"warning {number}")
        log_once(logger, logged_warnings, "warning 0")
    assert len(caplog.messages) == len(logged_warnings) == MAX_LOGGED_WARNINGS + 1
    assert "too many" in caplog.messages[-1]
