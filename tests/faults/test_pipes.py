"""Invalid lengths, ids and texts from a child: each call ends, no answer is wrong, and the next
call works.

The child is a program that misbehaves on command (`tests/faults/harness.py`): `child.spew(data)`
lets it write these bytes. Each test adds a trial for each dialect and each case, and `trials.run`
runs a sample of them concurrently.
"""

import asyncio
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from exthost.authoring.testing.behaviours import ID, NEXT, PREVIOUS
from exthost.authoring.testing.peers import PEERS, HostilePeer
from exthost.dialects import find
from exthost.errors import (
    CallTimeout,
    ExtensionGone,
    ExthostError,
    HandshakeFailed,
    ProtocolViolation,
)
from exthost.model.messages import Failure, Reply
from exthost.wire.headers import Headers
from exthost.wire.lines import Lines
from exthost.wire.prefixed import Prefixed
from tests.extensions.harness import result_or_error, wait_until
from tests.faults.harness import (
    CALL_SECONDS,
    all_peers,
    answer_frame,
    answer_with_text,
    encode_payload,
    flags_at,
    frame,
    run_hostile,
    wrap_bytes,
)
from tests.faults.trials import Trials


def is_text_dialect(peer: HostilePeer) -> bool:
    """Return whether the messages of the dialect are JSON. Those of cigen are protobuf."""
    return peer.dialect != "cigen"


def has_no_ids(peer: HostilePeer) -> bool:
    """Return whether the dialect matches replies with requests by their order."""
    return find.find_dialect(peer.dialect).traits.positional


def noise_ends_the_session(peer: HostilePeer) -> bool:
    """Return whether the dialect ends a session after an invalid message."""
    dialect = find.find_dialect(peer.dialect)
    return dialect.traits.positional or dialect.framing is not Lines


# -- frames -----------------------------------------------------------------------------------

# What stands in place of the length in a Content-Length header.
DIGITS = {
    "eleven nines": b"99999999999",
    "five thousand digits": b"9" * 5000,
    "minus one": b"-1",
    "two plus signs": b"++5",
    "underscore": b"1_000",
    "arabic-indic digits": "٣٤".encode(),
    "full-width digits": "\uff15".encode(),
    "superscript": "²".encode(),
    "hexadecimal": b"0x10",
    "a float": b"5.0",
    "an exponent": b"1e3",
    "nothing": b"",
    "two numbers": b"5 5",
    "a comma": b"5,5",
    "a nul": b"5\0",
    "just over the limit": b"67108865",
}
# By framing: Content-Length headers, a prefix of four bytes, and lines, which have no length.
BAD_LENGTHS: dict[Any, dict[str, bytes]] = {
    Headers: {
        **{name: b"Content-Length: " + digits + b"\r\n\r\n" for name, digits in DIGITS.items()},
        "an endless header": b"X-Endless: " + b"x" * 5000,
        "no length at all": b"Content-Type: text/plain\r\n\r\n",
    },
    Prefixed: {
        "all ones": b"\xff\xff\xff\xff",
        "the sign bit": b"\x80\0\0\0",
        "just over ten MiB": (10 * 2**20 + 1).to_bytes(4, "big"),
        "text": b"Traceback (most recent call last):\n",
    },
    Lines: {},
}


@pytest.mark.more
async def test_an_invalid_length_ends_the_call_and_the_next_gets_a_new_process(
    folder: Path,
) -> None:
    async def send_bad_length(peer: HostilePeer, data: bytes) -> None:
        async with run_hostile(peer, folder) as child:
            error = await child.spew(data, then="hang")
            assert isinstance(error, ProtocolViolation), error
            # The start of the next message cannot be found.
            assert error.code == "X0601" and error.help and error.extension == "hostile"
            await child.check_answers()

    trials = Trials("pipes")
    for peer in all_peers():
        for name, data in BAD_LENGTHS[find.find_dialect(peer.dialect).framing].items():
            trials.add(name, peer.dialect, partial(send_bad_length, peer, data))
    await trials.run()


