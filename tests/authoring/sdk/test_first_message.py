"""The dialect of a host, by its first bytes."""

import pytest

from exthost.authoring.sdk.first_message import detect_dialect


@pytest.mark.parametrize(
    ("first", "dialect"),
    [
        (b'{"id":0,"method":"initialize","params":{}}\n', "morphir"),
        (b'{"jsonrpc":"2.0","method":"initialize","params":{"extension_id":"x"},"id":0}\n', "nexo"),
        (b'{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{}}\n', "mcp"),
        (
            b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":""}}\n',
            "mcp",
        ),
        (b'\n {"jsonrpc":"2.0","id":1,"method":"extension/initialize"}\r\n', "roder"),
        (b"content-length: 2\r\n\r\n{}", "synaps"),
        (b"\0\0\0\x02ab", "cigen"),
        (b"GET / HTTP/1.1\n", ""),
        (b"{]\n", ""),
        (b"7\n", ""),
        (b'{"jsonrpc":"2.0"}\n', ""),
    ],
)
def test_no_two_dialects_begin_alike(first: bytes, dialect: str) -> None:
    assert detect_dialect(first) == dialect
    # However few bytes come at first, none of them is taken for another dialect.
    for end in range(len(first)):
        assert detect_dialect(first[:end]) in (None, dialect)
