"""The audit of messages by `exthost check`: which rules an invalid message breaks.

A frame is the bytes of one message. A Conformance says how messages of a dialect (the protocol of
an extension) are checked; the default is JSON-RPC. The rules are described in `rules.toml`.
"""

import pytest

from exthost.dialects.conformance import Conformance
from exthost.dialects.find import find_conformance
from exthost.dialects.message_audit import MessageAudit
from exthost.model.messages import Noise
from exthost.wire.framing import Broken, Skipped


def broken_rules(*frames: bytes, conformance: Conformance | None = None) -> list[str]:
    """Return the rules that these frames break, after a request "ping" with the id 7."""
    audit = MessageAudit(conformance or Conformance())
    audit.add_request(7, "ping")
    # What the dialect made of the frame. Here it is always "not a message", because these rules are
    # about the bytes.
    incoming = Noise(b"", "")
    return [item.rule for frame in frames for item in audit.check_frame(frame, incoming)]


@pytest.mark.parametrize(
    ("frame", "rules"),
    [
        (b'{"jsonrpc":"2.0","id":7,"result":null}', []),
        (b'{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"no"}}', []),
        (b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"?"}}', []),
        # A list of messages is a batch; the host sends none, so none can answer it.
        (b'[{"jsonrpc":"2.0","id":7,"result":1}]', ["json"]),
        (b"Content-Length: 20", ["frame"]),
        (b'{"jsonrpc":"2.0","id":7,"result":1}Content-Length: 20\r', ["frame"]),
        (b"hello", ["stdout-noise"]),
        (b'{"level":"info","msg":"starting"}', ["stdout-noise"]),
        (b"{'jsonrpc': '2.0', 'id': 7, 'result': None}", ["json"]),
        (b'{"jsonrpc":"2.0","id":7,"result":1,}', ["json"]),
        (b'{"jsonrpc":"2.0",', ["one-line"]),
        (b'{"a":"\xe9"}', ["utf8"]),
        (b'{"jsonrpc":"2.0","id":7,"result":-Infinity}', ["number"]),
        (b'"text"', ["json"]),
        (b"[" * 100_000, ["json"]),
        ('{"id":7}'.encode("utf-16-le"), ["utf8"]),
        (b"\0" + '{"id":7}'.encode("utf-16-le"), ["utf8"]),
        ('{"id":7}'.encode("utf-16-be"), ["utf8"]),
        ('{"id":7}'.encode("utf-16"), ["utf8"]),
        # The frame of a protocol with a length before each message.
        (b"\0\0\0\x09abcdefghi", ["stdout-noise"]),
        (b'\xef\xbb\xbf{"jsonrpc":"2.0","id":7,"result":1}', ["json"]),
        (b'{"id":7,"result":1}', ["version-member"]),
        (b'{"jsonrpc":"1.0","id":7,"result":1}', ["version-member"]),
        (b'{"jsonrpc":"2.0","id":8,"result":1}', ["reply-id"]),
        (b'{"jsonrpc":"2.0","id":"7","result":1}', ["reply-id-type"]),
        (b'{"jsonrpc":"2.0","id":7.0,"result":1}', ["reply-id-type"]),
        (b'{"jsonrpc":"2.0","id":[7],"result":1}', ["reply-id"]),
        (b'{"jsonrpc":"2.0","id":7}', ["reply-form"]),
        (b'{"jsonrpc":"2.0","id":7,"result":1,"error":{}}', ["reply-form"]),
        (b'{"jsonrpc":"2.0","id":7,"error":null}', ["reply-form"]),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","result":1}', ["message-form"]),
        (b'{"jsonrpc":"2.0","id":[7],"method":"ping"}', ["message-form"]),
        (b'{"jsonrpc":"2.0","id":7,"error":"no"}', ["error-form"]),
        (b'{"jsonrpc":"2.0","id":7,"error":{"code":true,"message":"no"}}', ["error-form"]),
    ],
)
def test_each_frame_breaks_these_rules(frame: bytes, rules: list[str]) -> None:
    assert broken_rules(frame) == rules