@pytest.mark.more
async def test_a_frame_that_never_ends_fails_its_call(folder: Path) -> None:
    """A line of fifty megabytes, or a body that is announced and never sent."""

    async def send_endless_frame(peer: HostilePeer) -> None:
        dialect = find.find_dialect(peer.dialect)
        async with run_hostile(peer, folder, limits={"max_message": 2**20}) as child:
            if dialect.framing is Lines:
                error = await child.spew(
                    (answer_frame(peer, "x")[:-20], 1),
                    (b"x" * 1000, 50_000),
                    then="hang",
                    timeout=2,
                )
                assert isinstance(error, ProtocolViolation | CallTimeout), error
            else:
                first_half = answer_frame(peer, "x" * 10_000)[:5000]
                error = await child.spew(first_half, then="hang", timeout=0.3)
                assert isinstance(error, CallTimeout), error
            await asyncio.wait_for(child.ext.restart(), CALL_SECONDS)
            await child.check_answers()

    trials = Trials("pipes")
    for peer in all_peers():
        trials.add("endless frame", peer.dialect, partial(send_endless_frame, peer))
    await trials.run()


@pytest.mark.more
async def test_an_answer_can_arrive_byte_by_byte(folder: Path) -> None:
    async def answer_byte_by_byte(peer: HostilePeer) -> None:
        async with run_hostile(peer, folder) as child:
            call = child.spew(answer_frame(peer, "ü" * 100), bytewise=True, then="nothing")
            assert await call == "ü" * 100
            await child.check_answers()

    async def send_half_an_answer(peer: HostilePeer) -> None:
        """The child sends only half of an answer, so the call times out."""
        async with run_hostile(peer, folder) as child:
            error = await child.do_or_error("half", value="x" * 50, then="hang", timeout=0.3)
            assert isinstance(error, CallTimeout), error
            await asyncio.wait_for(child.ext.restart(), CALL_SECONDS)
            await child.check_answers()

    trials = Trials("pipes")
    for peer in all_peers():
        trials.add("slow loris", peer.dialect, partial(answer_byte_by_byte, peer))
        trials.add("half an answer, then nothing", peer.dialect, partial(send_half_an_answer, peer))
    await trials.run()


# -- ids --------------------------------------------------------------------------------------


@pytest.mark.more
async def test_answers_to_no_request_are_dropped_and_counted(folder: Path) -> None:
    async def send_stray_answers(peer: HostilePeer, rows: Mapping[str, bytes]) -> None:
        async with run_hostile(peer, folder) as child:
            # On a busy machine a reply to an optional request of the handshake may be late.
            before = sum(child.ext.stats.dropped.values())
            for n, (name, stray_frame) in enumerate(rows.items(), 1):
                assert (name, await child.spew(stray_frame)) == (name, "spewed")
                assert (name, sum(child.ext.stats.dropped.values()) - before) == (name, n)
                await child.check_answers()
            assert child.ext.stats.restarts == 0

    trials = Trials("pipes")
    for peer in all_peers(but=["cigen"]):
        rows = {
            "unknown id": answer_frame(peer, "wrong", 10**9 + 7),
            "early id": answer_frame(peer, "wrong", NEXT),
            "old id": answer_frame(peer, "wrong", PREVIOUS),
            "an error without a request": frame(peer, Failure(10**9 + 7, "wrong")),
        }
        if find.find_dialect(peer.dialect).framing is not Headers:
            correct_answer = answer_frame(peer, "wrong")
            odd_ids = {
                "text": b'"%d"' % ID,
                "a fraction": b"%d.5" % ID,
                # In MCP a float id equals the integer.
                **({} if peer.dialect == "mcp" else {"a float": b"%d.0" % ID}),
                "true": b"true",
                "null": b"null",
                "a list": b"[%d]" % ID,
                "an object": b"{}",
                "negative": b"-1",
                "minus zero": b"-0.0",
                "of three hundred digits": b"9" * 300,
            }
            for name, text in odd_ids.items():
                rows[f"an id that is {name}"] = correct_answer.replace(b"%d" % ID, text)
        trials.add(
            "answers without a request",
            peer.dialect,
            partial(send_stray_answers, peer, rows),
            len(rows),
        )
    await trials.run()


