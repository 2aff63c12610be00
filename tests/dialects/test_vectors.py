"""Every vector of every dialect, played in every way."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exthost.errors import CallFailed, ExthostError, HandshakeFailed, ProtocolViolation
from exthost.messages import Failure, Message, Noise, Notification, Reply, Request
from exthost.model import Role
from exthost.wire.framing import Skipped
from tests.dialects import runner
from tests.dialects.notation import Stated, messages_in, parse
from tests.dialects.runner import Reading, Vector, vectors
from tests.extensions.driving import failing


def each(*tables: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("vector", vectors(*tables), ids=str)


def _assert_read(reading: Reading, chunks: list[bytes], way: str, times: int = 1) -> None:
    heard, _ = reading.read(chunks, times)
    assert runner.fit(reading.means * times, heard), f"{way}: {heard}"


@each("read")
def test_the_bytes_mean_the_same_however_they_come(vector: Vector) -> None:
    reading, data = Reading(vector), Reading(vector).bytes
    _assert_read(reading, [data], "whole")
    _assert_read(reading, [data[at : at + 1] for at in range(len(data))], "byte by byte")
    for at in range(len(data) + 1):
        _assert_read(reading, [data[:at], data[at:]], f"cut at {at}")
    if not vector.row.get("alone") and "end" not in vector.row:
        _assert_read(reading, [data + data], "two in one read", times=2)


@each("read")
def test_the_end_after_the_bytes_is_what_the_vector_says(vector: Vector) -> None:
    reading = Reading(vector)
    for chunks in ([reading.bytes], [reading.bytes[:7], reading.bytes[7:]]):
        _, end = reading.read(chunks)
        told = "" if end is None else end.why
        expected = vector.row.get("end", "")
        assert expected in told and bool(expected) == bool(told)


@pytest.mark.parametrize(
    "vector", [vector for vector in vectors("read") if vector.row.get("canonical")], ids=str
)
def test_the_other_role_writes_the_very_bytes(vector: Vector) -> None:
    reading = Reading(vector)
    assert reading.write() == reading.bytes
    assert reading.write_request() in (None, reading.bytes)


@pytest.mark.parametrize(
    "vector", [vector for vector in vectors("read") if "answers" in vector.row], ids=str
)
def test_an_over_long_frame_tells_which_call_it_would_have_answered(vector: Vector) -> None:
    reading = Reading(vector)
    for chunks in ([reading.bytes], [bytes([byte]) for byte in reading.bytes]):
        skipped = [item for item in reading.read(chunks)[0] if isinstance(item, Skipped)]
        assert [reading.answers(item) for item in skipped] == [_nothing(vector.row["answers"])]


def _nothing(answers: Any) -> Any:
    """TOML has no null."""
    return None if answers == "nothing" else answers


@each("handshake")
def test_a_handshake_leads_to_its_offer(vector: Vector) -> None:
    runner.assert_offer(vector, runner.handshake_without_process(vector))


@each("handshake")
async def test_a_handshake_with_a_real_process_leads_to_its_offer(
    vector: Vector, tmp_path: Path
) -> None:
    async with runner.Scripted(vector, vector.row["script"], tmp_path) as extension:
        await extension.start()
        runner.assert_offer(vector, extension.offer)


@pytest.mark.parametrize(
    "vector",
    [vector for vector in vectors("refusal") if not any(s[0] == "!" for s in vector.row["script"])],
    ids=str,
)
def test_a_refusal_is_told(vector: Vector) -> None:
    with pytest.raises(ExthostError) as refused:
        runner.handshake_without_process(vector)
    error = refused.value
    if isinstance(error, CallFailed):  # what the session makes of it when it ends a handshake
        error = HandshakeFailed("X0502", error.message)
    runner.assert_error(vector, error)


@each("refusal")
async def test_a_refusal_with_a_real_process_is_told(vector: Vector, tmp_path: Path) -> None:
    async with runner.Scripted(vector, vector.row["script"], tmp_path) as extension:
        error = await failing(extension.start())
        runner.assert_error(vector, error)
        assert extension.tools == {tool.name: tool for tool in extension.spec.tools}
        assert extension.stats.pid is None


@each("operation")
def test_an_operation_says_what_the_script_has(vector: Vector) -> None:
    if "error" in vector.row:
        with pytest.raises(ExthostError) as refused:
            runner.operation_without_process(vector)
        assert refused.value.code == vector.row["code"]
    else:
        assert runner.operation_without_process(vector) == vector.json("result")


@each("operation")
async def test_an_operation_with_a_real_process(vector: Vector, tmp_path: Path) -> None:
    assert vector.first_handshake is not None
    script = [*vector.first_handshake["script"], *vector.row["script"]]
    context = {key: vector.first_handshake[key] for key in _KEPT & vector.first_handshake.keys()}
    row = context | vector.row
    joined = Vector(vector.file, vector.module, vector.table, row, manifest=vector.manifest)
    async with runner.Scripted(joined, script, tmp_path) as extension:
        await extension.start()
        if "error" in vector.row:
            runner.assert_error(vector, await failing(runner.operate(extension, vector)))
        else:
            assert await runner.operate(extension, vector) == vector.json("result")


_KEPT = {"config", "options", "handlers"}


@each("meaning")
def test_a_notice_means_to_the_host_what_the_vector_says(vector: Vector) -> None:
    assert runner.meaning(vector) == vector.row["means"]


@each("value")
def test_a_pure_function_has_the_value_that_the_vector_says(vector: Vector) -> None:
    assert runner.value(vector) == vector.row["result"]


_READ = vectors("read")
_DIALECTS = sorted({vector.module: vector for vector in _READ}.values(), key=str)
_FRAMES = [Reading(vector).bytes for vector in _READ]


@pytest.mark.parametrize("vector", _DIALECTS, ids=lambda vector: vector.file)
@pytest.mark.parametrize("role", Role)
@given(data=st.data())
def test_whatever_is_in_a_frame_only_our_own_error_leaves_the_codec(
    vector: Vector, role: Role, data: st.DataObject
) -> None:
    frame = data.draw(st.sampled_from(_FRAMES) | st.binary(max_size=60))
    at = data.draw(st.integers(0, len(frame)))
    frame = (
        frame[:at] + data.draw(st.binary(max_size=3)) + frame[at + data.draw(st.integers(0, 4)) :]
    )
    codec = vector.dialect.codec(role)
    try:
        said = messages_in(codec.decode(frame))
    except ProtocolViolation as violation:
        assert violation.message
    else:
        kinds = (Request, Reply, Failure, Notification, Noise)
        assert all(type(one) in kinds for one in said)
    assert isinstance(codec.reply_id_in_prefix(frame), int | str | None)


# -- the vectors themselves ------------------------------------------------------------------


@pytest.mark.parametrize("file", sorted({vector.file for vector in vectors("read")}))
def test_each_role_has_a_canonical_vector_of_all_it_can_say(file: str) -> None:
    """Else "in both roles" would be an empty word."""
    ours = [vector for vector in vectors("read") if vector.file == file]
    for role in Role:
        readings = [(vector, Reading(vector)) for vector in ours]
        readings = [(vector, reading) for vector, reading in readings if reading.role is role]
        kinds = {
            stated.kind for _, one in readings for stated in one.means if isinstance(stated, Stated)
        }
        written = {
            stated.kind
            for vector, one in readings
            if vector.row.get("canonical")
            for stated in one.means
            if isinstance(stated, Stated)
        }
        assert kinds == written and kinds, role


def test_names_are_unique_in_their_file() -> None:
    names = [str(vector) for vector in runner.load()]
    assert len(names) == len(set(names))


def test_the_notation_tells_types_and_values_apart() -> None:
    one: Message = parse('Reply {"id": 1}').message()  # type: ignore[union-attr]
    assert parse('Reply {"id": 1}').fits(one)
    for other in ('Reply {"id": true}', 'Reply {"id": 1.0}', 'Failure {"id": 1}', 'Noise ""'):
        assert not parse(other).fits(one)
    for nonsense in ('Reply {"no": 1}', "Answer {}", 'Noise {"a": 1}', 'Reply "x"'):
        with pytest.raises(ValueError, match=r"not a message|no member"):
            parse(nonsense)