@pytest.mark.parametrize(
    ("dialect", "frame", "fix"),
    [
        ("mcp", b'{"jsonrpc":"2.0","id":7,"error":null}', "and `error` after a failure"),
        ("mcp", b'{"jsonrpc":"2.0","id":7,"result":1,"error":null}', "omit `error`"),
        ("morphir", b'{"id":7,"method":"ping","result":1}', "omit `method` and `params`"),
        ("morphir", b'{"id":7,"method":"log","params":{}}', "omit `id`"),
        ("morphir", b'{"ok":true}', 'a response is {"id": …, "result": …}'),
        ("mcp", b'{"ok":true}', 'a response is {"jsonrpc": "2.0", "id": …, "result": …}'),
        ("morphir", b'"{\\"id\\":7,\\"result\\":1}"', "encode each message once"),
    ],
)
def test_the_fix_names_the_mistake(dialect: str, frame: bytes, fix: str) -> None:
    audit = MessageAudit(find_conformance(dialect))
    audit.add_request(7, "ping")
    [problem] = audit.check_frame(frame, Noise(b"", "?"))
    assert fix in problem.fix


def test_each_line_of_a_message_over_several_lines_breaks_the_rule_one_line() -> None:
    lines = [b"{", b'  "id": 7,', b'  "result": {', b'    "a": 1', b"  }", b"}"]
    assert broken_rules(*lines, *lines) == ["one-line"] * 12


PARSE_ERROR = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"?"}}'
NO_ID = b'{"jsonrpc":"2.0","id":null,"result":{}}'
PONG = b'{"jsonrpc":"2.0","id":7,"result":{}}'


@pytest.mark.parametrize(
    ("frames", "rules"),
    [
        ([PARSE_ERROR, PONG], ["notification-reply"]),
        ([PONG, PARSE_ERROR], ["notification-reply"]),
        ([PARSE_ERROR], []),  # it may answer the request, which has no other response
        ([PONG, NO_ID], ["notification-reply"]),
        ([NO_ID, PONG], ["reply-id"]),  # no response had an id so far
    ],
)
def test_a_response_without_an_id_that_answers_no_request_answers_a_notification(
    frames: list[bytes], rules: list[str]
) -> None:
    assert broken_rules(*frames) == rules


def test_a_result_without_an_id_in_place_of_a_response_is_reported_at_the_end() -> None:
    audit = MessageAudit(Conformance())
    audit.add_request(7, "ping")
    assert audit.check_frame(PONG, Noise(b"", "")) == []
    audit.add_request(8, "ping")
    assert audit.check_frame(NO_ID, Noise(b"", "")) == []
    assert [problem.rule for problem in audit.finish()] == ["reply-id"]
    assert audit.finish() == []


@pytest.mark.parametrize(("dialect", "rules"), [("mcp", ["error-form"]), ("nexo", [])])
def test_a_null_error_in_a_reply_with_a_result_is_refused_by_clients_of_mcp(
    dialect: str, rules: list[str]
) -> None:
    frame = b'{"jsonrpc":"2.0","id":7,"result":{},"error":null}'
    assert broken_rules(frame, conformance=find_conformance(dialect)) == rules


def test_the_time_to_check_a_batch_is_linear() -> None:
    # Work that grows with the square of the number of messages would take minutes.
    batch = b"[" + b'{"level":"info","text":"starting"},' * 50_000 + b"1]"
    assert set(broken_rules(batch)) == {"stdout-noise", "json"}


def test_a_second_reply_to_a_request_is_reported() -> None:
    frame = b'{"id":7,"result":1}'
    assert broken_rules(frame, frame, conformance=Conformance(has_version=False)) == ["reply-once"]


def test_bytes_that_are_not_a_frame_break_a_rule_of_their_kind() -> None:
    audit = MessageAudit(Conformance())
    assert audit.check_item(Skipped("not a frame", b"hello", 5)).rule == "stdout-noise"
    assert audit.check_item(Skipped("too long", b"x", 10)).rule == "message-size"
    assert audit.check_item(Broken("Content-Length 9 is over the limit of 4", b"")).rule == (
        "message-size"
    )
    assert audit.check_item(Broken("the headers have no Content-Length", b"")).rule == "frame"
