"""The part of the protobuf wire format that is needed to change messages of Lance."""

from __future__ import annotations

from collections.abc import Iterator

_VARINT, _DELIMITED = 0, 2
_FIXED_BYTES = {1: 8, 5: 4}


def varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def length_delimited(number: int, body: bytes) -> bytes:
    return varint(number << 3 | _DELIMITED) + varint(len(body)) + body


def number_field(number: int, value: int) -> bytes:
    return varint(number << 3 | _VARINT) + varint(value)


def number_in(field: bytes) -> int:
    """The value of a field that `number_field` makes."""
    _, position = _read_varint(field, 0)
    return _read_varint(field, position)[0]


def fields(message: bytes) -> Iterator[tuple[int, bytes, bytes | None]]:
    """(number, all bytes of the field, its body when it has a length), in order."""
    position = 0
    while position < len(message):
        begin = position
        key, position = _read_varint(message, position)
        body = None
        kind = key & 7
        if kind == _VARINT:
            _, position = _read_varint(message, position)
        elif kind == _DELIMITED:
            length, position = _read_varint(message, position)
            body = message[position : position + length]
            position += length
        elif kind in _FIXED_BYTES:
            position += _FIXED_BYTES[kind]
        else:
            raise ValueError(f"a field of unknown kind {kind} at {begin}")
        yield key >> 3, message[begin:position], body


def _read_varint(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
