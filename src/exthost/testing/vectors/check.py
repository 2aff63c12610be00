"""Plays vectors in every way. A vector that does not hold raises AssertionError."""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from exthost.dialects.package import DialectPackage
from exthost.errors import CallFailed, ExthostError, HandshakeFailed
from exthost.testing.vectors.expectations import assert_error, assert_offer, meaning, value
from exthost.testing.vectors.processes import Scripted, operate
from exthost.testing.vectors.read_vector import ReadVector, fit
from exthost.testing.vectors.script_player import (
    handshake_without_process,
    operation_without_process,
)
from exthost.testing.vectors.vector import Vector, package_vectors
from exthost.wire.framing import Skipped

__all__ = ["check_vector", "check_with_process", "run_vectors"]

# What an operation takes over from the first handshake of its file.
_KEPT = {"config", "options", "handlers"}


def run_vectors(package: DialectPackage) -> int:
    """Play every vector of a dialect's package, without a process and then with one. Return how
    many there are.

    Raises AssertionError for the first that does not hold, with its name, and if there are none.
    Call it where no event loop runs.
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
    """Play a vector without a process."""
    _CHECKS[vector.table](vector)


async def check_with_process(vector: Vector, folder: Path, clock: Any = None) -> None:
    """Play a vector of the tables `handshake`, `refusal` and `operation` with a real process; see
    `Scripted` for the other arguments. Vectors of other tables need none."""
    if vector.table == "operation":
        await _operation_with_process(vector, folder, clock)
        return
    if vector.table not in ("handshake", "refusal"):
        return
    async with Scripted(vector, vector.row["script"], folder, clock) as extension:
        if vector.table == "handshake":
            await extension.start()
            assert_offer(vector, extension.offer)
        else:
            assert_error(vector, await _error_of(extension.start()))
            known = {tool.name: tool for tool in extension.spec.tools}
            assert extension.tools == known, f"it offers {sorted(extension.tools)}"
            assert extension.stats.pid is None, "its process was not ended"


async def _operation_with_process(vector: Vector, folder: Path, clock: Any) -> None:
    first = vector.first_handshake
    assert first is not None, f"the file of {vector} has no handshake for it to follow"
    row = {key: first[key] for key in _KEPT & first.keys()} | vector.row
    joined = Vector(vector.file, vector.module, vector.table, row, manifest=vector.manifest)
    script = [*first["script"], *vector.row["script"]]
    async with Scripted(joined, script, folder, clock) as extension:
        await extension.start()
        if "error" in vector.row:
            assert_error(vector, await _error_of(operate(extension, vector)))
        else:
            _assert_equal(await operate(extension, vector), vector.json("result"))


async def _error_of(call: Any) -> ExthostError:
    try:
        value = await call
    except ExthostError as error:
        return error
    raise AssertionError(f"it did not fail, and came to {value!r}")


def _check_read(vector: Vector) -> None:
    """However the bytes come, they mean the same; the other role writes the canonical ones."""
    reading = ReadVector(vector)
    data = reading.bytes
    _assert_read(reading, [data], "whole")
    _assert_read(reading, [data[at : at + 1] for at in range(len(data))], "byte by byte")
    for at in range(len(data) + 1):
        _assert_read(reading, [data[:at], data[at:]], f"cut at {at}")
    if not vector.row.get("alone") and "end" not in vector.row:
        _assert_read(reading, [data + data], "two in one read", times=2)
    for chunks in ([data], [data[:7], data[7:]]):
        received, end = reading.read(chunks)
        why, expected = "" if end is None else end.why, vector.row.get("end", "")
        assert expected in why and bool(expected) == bool(why), f"the end: {why}"
        if "answers" in vector.row:
            answered = [reading.answers(part) for part in received if isinstance(part, Skipped)]
            answers = vector.row["answers"]  # TOML has no null
            _assert_equal(answered, [None if answers == "nothing" else answers])
    if vector.row.get("canonical"):
        _assert_equal(reading.write(), data)
        request = reading.write_request()
        _assert_equal(data if request is None else request, data)


def _assert_read(reading: ReadVector, chunks: list[bytes], way: str, times: int = 1) -> None:
    received, _ = reading.read(chunks, times)
    assert fit(reading.means * times, received), f"{way}: {received}"


def _check_handshake(vector: Vector) -> None:
    assert_offer(vector, handshake_without_process(vector))


def _check_refusal(vector: Vector) -> None:
    if any(line.startswith("!") for line in vector.row["script"]):
        return  # only a process can do that
    try:
        offer = handshake_without_process(vector)
    except CallFailed as refused:  # what the session makes of it when it ends a handshake
        assert_error(vector, HandshakeFailed("X0502", refused.message))
    except ExthostError as refused:
        assert_error(vector, refused)
    else:
        raise AssertionError(f"it was not refused, and came to {offer}")


def _check_operation(vector: Vector) -> None:
    try:
        value = operation_without_process(vector)
    except ExthostError as error:
        assert error.code == vector.row.get("code"), error
    else:
        assert "error" not in vector.row, f"it did not fail, and came to {value!r}"
        _assert_equal(value, vector.json("result"))


def _check_meaning(vector: Vector) -> None:
    _assert_equal(meaning(vector), vector.row["means"])


def _check_value(vector: Vector) -> None:
    _assert_equal(value(vector), vector.row["result"])


def _assert_equal(value: Any, expected: Any) -> None:
    assert value == expected, f"it is {value!r}, and should be {expected!r}"


_CHECKS = {
    "read": _check_read,
    "handshake": _check_handshake,
    "refusal": _check_refusal,
    "operation": _check_operation,
    "meaning": _check_meaning,
    "value": _check_value,
}
