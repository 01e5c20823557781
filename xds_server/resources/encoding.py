"""Fields of protobuf messages as bytes: a message may be written as its fields, one after another."""

from __future__ import annotations


def text_field(number: int, value: str) -> bytes:
    """A field of type string of any message."""
    return bytes_field(number, value.encode())


def bytes_field(number: int, value: bytes) -> bytes:
    """A field of type string, bytes or message. The number is below 16, so that the key takes one byte."""
    size = len(value)
    if size <= 0x7F:
        return bytes((number << 3 | 2, size)) + value
    return bytes((number << 3 | 2,)) + _varint(size) + value


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)
