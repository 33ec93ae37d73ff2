"""The protobuf wire format: reading and writing tags, varints and length-delimited parts."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
"""The zero of times."""


class WireError(ValueError):
    """Bytes that are not a protobuf message."""


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the unsigned number at a place, and the place behind it.

    Raises:
        WireError: the bytes end too early or the number is longer than ten bytes.
    """
    value = shift = 0
    while True:
        try:
            byte = data[at]
        except IndexError:
            raise WireError("message ends inside a number") from None
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise WireError("number longer than ten bytes")


def signed(value: int) -> int:
    """Return an int32 or int64 from its unsigned form."""
    value &= 2**64 - 1
    return value - 2**64 if value >= 2**63 else value


def fields(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """Yield every field of a message as (number, wire type, number or bytes), in order.

    Raises:
        WireError: not a message.
    """
    at, end = 0, len(data)
    while at < end:
        tag, at = varint(data, at)
        number, kind = tag >> 3, tag & 7
        value: int | bytes
        if kind == VARINT:
            value, at = varint(data, at)
        elif kind == BYTES:
            length, at = varint(data, at)
            if length > end - at:
                raise WireError("message ends inside a field")
            value = data[at : at + length]
            at += length
        elif kind in (FIXED64, FIXED32):
            width = 8 if kind == FIXED64 else 4
            if width > end - at:
                raise WireError("message ends inside a field")
            value = data[at : at + width]
            at += width
        else:
            raise WireError(f"unknown wire type {kind}")
        if number == 0:
            raise WireError("field number 0")
        yield number, kind, value


def encode_varint(value: int) -> bytes:
    """Return a number in varint form; negative ones as their 64-bit complement."""
    value &= 2**64 - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_bytes(number: int, value: bytes | str) -> bytes:
    """Return a length-delimited field."""
    raw = value.encode() if isinstance(value, str) else value
    return encode_varint(number << 3 | BYTES) + encode_varint(len(raw)) + raw


def encode_number(number: int, value: int) -> bytes:
    """Return a varint field."""
    return encode_varint(number << 3 | VARINT) + encode_varint(value)
