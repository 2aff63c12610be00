"""Reads the answers of name servers (DNS, RFC 1035): which name was looked up, and which addresses
it has.

The observer of `exthost learn` reads the answers that a program gets (`access_observer`), so that
it can propose names in place of addresses. An answer may be hostile: it is read within bounds.
"""

import ipaddress
import struct

_HEADER_BYTES = 12
# The types of records with addresses, A and AAAA, and how many bytes an address has.
_ADDRESS_BYTES = {1: 4, 28: 16}
# A name has fewer parts. Pointers count as parts, since they may form a loop.
_MAX_NAME_PARTS = 128

# A name is a list of parts (`www`, `example`, `org`), each after a byte with its length, up to a
# length of 0. If the two highest bits of a length are set, this byte and the next are a pointer:
# the offset in the message at which the rest of the name is.
_POINTER = 0xC0


def read_answer(data: bytes) -> tuple[str, tuple[str, ...]]:
    """Return the name of the question, in lower case without a dot at its end, and the addresses of
    the answer. Both are empty if the data is not an answer that can be read."""
    try:
        questions, answers = struct.unpack("!4xHH4x", data[:_HEADER_BYTES])
        if questions != 1:
            return "", ()
        name, offset = _read_name(data, _HEADER_BYTES)
        offset += 4  # type and class
        addresses = []
        for _ in range(answers):
            _, offset = _read_name(data, offset)
            # type, class, time to live, length of the data
            kind, _, _, length = struct.unpack("!HHIH", data[offset : offset + 10])
            offset += 10
            if _ADDRESS_BYTES.get(kind) == length and offset + length <= len(data):
                addresses.append(str(ipaddress.ip_address(data[offset : offset + length])))
            offset += length
    except (struct.error, IndexError, ValueError):
        return "", ()
    return name, tuple(addresses)


def _read_name(data: bytes, offset: int) -> tuple[str, int]:
    """Return the name at this offset, and the offset after it. Raises IndexError, UnicodeError or
    ValueError."""
    parts: list[str] = []
    end = 0  # the offset after the first pointer; 0 before it
    for _ in range(_MAX_NAME_PARTS):
        length = data[offset]
        if length >= _POINTER:
            end = end or offset + 2
            offset = (length & 0x3F) << 8 | data[offset + 1]
            continue
        offset += 1
        if length == 0:
            return ".".join(parts).lower(), end or offset
        parts.append(data[offset : offset + length].decode("ascii"))
        offset += length
    raise ValueError("the name has too many parts")
