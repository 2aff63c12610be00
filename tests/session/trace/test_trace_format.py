"""The file format of a trace, its buffer, and the secrets that are hidden in it.

A trace records the messages between a host and its extensions: after a header, a line of JSON for
each `TraceRecord`. A user may send it to a stranger, so secrets such as the values of variables are
replaced by "***", in any form that they may have in a message.
"""

import asyncio
import base64
import json
import os
import sys
import threading
import tracemalloc
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

import exthost
from exthost.dialects.nexo.dialect import DIALECT as NEXO
from exthost.errors import UsageError
from exthost.model.messages import Request
from exthost.model.secret_names import is_secret_name
from exthost.session.trace import trace_file
from exthost.session.trace.buffer import TraceBuffer
from exthost.session.trace.record import TraceRecord
from exthost.session.trace.secrets import (
    HIDDEN,
    MIN_SECRET_CHARACTERS,
    TOO_DEEP,
    SecretFilter,
    find_secrets,
)
from exthost.session.trace.session_trace import SessionTrace
from exthost.session.trace.trace_file import TraceFile
from exthost.session.trace.trace_format import LineMaker, header_line, read_recording
from tests.extensions.morphir_program import morphir_program

NOT_A_RECORDING = "X1384"
UNKNOWN_VERSION = "X1385"

REQUEST = TraceRecord(
    1.5, "a", "request", "sent", pid=7, size=40, id=0, call=1, method="m", data={"x": [1, None]}
)
RECORDS = (
    TraceRecord(1.0, "a", "spawned", pid=7, data={"argv": ["x"]}),
    REQUEST,
    REQUEST._replace(kind="reply", direction="received", data=None),
    REQUEST._replace(kind="failure", direction="received", data={"code": None, "message": "no"}),
    TraceRecord(2.0, "a", "notification", "received", pid=7, size=3, method="n"),
    TraceRecord(2.0, "a", "stderr", text="a line", node="local-1"),
    TraceRecord(2.0, "a", "noise", "received", pid=7, size=2, data="not JSON", text="hi"),
    TraceRecord(2.0, "b", "request", "received", pid=8, size=2, id="text", method="ask", data=0),
)


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("it is a-sec…", "it is a-sec…"),  # the beginning is too short to be recognised
        ("it is a-secre…", "it is ***…"),
        ("it is a-secret-val…); it is not used", "it is ***…); it is not used"),
        ("a-secre", "a-secre"),  # no mark that the text was shortened
    ],
)
def test_the_beginning_of_a_secret_is_hidden_where_a_text_was_shortened(
    text: str, hidden: str
) -> None:
    assert SecretFilter(["a-secret-value"]).text(text) == hidden


def test_records_can_be_read_from_a_written_trace() -> None:
    line_maker = LineMaker({"a": "morphir", "b": "mcp"})
    lines = b"".join(map(line_maker.lines, RECORDS)).splitlines(keepends=True)
    assert lines[0] == header_line("a", "morphir")
    recording = read_recording(lines, "file")
    assert recording.records == RECORDS
    assert recording.dialects == {"a": "morphir", "b": "mcp"}


def test_values_that_json_cannot_express_are_written_as_text() -> None:
    lines = LineMaker({}).lines(REQUEST._replace(data=object())).splitlines(keepends=True)
    [record] = read_recording(lines, "file").records
    assert "object" in record.data


HEADER = header_line("a", "morphir")


