"""Reading the answers of name servers (DNS), by which `exthost learn` knows the names of addresses
that an observed program connects to.

The bytes come from the network, so a damaged answer must be ignored. A record is a pointer to the
name in the question (`c0 0c`), then type, class, time to live, length and data.
"""

import struct

import pytest

from exthost.process.dns_answers import read_answer

QUESTION = b"\x03api\x07Example\x03com\x00" + struct.pack("!HH", 1, 1)
# Type 5 (CNAME), 1 (A) and 28 (AAAA).
ALIAS = b"\xc0\x0c" + struct.pack("!HHIH", 5, 1, 60, 2) + b"\xc0\x10"
IPV4 = b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 60, 4) + bytes((192, 0, 2, 7))
IPV6 = b"\xc0\x0c" + struct.pack("!HHIH", 28, 1, 60, 16) + bytes(15) + b"\x01"


def answer(*records: bytes) -> bytes:
    return struct.pack("!HHHHHH", 7, 0x8180, 1, len(records), 0, 0) + QUESTION + b"".join(records)


def test_the_name_and_all_addresses_are_read() -> None:
    assert read_answer(answer(ALIAS, IPV4, IPV6)) == ("api.example.com", ("192.0.2.7", "::1"))


def test_a_name_without_addresses_is_read() -> None:
    assert read_answer(answer()) == ("api.example.com", ())


@pytest.mark.parametrize("end", range(len(answer(IPV4))))
def test_a_cut_answer_is_ignored_or_has_no_address(end: int) -> None:
    assert read_answer(answer(IPV4)[:end])[1] == ()


def test_a_name_that_points_to_itself_does_not_cause_an_endless_loop() -> None:
    header = struct.pack("!HHHHHH", 7, 0x8180, 1, 0, 0, 0)
    assert read_answer(header + b"\xc0\x0c" + bytes(4)) == ("", ())
