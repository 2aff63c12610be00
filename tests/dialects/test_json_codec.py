"""The fast ways of the JSON codecs, while a signal handler raises an exception."""

from typing import Any

import pytest

from exthost.dialects import find, json_codec
from exthost.dialects.codec import Codec, Role
from exthost.dialects.morphir import dialect as morphir


class TimeIsUp(Exception):
    pass


def interrupted(value: Any) -> Any:
    raise TimeIsUp


def codecs() -> list[Codec]:
    names = ("mcp", "morphir", "nexo", "roder", "synaps")
    return [find.find_dialect(name).codec(Role.HOST) for name in names]


def test_an_exception_of_a_signal_handler_is_not_taken_for_one_of_the_encoder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = codecs()
    monkeypatch.setattr(json_codec, "encode_fast", interrupted)
    monkeypatch.setattr(morphir, "encode_fast", interrupted)
    for codec in made:
        with pytest.raises(TimeIsUp):
            codec.request("tools/call", {"name": "x"}, 1)


def test_an_exception_of_a_signal_handler_is_not_taken_for_one_of_the_decoder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = codecs()
    monkeypatch.setattr(json_codec, "decode_fast", interrupted)
    for codec in made:
        with pytest.raises(TimeIsUp):
            codec.decode(b'{"jsonrpc":"2.0","id":1,"result":1}')
