"""Checks the test vectors of a dialect, without a process and with one.

A vector is a test case in a TOML file; the docstring of this package describes its tables. The
tests of a dialect call `run_vectors`, or `check_vector` for each vector. A vector that fails raises
AssertionError.
"""

import asyncio
import importlib
import logging
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from exthost.authoring.testing.vector_notation import parse_message_pattern, shorten
from exthost.authoring.testing.vectors.processes import ScriptedExtension, run_operation
from exthost.authoring.testing.vectors.read_vector import ReadVector, matches_all
from exthost.authoring.testing.vectors.script_player import (
    handshake_without_process,
    operation_without_process,
)
from exthost.authoring.testing.vectors.vector import Vector, package_vectors
from exthost.dialects.meanings import Log, Progress, Unusable
from exthost.dialects.package import DialectPackage
from exthost.errors import CallFailed, ExthostError, HandshakeFailed
from exthost.model.messages import Notification
from exthost.model.offer import Offer, Tool
from exthost.wire.framing import Skipped

# The fields of the first handshake of a file that also apply to an operation in that file.
_INHERITED_FIELDS = {"config", "options", "handlers"}


def run_vectors(package: DialectPackage) -> int:
    """Check every vector of a dialect's package, without a process and then with one. Return the
    number of vectors.

    Raises AssertionError, with the name of the vector, for the first vector that fails, and if the
    package has no vectors. It must not be called while an event loop is running.
    """
    vectors = package_vectors(package)
    assert vectors, f"the package of the dialect {package.name!r} has no vectors"
    for vector in vectors:
        try:
            check_vector(vector)
            with TemporaryDirectory() as folder:
                asyncio.run(check_with_process(vector, Path(folder)))
        except AssertionError as failed:
            raise AssertionError(f"{vector}: {failed}") from failed
    return len(vectors)


def check_vector(vector: Vector) -> None:
    """Check a vector without a process."""
    _CHECKS[vector.table](vector)


async def check_with_process(vector: Vector, folder: Path, clock: Any = None) -> None:
    """Check a vector with a real process. Vectors of the tables `read`, `meaning` and `value` need
    no process, so nothing is done for them.

    `folder` and `clock` are those of `ScriptedExtension`.
    """
    if vector.table == "operation":
        await _operation_with_process(vector, folder, clock)
        return
    if vector.table not in ("handshake", "refusal"):
        return
    script = vector.fields["script"]
    async with ScriptedExtension(vector, script, folder, clock) as extension:
        if vector.table == "handshake":
            await extension.start()
            assert_offer(vector, extension.offer)
        else:
            assert_error(vector, await _expect_error(extension.start()))
            # After a refused handshake the extension has only the tools of its manifest, if any.
            declared = {tool.name: tool for tool in extension.spec.declared_tools}
            assert extension.tools == declared, f"it offers {sorted(extension.tools)}"
            assert extension.stats.pid is None, "its process was not ended"


async def _operation_with_process(vector: Vector, folder: Path, clock: Any) -> None:
    """Check an operation with a process, after the first handshake of the vector's file."""
    first = vector.first_handshake
    assert first is not None, f"the file of {vector} has no handshake for it to follow"
    fields = {key: first[key] for key in _INHERITED_FIELDS & first.keys()} | vector.fields
    with_handshake = Vector(
        vector.file, vector.module, vector.table, fields, manifest=vector.manifest
    )
    script = [*first["script"], *vector.fields["script"]]
    async with ScriptedExtension(with_handshake, script, folder, clock) as extension:
        await extension.start()
        if "error" in vector.fields:
            assert_error(vector, await _expect_error(run_operation(extension, vector)))
        else:
            _assert_equal(await run_operation(extension, vector), vector.json("result"))


async def _expect_error(call: Any) -> ExthostError:
    try:
        value = await call
    except ExthostError as error:
        return error
    raise AssertionError(f"it did not fail, and the result is {shorten(repr(value))}")


def _check_read(vector: Vector) -> None:
    """Check that the bytes mean the same however they are split into reads, and that the other side
    writes them if they are canonical."""
    reading = ReadVector(vector)
    data = reading.data
    _assert_read(reading, [data], "whole")
    _assert_read(reading, [bytes([byte]) for byte in data], "byte by byte")
    for cut in range(len(data) + 1):
        _assert_read(reading, [data[:cut], data[cut:]], f"cut at {cut}")
    if not vector.fields.get("alone") and "end" not in vector.fields:
        _assert_read(reading, [data + data], "two in one read", times=2)
    for chunks in ([data], [data[:7], data[7:]]):  # 7: inside a frame, whatever the dialect
        received, end = reading.read(chunks)
        reason, expected = "" if end is None else end.reason, vector.fields.get("end", "")
        assert expected in reason and bool(expected) == bool(reason), f"the end: {reason}"
        if "answers" in vector.fields:
            ids = [reading.skipped_reply_id(item) for item in received if isinstance(item, Skipped)]
            # TOML has no null, so "nothing" stands for None.
            expected_id = vector.fields["answers"]
            _assert_equal(ids, [None if expected_id == "nothing" else expected_id])
    if vector.fields.get("canonical"):
        _assert_equal(reading.write(), data)
        request = reading.write_request()
        _assert_equal(data if request is None else request, data)


