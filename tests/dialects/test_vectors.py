"""Checks every vector of every dialect, with and without a process.

A dialect is a protocol of extensions. A vector is a table in a TOML file: an input, such as bytes
or a conversation, and what must follow. The kinds of tables are "read" (bytes and the message that
they mean), "handshake", "refusal" (a handshake that fails), "operation" (the messages of a call),
"meaning" (of a notification) and "value" (of a function). The last part tests the checks.

Without a process, a vector is played against the functions of the dialect. With a process, a script
takes the part of the extension, and a host talks to it. Some vectors are about an extension that is
silent until a time limit. For these, `installed_clock` replaces the clock of the host, and is moved
past the limit, so that nothing has to wait. These tests are `sampled`: `make test` checks a part of
the vectors with a process, another part with each commit.
"""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exthost.authoring.testing.vector_notation import MessagePattern, parse_pattern, split_messages
from exthost.authoring.testing.vectors import (
    Vector,
    check_vector,
    check_with_process,
    load_vectors,
    package_vectors,
    run_vectors,
)
from exthost.authoring.testing.vectors.read_vector import ReadVector
from exthost.dialects import find
from exthost.dialects.codec import Role
from exthost.errors import ProtocolViolation, UsageError
from exthost.model.messages import Failure, Noise, Notification, Reply, Request
from tests.dialects import all_vectors
from tests.dialects.all_vectors import vectors
from tests.extensions.clock import installed_clock


