"""Reads the answers of name servers: which name was looked up, and which addresses it has."""

import ipaddress
import struct

_HEADER_BYTES = 12
_ADDRESS_TYPES = {1: 4, 28: 16}  # A and AAAA, with the length of an address
_MAX_NAME_PARTS = 128
_POINTER = 0xC0


def read_answer(data: bytes) -> tuple[str, tuple[str, ...]]:
    """Return the name of the question, in lower case without a dot at its end, and the addresses of
    the answer. Both are empty if the data is not an answer that can be read."""
    try:
        questions, answers = struct.unpack("!4xHH4x", data[:_HEADER_BYTES])
        if questions != 1:
            return "", ()
        name, at = _read_name(data, _HEADER_BYTES)
        at += 4  # type and class
        addresses = []
        for _ in range(answers):
            _, at = _read_name(data, at)
            kind, _, _, length = struct.unpack("!HHIH", data[at : at + 10])
            at += 10
            if _ADDRESS_TYPES.get(kind) == length and at + length <= len(data):
                addresses.append(str(ipaddress.ip_address(data[at : at + length])))
            at += length
    except (struct.error, IndexError, ValueError):
        return "", ()
    return name, tuple(addresses)


def _read_name(data: bytes, at: int) -> tuple[str, int]:
    """Return the name at this offset, and the offset after it."""
    parts: list[str] = []
    end = 0
    for _ in range(_MAX_NAME_PARTS):
        length = data[at]
        if length >= _POINTER:
            end = end or at + 2
            at = (length & 0x3F) << 8 | data[at + 1]
            continue
        at += 1
        if length == 0:
            return ".".join(parts).lower(), end or at
        parts.append(data[at : at + length].decode("ascii"))
        at += length
    raise ValueError("the name has too many parts")