@pytest.mark.more
async def test_a_repeated_answer_answers_only_one_call(folder: Path) -> None:
    """This includes dialects without ids, while the next calls already wait."""

    async def send_answer_twice(peer: HostilePeer) -> None:
        async with run_hostile(peer, folder) as child:
            answer_twice = answer_frame(peer, "first") * 2
            results = await asyncio.gather(
                child.spew(answer_twice, then="nothing"),
                *(child.do_or_error("echo", value=n) for n in range(5)),
            )
            assert results[0] == "first"
            for n, result in enumerate(results[1:]):
                assert result == n or isinstance(result, ExthostError), result
            await child.check_answers()

    trials = Trials("pipes")
    for peer in all_peers():
        trials.add("repeated answer", peer.dialect, partial(send_answer_twice, peer))
    await trials.run()


@pytest.mark.more
async def test_an_answer_before_its_request_is_dropped(folder: Path) -> None:
    """After its handshake the child sends three answers to a request that was not sent yet."""

    async def send_early_answers(peer: HostilePeer) -> None:
        spew_command = {"out": [[answer_frame(peer, "early", 9).hex(), 3]], "then": "nothing"}
        flags = flags_at("ready", do="spew", **spew_command)
        no_restart = {"strategy": "never"}
        async with run_hostile(peer, folder, *flags, restart=no_restart, start=False) as child:
            start_outcome = await result_or_error(child.ext.start())
            if has_no_ids(peer):  # the start itself may have failed
                await wait_until(lambda: child.ext.state == "failed", CALL_SECONDS)
                error = await child.do_or_error("echo")
                assert isinstance(error, ProtocolViolation | HandshakeFailed), error
                assert "without a request" in error.message
            else:
                assert start_outcome is child.ext
                dropped = {"replies without a request": 3}
                await wait_until(lambda: child.ext.stats.dropped == dropped, CALL_SECONDS)
                for n in range(12):  # one of these has the id 9
                    assert await child.do(value=n) == n

    trials = Trials("pipes")
    for peer in all_peers():
        trials.add("early answers", peer.dialect, partial(send_early_answers, peer))
    await trials.run()


# -- text -------------------------------------------------------------------------------------