def parametrize_vectors(*tables: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("vector", vectors(*tables), ids=str)


@pytest.fixture(autouse=True)
def wait_long_for_discovery(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wait long for the reply to MCP's first request, so that a slow machine does not change the
    result: after this time the host takes the server for one of an older version. A vector with
    `limits` keeps the short time: it is about such a limit, and has its own clock."""
    if "vector" in request.fixturenames and not request.getfixturevalue("vector").fields.get(
        "limits"
    ):
        monkeypatch.setattr("exthost.dialects.mcp.handshake.DISCOVERY_SECONDS", 100.0)


@parametrize_vectors("read")
def test_bytes_are_decoded_and_encoded_as_the_vector_says(
    vector: Vector,
) -> None:
    check_vector(vector)


@parametrize_vectors("handshake")
def test_a_handshake_has_the_offer_of_its_vector(vector: Vector) -> None:
    check_vector(vector)


@pytest.mark.sampled
@parametrize_vectors("handshake")
async def test_a_handshake_with_a_real_process_has_the_offer_of_its_vector(
    vector: Vector, tmp_path: Path
) -> None:
    await check_with_process(vector, tmp_path, installed_clock)


@parametrize_vectors("refusal")
def test_a_refusal_is_reported(vector: Vector) -> None:
    check_vector(vector)


@pytest.mark.sampled
@parametrize_vectors("refusal")
async def test_a_refusal_with_a_real_process_is_reported(vector: Vector, tmp_path: Path) -> None:
    await check_with_process(vector, tmp_path, installed_clock)


@parametrize_vectors("operation")
def test_an_operation_sends_the_messages_of_its_vector(vector: Vector) -> None:
    check_vector(vector)


@pytest.mark.sampled
@parametrize_vectors("operation")
async def test_an_operation_with_a_real_process(vector: Vector, tmp_path: Path) -> None:
    await check_with_process(vector, tmp_path, installed_clock)


@parametrize_vectors("meaning")
def test_a_notification_has_the_meaning_of_its_vector(vector: Vector) -> None:
    check_vector(vector)


@parametrize_vectors("value")
def test_a_function_returns_the_value_of_its_vector(vector: Vector) -> None:
    check_vector(vector)


_READ = vectors("read")
_ONE_OF_EACH_DIALECT = sorted({vector.module: vector for vector in _READ}.values(), key=str)
_FRAMES = [ReadVector(vector).data for vector in _READ]


@pytest.mark.parametrize("vector", _ONE_OF_EACH_DIALECT, ids=lambda vector: vector.file)
@pytest.mark.parametrize("role", Role)
@given(data=st.data())
def test_a_codec_raises_only_protocol_violations_for_any_bytes(
    vector: Vector, role: Role, data: st.DataObject
) -> None:
    frame = data.draw(st.sampled_from(_FRAMES) | st.binary(max_size=60))
    position = data.draw(st.integers(0, len(frame)))
    # Replace up to four bytes somewhere in the frame by up to three others.
    frame = (
        frame[:position]
        + data.draw(st.binary(max_size=3))
        + frame[position + data.draw(st.integers(0, 4)) :]
    )
    codec = vector.dialect.codec(role)
    try:
        messages = split_messages(codec.decode(frame))
    except ProtocolViolation as violation:
        assert violation.message
    else:
        message_types = (Request, Reply, Failure, Notification, Noise)
        assert all(type(message) in message_types for message in messages)
    assert isinstance(codec.reply_id_in_prefix(frame), int | str | None)


# -- the vectors themselves ------------------------------------------------------------------


@pytest.mark.parametrize("file", sorted({vector.file for vector in vectors("read")}))
def test_each_role_has_a_canonical_vector_of_all_its_messages(file: str) -> None:
    """The bytes of a canonical vector are checked in both directions: they are decoded, and the
    message is encoded again."""
    for role in Role:
        message_types: set[str] = set()
        canonical_types: set[str] = set()
        for vector in vectors("read"):
            reading = ReadVector(vector)
            if vector.file != file or reading.role is not role:
                continue
            types = {
                pattern.type_name
                for pattern in reading.expected
                if isinstance(pattern, MessagePattern)
            }
            message_types |= types
            if vector.fields.get("canonical"):
                canonical_types |= types
        assert message_types == canonical_types and message_types, role


def test_names_are_unique_in_their_file() -> None:
    names = [str(vector) for vector in all_vectors.load()]
    assert len(names) == len(set(names))


def test_the_notation_distinguishes_types_and_values() -> None:
    pattern = parse_pattern('Reply {"id": 1}')
    assert isinstance(pattern, MessagePattern)
    reply = pattern.build()
    assert pattern.matches(reply)
    for other in ('Reply {"id": true}', 'Reply {"id": 1.0}', 'Failure {"id": 1}', 'Noise ""'):
        assert not parse_pattern(other).matches(reply)
    for nonsense in ('Reply {"no": 1}', "Answer {}", 'Noise {"a": 1}', 'Reply "x"'):
        with pytest.raises(ValueError, match=r"not a message|no field"):
            parse_pattern(nonsense)


FAILING_OPERATION = """[[operation]]
operation = "call_tool"
params = '{"name": "a", "arguments": {}}'
script = ['> Request {"method": "a"}', '< Failure {"message": "not today"}']
"""

# Each is a vector with a mistake, and a part of the message of the failed check.
WRONG_VECTORS = [
    # {} is not a reply, because it has no id. The check of the bytes "whole" (in one read) fails.
    ('[[read]]\npayload = "{}"\nmeans = "Reply {}"', "whole"),
    # It is noise, but noise cannot be encoded again, as `canonical` demands.
    ("[[read]]\npayload = '{}'\nmeans = 'Noise \"method\"'\ncanonical = true", "canonical"),
    # The handshake of morphir sends a request, and the script is empty.
    ('[[handshake]]\nscript = []\noffer = "{}"', "it sends more than the script has"),
    ('[[refusal]]\nscript = []\nerror = "x"\ncode = "x"\nsays = "x"', "it sends more"),
    # The notification has no text, so it does not mean a log line.
    ('[[meaning]]\nnotification = \'Notification {"method": "log"}\'\nmeans = "Log"', "Log"),
    # The error has another text.
    (
        f'{FAILING_OPERATION}error = "CallFailed"\ncode = "X0701"\nsays = "not tomorrow"',
        "not today",
    ),
    # The error is of another kind, CallFailed.
    (
        f'{FAILING_OPERATION}error = "ProtocolViolation"\ncode = "X0701"\nsays = "today"',
        "not today",
    ),
    # The operation fails, and should have a result.
    (f'{FAILING_OPERATION}result = "null"', "it failed: .*not today"),
]


@pytest.mark.parametrize(("text", "message"), WRONG_VECTORS)
def test_a_vector_that_does_not_match_fails(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "wrong.toml"
    # Each vector needs a name.
    text = text.replace("]]\n", ']]\nname = "wrong"\n')
    file.write_text(f'module = "exthost.dialects.morphir.dialect"\n{text}')
    (vector,) = load_vectors(file)
    with pytest.raises(AssertionError, match=message):
        check_vector(vector)


@pytest.mark.parametrize("package", ["morphir", None, find])
def test_vectors_of_something_else_than_a_package_are_a_usage_error(package: Any) -> None:
    with pytest.raises(UsageError, match="DialectPackage") as caught:
        run_vectors(package)
    assert caught.value.code == "X1338"


def test_the_path_of_vectors_may_be_a_text(tmp_path: Path) -> None:
    (tmp_path / "documents.toml").write_text(DOCUMENTS)
    path = tmp_path / "documents.toml"
    assert load_vectors(str(path)) == load_vectors(path)


def test_an_unknown_table_is_a_mistake(tmp_path: Path) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text('module = "exthost.dialects.morphir.dialect"\n[[reed]]\n')
    with pytest.raises(ValueError, match="reed"):
        load_vectors(file)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("read = 5", r"write \[\[read\]\]"),
        ("read = [5]", r"write \[\[read\]\]"),
        ('[read]\nname = "a"', r"write \[\[read\]\]"),
        ("[[read]]", "has the name None"),
        ("[[read]]\nname = 5", "has the name 5"),
        ('[[read]]\nname = " "', "has the name ' '"),
        ('[[read]]\nname = "a\\nb\\u001b"', r"has the name 'a\\nb"),
    ],
)
def test_each_vector_needs_a_name_of_one_line(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text(f'module = "exthost.dialects.morphir.dialect"\n{text}\n')
    with pytest.raises(ValueError, match=message):
        load_vectors(file)


def test_the_report_of_a_vector_that_fails_is_cut(tmp_path: Path) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text(
        'module = "exthost.dialects.morphir.dialect"\n'
        '[[read]]\nname = "long"\nmeans = \'Reply {"id": 1}\'\n'
        f'payload = \'{{"id": 0, "result": "{"x" * 100_000}"}}\'\n'
    )
    (vector,) = load_vectors(file)
    with pytest.raises(AssertionError) as caught:
        check_vector(vector)
    assert "x…" in str(caught.value) and len(str(caught.value)) < 5000


async def test_a_vector_with_a_notification_is_checked(tmp_path: Path) -> None:
    """This is how a third party checks vectors: with a file and two functions."""
    (tmp_path / "documents.toml").write_text(DOCUMENTS)
    for vector in load_vectors(tmp_path / "documents.toml"):
        check_vector(vector)
        await check_with_process(vector, tmp_path)


DOCUMENTS = """
module = "tests.toys.documents"

[[handshake]]
name = "hello"
script = [
    '> Request {"method": "initialize", "params": {"serves": []}}',
    '< Reply {"result": {"name": "d", "tools": []}}',
    '> Notification {"method": "initialized"}',
]
offer = '{"name": "d"}'

[[operation]]
name = "the problems of a document are reported by a notification"
method = "check"
params = '{"name": "a", "text": "x"}'
script = [
    '> Notification {"method": "open"}',
    # A notification about another document is not the result.
    '< Notification {"method": "problems", "params": {"name": "b", "problems": 1}}',
    '< Notification {"method": "problems", "params": {"name": "a", "problems": 2}}',
]
result = "2"
"""


def test_a_file_of_vectors_without_its_module_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "lost.toml"
    file.write_text('[[read]]\nname = "x"\n')
    with pytest.raises(ValueError, match=r"lost\.toml does not begin with module"):
        load_vectors(file)


@pytest.mark.parametrize("name", find.BUILT_IN)
def test_every_built_in_dialect_has_vectors(name: str) -> None:
    # Without vectors, the parametrized tests of this module would pass.
    assert package_vectors(find.find_package(name))