@pytest.mark.parametrize(
    ("lines", "code", "message"),
    [
        ([], NOT_A_RECORDING, "it is empty"),
        ([b"root:x:0:0\n"], NOT_A_RECORDING, "line 1"),
        ([b"{}\n"], NOT_A_RECORDING, "not a header"),
        ([b'{"format": "har"}\n'], NOT_A_RECORDING, "'har'"),
        ([b'{"format": "exthost-trace", "version": 2}\n'], UNKNOWN_VERSION, "version 2"),
        ([b'{"format": "exthost-trace", "version": 1}\n'], NOT_A_RECORDING, "names an extension"),
        ([HEADER, b'{"time": 1, "exten'], NOT_A_RECORDING, "line 2: the last line is cut"),
        ([HEADER, b"nonsense\n", HEADER], NOT_A_RECORDING, "line 2"),
        ([HEADER, b"[]\n"], NOT_A_RECORDING, "a JSON object"),
        ([HEADER, b'{"kind": "poem"}\n'], NOT_A_RECORDING, "'poem' is not a kind"),
        ([HEADER, b'{"kind": "reply"}\n'], NOT_A_RECORDING, "missing"),
        (
            [HEADER, b'{"kind": "reply", "time": "x", "extension": "a"}\n'],
            NOT_A_RECORDING,
            "time is 'x'",
        ),
    ],
)
def test_an_invalid_recording_is_an_error_with_the_line(
    lines: list[bytes], code: str, message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        read_recording(lines, "some/file")
    assert caught.value.code == code and message in caught.value.message
    assert caught.value.evidence.path == "some/file"


@pytest.mark.parametrize(
    ("name", "is_secret"),
    [
        ("Authorization", True),
        ("apiKey", True),
        ("api_key", True),
        ("X-Api-Key", True),
        ("accessToken", True),
        ("GITHUB_TOKEN", True),
        ("password", True),
        ("passwd", True),
        ("passphrases", True),
        ("privateKey", True),
        ("token", True),
        ("Set-Cookie", True),
        ("progressToken", False),
        ("max_tokens", False),
        ("keyboard", False),
        ("text", False),
    ],
)
def test_names_of_secrets_are_recognised(name: str, is_secret: bool) -> None:
    assert is_secret_name(name) is is_secret


def test_the_names_of_fields_take_a_bounded_amount_of_memory() -> None:
    """An extension chooses the names of the fields in its messages."""
    secret_filter = SecretFilter(["a-secret-value"])
    tracemalloc.start()
    try:
        for number in range(2000):
            secret_filter.data({f"{number}-{'x' * 10_000}": "text"})
        assert tracemalloc.get_traced_memory()[0] < 5_000_000
    finally:
        tracemalloc.stop()


def test_terminal_controls_are_escaped() -> None:
    text = "\x1b]0;x\x07 \x9b31m \x7f \u202e \u2066 \u061c käse"
    record = TraceRecord(1.0, text, "stderr", text=text)
    lines = LineMaker({text: "mcp"}).lines(record)
    assert lines.decode().replace("\n", "").isprintable() and "käse" in lines.decode()
    assert read_recording(lines.splitlines(keepends=True), "file").records == (record,)


def test_each_line_of_a_secret_of_several_lines_is_hidden() -> None:
    secret_filter = SecretFilter(
        ["-----BEGIN KEY-----\nMIIEvQIBADAN\r\n  abc\n-----END KEY-----\n"]
    )
    assert secret_filter.text("MIIEvQIBADAN") == secret_filter.text("-----END KEY-----") == "***"
    assert secret_filter.text("it is abc") == "it is abc", "a short line could occur by chance"


def test_a_secret_is_hidden_in_json() -> None:
    secret = 'pass"word\\with\nschön'
    secret_filter = SecretFilter([secret])
    for ascii in (True, False):
        assert secret_filter.text("noise " + json.dumps({"a": secret}, ensure_ascii=ascii)) == (
            'noise {"a": "***"}'
        )


SECRETS = st.text(st.characters(exclude_categories=["Cs"]), min_size=6, max_size=40).filter(
    lambda text: len(text.strip()) >= 6
)


@given(SECRETS, st.binary(max_size=9), st.binary(max_size=9))
def test_the_base64_of_a_secret_is_hidden_in_any_context(
    secret: str, before: bytes, after: bytes
) -> None:
    secret_filter = SecretFilter([secret])
    data = secret.encode()
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        assert secret_filter.text(encode(data).decode()) == "***"
        assert secret_filter.text(f"x {encode(data).decode().rstrip('=')}.") == "x ***."
        encoded = encode(before + data + after).decode()
        hidden = secret_filter.text(f"Basic {encoded}")
        # Only the digits of the other bytes remain, a digit at each end that has bits of both, and
        # padding.
        assert "***" in hidden
        assert len(hidden) - len("Basic ***") <= len(encode(before)) + len(encode(after)) + 4


@given(SECRETS)
def test_a_secret_is_hidden_in_a_url_and_in_hexadecimal(secret: str) -> None:
    secret_filter = SecretFilter([secret])
    data = secret.encode()
    for form in (quote(secret), quote(secret, safe=""), quote_plus(secret), data.hex()):
        assert secret_filter.text(f"<{form}>") == "<***>"
    assert secret_filter.text(data.hex().upper()) == "***"


def test_percent_codes_of_a_url_may_have_small_letters() -> None:
    secret_filter = SecretFilter(["key/with+signs="])
    for text in ("key%2Fwith%2Bsigns%3D", "key%2fwith%2bsigns%3d", "key/with%2Bsigns%3D"):
        assert secret_filter.text(f"?token={text}&a=b") == "?token=***&a=b"


@given(SECRETS, st.data())
def test_a_secret_is_hidden_whichever_of_its_characters_are_escaped(
    secret: str, data: st.DataObject
) -> None:
    """Libraries differ: some escape only what must be, some every character that is not a letter,
    and some use capitals."""

    def choose(character: str, codes: Iterable[str]) -> str:
        return data.draw(st.sampled_from([character, *codes]))

    in_json, in_url = "", ""
    for character in secret:
        digits = character.encode("utf-16-be").hex()
        code = "".join(f"\\u{digits[i : i + 4]}" for i in range(0, len(digits), 4))
        short = json.dumps(character)[1:-1]
        codes = {code, short, "\\/" if character == "/" else short}
        in_json += choose(short if character in '"\\' else character, sorted(codes))
        percent = "".join(f"%{byte:02x}" for byte in character.encode())
        in_url += choose(percent if character == "%" else character, (percent, percent.upper()))
    secret_filter = SecretFilter([secret])
    assert secret_filter.text(f'{{"a\\n": "{in_json}"}}') == '{"a\\n": "***"}'
    assert secret_filter.text(f"?a=%20b&token={in_url}&c") == "?a=%20b&token=***&c"


def test_a_secret_is_hidden_as_common_libraries_escape_it() -> None:
    secret_filter = SecretFilter(["key&a/b<c>=d e~*$", "key&a/b<c>=d"])
    for text in (
        r"key\u0026a/b\u003cc\u003e=d e~*$",  # Go
        r"key\u0026a/b\u003cc\u003e\u003dd e~*$",  # Gson
        r"key&a\/b<c>=d e~*$",  # PHP
        "key&a%2Fb%3Cc%3E=d%20e~%2A$",  # a path in Go
        "key%26a%2Fb%3Cc%3E%3Dd+e%7E*%24",  # a form in Java
        "key&a/b%3Cc%3E=d%20e~*$",  # encodeURI in JavaScript
    ):
        assert secret_filter.text(f"<{text}>, {text}") == "<***>, ***"


def test_only_the_usual_forms_are_searched_for_in_a_very_long_text() -> None:
    """Decoding would hold up the loop: an extension can send a message of many megabytes."""
    secret_filter = SecretFilter(["key&a/b c"])
    long_text = "%41" * 2**20
    assert secret_filter.text(f"{long_text} key%26a%2Fb%20c").endswith("%41 ***")
    assert secret_filter.text(f"{long_text} %6bey&a/b c").endswith("%6bey&a/b c")


def test_a_text_without_secrets_keeps_its_escapes() -> None:
    secret_filter = SecretFilter(["a-secret-value"])
    for text in ("100%", "%41%zz%e4%f", r"\u12 \x \ud800 \\", r'{"a": "\u00e9\n"}', "%61-secret-"):
        assert secret_filter.text(text) == text
    not_utf_8 = "%e0%80%80 \\ud800 "
    assert secret_filter.text(f"{not_utf_8}%61-secret-value") == f"{not_utf_8}***"


def test_a_secret_that_is_not_valid_utf_8_is_hidden() -> None:
    assert SecretFilter(["bytes-\udcff"]).text("x bytes-\udcff") == "x ***"
    assert SecretFilter(["lone-\ud800-surrogate"]).text("lone-\ud800-surrogate") == "***"
    encoded = base64.b64encode(b"bytes-\xff").decode()
    assert SecretFilter(["bytes-\udcff"]).text(encoded) == "***"


def test_a_number_whose_text_is_a_secret_is_hidden() -> None:
    secret_filter = SecretFilter(["12345678", "-1234.5"])
    numbers = {"pin": 12345678, "rate": -1234.5, "other": 123456789, "flag": True, "none": None}
    assert secret_filter.data([numbers]) == [{**numbers, "pin": "***", "rate": "***"}]
    assert SecretFilter().data(numbers) == numbers


def test_secrets_are_hidden_by_value_and_by_name() -> None:
    env = {"PLAIN": "visible-value", "GIVEN": "from-the-host", "MY_KEY": "secret-key"}
    config = {"nested": [{"password": "hunter-22"}], "level": "visible-value"}
    secret_filter = SecretFilter(find_secrets(env, ["GIVEN"], config))
    value: Any = {
        "header": {"authorization": "Basic abc", "n": 7, "token": 12},
        "headers": {"Authorization": ["Basic abc", "Basic def", 7], "password": {"type": "string"}},
        "by secret-key": 1,
        "text": ["a secret-key here", "from-the-host", "hunter-22", "visible-value"],
    }
    assert secret_filter.data(value) == {
        "header": {"authorization": "***", "n": 7, "token": 12},
        "headers": {"Authorization": ["***", "***", 7], "password": {"type": "string"}},
        "by ***": 1,
        "text": ["a *** here", "***", "***", "visible-value"],
    }
    assert value["text"][0] == "a secret-key here"


async def test_a_buffer_keeps_the_last_records_and_counts_dropped_ones() -> None:
    buffer = TraceBuffer(max_records=3, max_bytes=1000)
    for number in range(5):
        buffer(REQUEST._replace(id=number))
    assert [record.id for record in buffer.after(0)] == [2, 3, 4]
    assert (buffer.start, buffer.end) == (2, 5)
    assert [record.id for record in buffer.after(4)] == [4] and buffer.after(5) == []
    buffer(REQUEST._replace(id=5, size=5000))
    assert [record.id for record in buffer.after(0)] == [5]  # it is larger than the whole buffer
    ids_and_dropped = []

    async def read() -> None:
        async for record, dropped in buffer.follow():
            ids_and_dropped.append((record.id, dropped))

    reading = asyncio.create_task(read())
    await asyncio.sleep(0)
    buffer(REQUEST._replace(id=6))
    buffer.close()
    await reading
    assert ids_and_dropped == [(5, 5), (6, 0)]  # five records were dropped before the one with id 5


def test_a_blocked_file_loses_records_and_does_not_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trace_file, "MAX_WAITING_RECORDS", 10)
    reader, writer = os.pipe()
    file = TraceFile(writer, {"a": "morphir"})
    for _ in range(100):  # the pipe is full and has no reader; this must not wait
        file(REQUEST._replace(data="x" * 200_000))
    chunks: list[bytes] = []

    def read_all() -> None:
        while data := os.read(reader, 2**20):
            chunks.append(data)

    reader_thread = threading.Thread(target=read_all)
    reader_thread.start()
    while file.waiting >= 10:
        threading.Event().wait(0.01)
    file(REQUEST)  # there is space again; a record has the number of lost records
    file.close()
    os.close(writer)
    reader_thread.join()
    os.close(reader)
    records = read_recording(b"".join(chunks).splitlines(keepends=True), "pipe").records
    missing = sum(record.data["times"] for record in records if record.kind == "dropped")
    assert missing > 0 and missing + sum(record.kind == "request" for record in records) == 101


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        TraceFile(tmp_path / "no" / "such", {})
    assert caught.value.code == "X1386"


