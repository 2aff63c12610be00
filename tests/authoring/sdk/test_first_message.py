"""A program of the SDK that gets no `--dialect` detects which protocol the host speaks.

`detect_dialect` returns the name of the dialect in which the first bytes of the host are written,
"" if it is not a known dialect, and None if more bytes are needed.
"""

import pytest
from exthost_sdk.first_message import detect_dialect


@pytest.mark.parametrize(
    ("first_bytes", "dialect"),
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
def test_the_dialect_is_detected_by_the_first_bytes(first_bytes: bytes, dialect: str) -> None:
    assert detect_dialect(first_bytes) == dialect
    # No beginning of the message is detected as another dialect.
    for end in range(len(first_bytes)):
        assert detect_dialect(first_bytes[:end]) in (None, dialect)
