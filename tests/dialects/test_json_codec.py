"""The codecs of dialects with JSON messages do not catch an exception of a signal handler.

A codec encodes and decodes the messages of a dialect, a protocol of extensions. It tries a fast way
first, and a slow one after an error. A signal handler, such as that of a time limit, may raise an
exception in the midst of that, which must reach the program.
"""

from typing import Any

import pytest

from exthost.dialects import find, json_codec
from exthost.dialects.codec import Codec, Role
from exthost.dialects.morphir import dialect as morphir


class TimeIsUp(Exception):
    pass


def raise_time_is_up(value: Any) -> Any:
    raise TimeIsUp


def make_codecs() -> list[Codec]:
    names = ("mcp", "morphir", "nexo", "roder", "synaps")
    return [find.find_dialect(name).codec(Role.HOST) for name in names]


def test_the_encoder_does_not_catch_the_exception_of_a_signal_handler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    codecs = make_codecs()
    monkeypatch.setattr(json_codec, "encode_fast", raise_time_is_up)
    monkeypatch.setattr(morphir, "encode_fast", raise_time_is_up)
    for codec in codecs:
        with pytest.raises(TimeIsUp):
            codec.request("tools/call", {"name": "x"}, 1)


def test_the_decoder_does_not_catch_the_exception_of_a_signal_handler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    codecs = make_codecs()
    monkeypatch.setattr(json_codec, "decode_fast", raise_time_is_up)
    for codec in codecs:
        with pytest.raises(TimeIsUp):
            codec.decode(b'{"jsonrpc":"2.0","id":1,"result":1}')