async def test_a_host_passes_trace_records_to_a_function_or_keeps_them() -> None:
    assert exthost.Host().trace is None
    source = {"command": sys.executable, "args": ["-S", "-E", "-c", morphir_program()]}
    config = {"extensions": [{"name": "a", "source": source}]}
    records: list[TraceRecord] = []
    async with exthost.Host.from_config(config, trace=records.append) as host:
        await host["a"].call("find")
    assert [record.method for record in records].count("find") == 2  # the request and the reply
    async with exthost.Host.from_config(config, trace=True) as host:
        await host["a"].call("find")
    assert host.trace is not None
    assert [record.method for record in host.trace.after(0)].count("find") == 2


def test_a_file_that_existed_can_be_read_by_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text("old")
    path.chmod(0o644)
    TraceFile(path, {}).close()
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_device_keeps_its_mode() -> None:
    device = Path(os.devnull)
    mode = device.stat().st_mode
    TraceFile(device, {}).close()
    assert device.stat().st_mode == mode


def test_a_buffer_counts_the_bytes_of_lines_of_stderr() -> None:
    buffer = TraceBuffer(max_bytes=1000)
    for _ in range(10):
        buffer(TraceRecord(0.0, "a", "stderr", text="x" * 300))
    assert len(buffer) == 3