def _assert_read(
    reading: ReadVector, chunks: list[bytes], description: str, times: int = 1
) -> None:
    received, _ = reading.read(chunks, times)
    assert matches_all(reading.expected * times, received), shorten(f"{description}: {received}")


def _check_handshake(vector: Vector) -> None:
    assert_offer(vector, handshake_without_process(vector))


def _check_refusal(vector: Vector) -> None:
    """Check that the handshake fails with the expected error."""
    if any(line.startswith("!") for line in vector.fields["script"]):
        return  # only a process can perform such a step
    try:
        offer = handshake_without_process(vector)
    except CallFailed as refused:  # a session converts this error in the same way
        assert_error(vector, HandshakeFailed("X0502", refused.message))
    except ExthostError as refused:
        assert_error(vector, refused)
    else:
        raise AssertionError(f"it was not refused, and the offer is {shorten(offer)}")


def _check_operation(vector: Vector) -> None:
    try:
        value = operation_without_process(vector)
    except ExthostError as error:
        assert "error" in vector.fields, f"it failed: {error}"
        assert_error(vector, error)
    else:
        assert "error" not in vector.fields, (
            f"it did not fail, and the result is {shorten(repr(value))}"
        )
        _assert_equal(value, vector.json("result"))


def _check_meaning(vector: Vector) -> None:
    _assert_equal(describe_meaning(vector), vector.fields["means"])


def _check_value(vector: Vector) -> None:
    _assert_equal(compute_value(vector), vector.fields["result"])


def _assert_equal(value: Any, expected: Any) -> None:
    assert value == expected, (
        f"it is {shorten(repr(value))}, and should be {shorten(repr(expected))}"
    )


_CHECKS = {
    "read": _check_read,
    "handshake": _check_handshake,
    "refusal": _check_refusal,
    "operation": _check_operation,
    "meaning": _check_meaning,
    "value": _check_value,
}


def assert_offer(vector: Vector, offer: Any) -> None:
    """Assert that a handshake ended with the offer (tools, hooks, capabilities) of the vector."""
    assert type(offer) is Offer, f"the result is {offer!r}, which is not an Offer"
    fields = vector.json("offer")
    extra = fields.pop("extra", None)
    tools = tuple(Tool(**tool) for tool in fields.pop("tools", ()))
    # JSON has lists where an Offer has tuples.
    lists = {key: tuple(value) for key, value in fields.items() if isinstance(value, list)}
    expected = Offer(**{**fields, **lists, "tools": tools})
    assert offer == expected, f"it offers {shorten(offer)}, and should offer {shorten(expected)}"
    assert extra is None or dict(offer.extra) == extra, f"its extra is {shorten(offer.extra)}"


def assert_error(vector: Vector, error: ExthostError) -> None:
    """Assert that the error has the kind, code and message that the vector expects."""
    fields = vector.fields
    assert (error.kind, error.code) == (fields["error"], fields["code"]), shorten(error)
    assert fields["says"] in error.message, shorten(error.message)


def describe_meaning(vector: Vector) -> str:
    """Return what the vector's notification means to the host, as vectors write it."""
    notification = parse_message_pattern(vector.fields["notification"]).build()
    assert isinstance(notification, Notification)
    reader = vector.dialect.notifications.get(notification.method)
    meaning = reader(notification.params) if reader is not None else None
    if isinstance(meaning, Unusable):
        return f"Unusable {meaning.reason}"
    if isinstance(meaning, Progress):
        return f"Progress {list(meaning)}"
    if isinstance(meaning, Log):
        return f"Log {logging.getLevelName(meaning.level)} {meaning.text}"
    return "" if meaning is None else type(meaning).__name__


def compute_value(vector: Vector) -> Any:
    """Call the vector's function with its bytes, and return the result."""
    fields = vector.fields
    module, _, name = fields["function"].partition(":")
    data = bytes.fromhex(fields["given_hex"]) if "given_hex" in fields else fields["given"].encode()
    return getattr(importlib.import_module(module), name)(data)