NOT_JSON = {
    "NaN": b"NaN",
    "Infinity": b"-Infinity",
    "a number out of range": b"1e999",
    "a hundred thousand brackets": b"[" * 100_000 + b"]" * 100_000,
    "a hundred thousand objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "brackets that never close": b"[" * 100_000,
    "bytes that are not UTF-8": b'"\xff\xfe"',
    "a surrogate in UTF-8": b'"\xed\xa0\x80"',
    "an overlong encoding": b'"\xc0\xaf"',
    "a control character": b'"\x01"',
    "a nul": b"\0",
    "a bare word": b"undefined",
    "single quotes": b"'x'",
    "a trailing comma": b"[1,]",
    "a comment": b"1 /* one */",
    "a number of five thousand digits": b"9" * 5000,
    "a leading zero": b"007",
    "UTF-16": '"x"'.encode("utf-16"),
}
# Valid JSON, and its value. None: any value will do, because not every dialect can return this one.
ODD_JSON: dict[str, tuple[bytes, Any]] = {
    "a lone surrogate": (b'"\\ud83d alone"', "\ud83d alone"),
    "a reversed pair": (b'"\\ude00\\ud83d"', "\ude00\ud83d"),
    "members named twice": (b'{"a":1,"a":2}', {"a": 2}),
    "an empty name": (b'{"":0}', {"": 0}),
    "a name that is dangerous elsewhere": (b'{"__proto__":{"x":1}}', {"__proto__": {"x": 1}}),
    "a nul, escaped": (b'"\\u0000"', "\0"),
    "minus zero": (b"-0", 0),
    "white space": (b" \t\r 1 ", 1),
    "a number beyond 64 bits": (b"123456789012345678901234567890", None),
    "sixty levels": (b"[" * 60 + b"]" * 60, None),
}


@pytest.mark.more
async def test_an_answer_that_is_not_json_fails_at_most_its_call(folder: Path) -> None:
    async def send_invalid_json(peer: HostilePeer, texts: Mapping[str, bytes]) -> None:
        async with run_hostile(peer, folder) as child:
            for name, text in texts.items():
                other_calls = [
                    asyncio.ensure_future(child.do_or_error("echo", value=n)) for n in range(3)
                ]
                result = await child.spew(answer_with_text(peer, text))
                other_results = await asyncio.gather(*other_calls)
                if noise_ends_the_session(peer):
                    assert isinstance(result, ExthostError), (name, result)
                    await child.check_answers()
                else:
                    # A whole line fails this call. A part of a line is skipped.
                    failed_its_call = isinstance(result, ExthostError) and result.code == "X0606"
                    assert failed_its_call or result == "spewed", (name, result)
                    assert other_results == [0, 1, 2], name
            await child.check_answers()
            if not noise_ends_the_session(peer):
                assert child.ext.stats.dropped["stray lines on stdout"] == len(texts)
                assert child.ext.stats.restarts == 0

    trials = Trials("pipes")
    for peer in filter(is_text_dialect, all_peers()):
        texts = dict(NOT_JSON)
        if find.find_dialect(peer.dialect).framing is Lines:
            texts = {name: text.replace(b"\n", b" ") for name, text in texts.items()}
        trials.add(
            "text that is not JSON",
            peer.dialect,
            partial(send_invalid_json, peer, texts),
            len(texts),
        )
    await trials.run()


@pytest.mark.more
async def test_unusual_json_is_decoded(folder: Path) -> None:
    async def send_unusual_json(peer: HostilePeer) -> None:
        async with run_hostile(peer, folder) as child:
            for name, (text, expected) in ODD_JSON.items():
                result = await child.spew(answer_with_text(peer, text), then="nothing")
                assert not isinstance(result, ExthostError), (name, result)
                assert expected is None or result == expected, (name, result)
            correct_answer = answer_frame(peer, "right")
            with_two_results = correct_answer.replace(b'"right"', b'"wrong","result":"right"')
            if find.find_dialect(peer.dialect).framing is Lines:
                assert await child.spew(with_two_results, then="nothing") == "right"
            await child.check_answers()
            assert child.ext.stats.restarts == 0

    trials = Trials("pipes")
    for peer in filter(is_text_dialect, all_peers()):
        trials.add(
            "odd but readable", peer.dialect, partial(send_unusual_json, peer), len(ODD_JSON) + 1
        )
    await trials.run()


# Invalid messages of protobuf.
INVALID_PROTOBUF = {
    "a hundred thousand nested groups": b"\x0b" * 100_000 + b"\x0c" * 100_000,
    "a length beyond the frame": b"\x0a\xff\xff\xff\xff\x0f",
    "text that is not UTF-8": b"\x0a\x02\xff\xfe",
    "a varint without end": b"\x08" + b"\xff" * 30,
    "a field of number 0": b"\x00\x00",
    "an end without its group": b"\x0c",
    "an unknown wire type": b"\x0f",
}


async def test_invalid_protobuf_ends_the_call_and_the_process(folder: Path) -> None:
    async def send_invalid_message(peer: HostilePeer, data: bytes) -> None:
        async with run_hostile(peer, folder) as child:
            error = await child.spew(wrap_bytes(peer, data), then="hang")
            assert isinstance(error, ProtocolViolation | ExtensionGone), error
            await child.check_answers()

    async def send_unusual_message(peer: HostilePeer) -> None:
        """Send NaN in a float, a repeated scalar and unknown fields, which protobuf allows."""
        async with run_hostile(peer, folder) as child:
            right = encode_payload(peer, Reply(None, peer.wrap_value("right")))
            nan = b"\x1d\x00\x00\xc0\x7f"  # field 3
            half = b"\x1d\x00\x00\x00\x3f"  # field 3 again, 0.5
            unknown_field = b"\x7a\x01\x78"  # field 15, the text "x"
            unusual_frame = wrap_bytes(peer, right + nan + half + unknown_field + nan)
            assert await child.spew(unusual_frame, then="nothing") == "right"
            await child.check_answers()

    trials = Trials("pipes")
    peer = PEERS["cigen"]
    for name, data in INVALID_PROTOBUF.items():
        trials.add(name, "cigen", partial(send_invalid_message, peer, data))
    trials.add("odd but readable", "cigen", partial(send_unusual_message, peer))
    await trials.run()