def test_an_index_of_many_secrets_finds_the_same_as_a_search_for_each() -> None:
    secrets = [f"{chr(97 + n % 26)}-{n * 7919:x}-secret" for n in range(60)]
    secrets += [secrets[7] + "-longer", secrets[9][2:], "abcdef"]
    secret_filter = SecretFilter(secrets)
    assert secret_filter._index
    plain_filter = SecretFilter(secrets)
    plain_filter._index = {}
    forms = secret_filter._values
    texts = [f"{'x' * (n % 7)}{form}{forms[n - 1]} {n}" for n, form in enumerate(forms)]
    texts += ["", "abcde", "abcdef", "x" * 50_000 + secrets[3], "\n".join(texts) * 3]
    for text in texts:
        assert secret_filter.text(text) == plain_filter.text(text)
        if len(text) > MIN_SECRET_CHARACTERS:
            assert HIDDEN in secret_filter.text(text)


def test_data_that_is_nested_too_deeply_to_be_searched_is_left_out() -> None:
    deep: Any = "a-secret-value"
    for _ in range(5000):
        deep = [deep]
    secret_filter = SecretFilter(["a-secret-value"])
    assert secret_filter.data(deep) == secret_filter.content({"a": deep}) == TOO_DEEP


def test_requests_with_an_id_of_any_type_are_recorded_and_long_ids_are_not_kept() -> None:
    records: list[TraceRecord] = []
    trace = SessionTrace("a", 1, "", NEXO, 2**20, SecretFilter(), count(1), records.append)
    ids: list[Any] = [1, "1", [1], "x" * 1_000_000]
    for id in ids:
        trace.received(Request("ask", None, id), b"{}", None)
    assert [(record.kind, record.id) for record in records] == [("request", id) for id in ids]
    assert len(trace._methods) == 3
