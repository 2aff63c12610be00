"""Tests of `FirstReplies`, which answers the first requests of a client before the host can.

A gateway takes a second to import the package `mcp`. So it stores its replies to the first requests
(`initialize`, `tools/list`) in a file, and sends them at once to the next client that sends the
same requests. When the real reply comes (`settle`), it is compared with the stored one. If it
differs, the client is notified that the list has changed.
"""

import json
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from exthost.faces.gateway.first_replies import FirstReplies, ReplyStore
from exthost.host.host import Host

INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a"}}


def line(method: str, params: Any = None, id: Any = 1) -> bytes:
    message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}}
    return json.dumps(message).encode()


def reply(result: Any, id: Any = 1) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "result": result}).encode() + b"\n"


class Client:
    """A client of a host without extensions. `needs` has an item for each time that the host, with
    the package `mcp`, was asked for."""

    def __init__(self, store: ReplyStore, *, plain_names: bool = False, answers: bool = True):
        self.needs: list[None] = []
        host = cast(Host, SimpleNamespace(tools={}, extensions=()))
        self.first = FirstReplies(store, host, plain_names, lambda: self.needs.append(None))
        self.first.may_answer = answers

    def ask(self, number: int, *request: Any) -> Any:
        """Return the result that is sent at once, or None."""
        answer = self.first.receive(number, line(*request))
        return None if answer is None else json.loads(answer)["result"]


@pytest.fixture
def store(tmp_path: Path) -> ReplyStore:
    """The stored replies that an earlier client got."""
    store = ReplyStore(str(tmp_path / "offers" / "key.replies.json"))
    client = Client(store, answers=False)
    assert client.ask(1, "initialize", INITIALIZE) is None
    assert client.ask(2, "tools/list") is None
    # A line to the client begins with its kind: `r` and the number of the request for a reply.
    assert client.first.settle(1, reply({"serverInfo": {}})) == b"r1\t" + reply({"serverInfo": {}})
    assert client.first.settle(2, reply({"tools": [1]})) == b"r2\t" + reply({"tools": [1]})
    assert client.first.is_over
    reopened = ReplyStore(str(tmp_path / "offers" / "key.replies.json"))
    reopened.read()
    return reopened


def test_the_next_client_gets_the_same_replies_once(store: ReplyStore) -> None:
    client = Client(store)
    changed = INITIALIZE | {"clientInfo": {"name": "b"}}
    assert client.ask(1, "initialize", changed) == {"serverInfo": {}}
    assert client.first.client_info == {"name": "b"}
    assert client.ask(2, "notifications/initialized") is None and not client.needs
    assert client.ask(3, "tools/list", None, "x") == {"tools": [1]} and client.needs
    assert client.first.settle(1, reply({"serverInfo": {}})) == b""
    assert not client.first.is_over
    assert client.first.settle(3, reply({"tools": [1]}, "x")) == b""
    assert client.first.is_over


def test_a_list_that_differs_is_followed_by_a_notification(store: ReplyStore) -> None:
    client = Client(store)
    client.ask(1, "initialize", INITIALIZE)
    client.ask(2, "tools/list")
    client.first.settle(1, reply({"serverInfo": {}}))
    kind, _, message = client.first.settle(2, reply({"tools": [2]})).partition(b"\t")
    assert kind == b"m" and json.loads(message)["method"] == "notifications/tools/list_changed"
    later = Client(store)
    later.ask(1, "initialize", INITIALIZE)
    assert later.ask(2, "tools/list") == {"tools": [2]}


@pytest.mark.parametrize(
    "request_",
    [
        ("initialize", INITIALIZE | {"protocolVersion": "2025-06-18"}),
        ("initialize", INITIALIZE | {"capabilities": {"roots": {}}}),
        ("initialize", [1]),
        ("tools/list",),  # without a handshake
        ("tools/call", {"name": "x"}),
        ("ping",),
    ],
)
def test_another_request_waits_for_the_package(store: ReplyStore, request_: Any) -> None:
    client = Client(store)
    assert client.ask(1, *request_) is None and client.needs
    assert client.ask(2, "initialize", INITIALIZE) is None, "a later reply must not come first"


def test_a_client_with_other_names_gets_no_stored_reply(store: ReplyStore) -> None:
    assert Client(store, plain_names=True).ask(1, "initialize", INITIALIZE) is None


def test_lines_that_are_not_requests_are_left_to_the_package(store: ReplyStore) -> None:
    client = Client(store)
    for text in (b"{", b"[]", b'{"method": 1}', b'{"id": null, "method": "tools/list"}', b"\xff"):
        assert client.first.receive(1, text) is None
    assert client.needs


def test_an_error_reply_is_not_stored(store: ReplyStore) -> None:
    client = Client(store, answers=False)
    client.ask(1, "initialize", INITIALIZE)
    error = b'{"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": ""}}\n'
    assert client.first.settle(1, error) == b"r1\t" + error
    assert Client(store).ask(1, "initialize", INITIALIZE) == {"serverInfo": {}}


def test_the_file_of_another_version_of_exthost_is_not_used(
    store: ReplyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("exthost.faces.gateway.first_replies.__version__", "9.9.9")
    assert Client(store).ask(1, "initialize", INITIALIZE) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"fingerprint": 1, "replies": {}}'])
def test_a_damaged_file_is_ignored_with_a_line_in_the_log(
    text: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "replies.json"
    path.write_text(text)
    store = ReplyStore(str(path))
    with caplog.at_level(logging.WARNING):
        store.read()
    assert store.is_empty and "is ignored" in caplog.text


def test_a_file_that_others_can_write_is_ignored(
    store: ReplyStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "offers" / "key.replies.json"
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o666)
    other = ReplyStore(str(path))
    other.read()
    assert other.is_empty and "other users can write it" in caplog.text


def test_the_file_has_a_bounded_number_of_replies(tmp_path: Path) -> None:
    store = ReplyStore(str(tmp_path / "replies.json"))
    for number in range(100):
        store.record("f", str(number), {})
    assert store.find("f", "99") == {} and store.find("f", "0") is None
    assert len(json.loads((tmp_path / "replies.json").read_bytes())["replies"]) == 32
