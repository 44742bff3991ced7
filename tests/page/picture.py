"""PNG pictures made small: the 256 commonest colours of a screenshot stand for all."""

from __future__ import annotations

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_BITS = 5  # of each channel, to find the colours that are common


def smaller(png: bytes) -> bytes:
    """Return an RGB picture with a palette; text and lines stay sharp."""
    pixels = decode(png)
    flat = pixels.reshape(-1, 3).astype(np.int64)
    keys = ((flat >> (8 - _BITS)) << np.array([2 * _BITS, _BITS, 0])).sum(axis=1)
    found, place, counts = np.unique(keys, return_inverse=True, return_counts=True)
    # The commonest exact colour of each cell stands for the cell.
    exact = flat[:, 0] << 16 | flat[:, 1] << 8 | flat[:, 2]
    colours, first, times = np.unique(exact, return_index=True, return_counts=True)
    cells = place[first]
    best = np.lexsort((times, cells))
    representative = np.zeros(len(found), dtype=np.int64)
    representative[cells[best]] = colours[best]
    common = np.argsort(-counts)[:256]
    palette = _channels(representative[common])
    nearest = _nearest(_channels(representative), palette)
    return _encode(nearest[place].reshape(pixels.shape[:2]).astype(np.uint8), palette)


def _channels(colours: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.stack([colours >> 16, colours >> 8 & 255, colours & 255], axis=1)


def _nearest(colours: NDArray[np.int64], palette: NDArray[np.int64]) -> NDArray[np.intp]:
    return np.array([int(((palette - colour) ** 2).sum(axis=1).argmin()) for colour in colours])


def decode(png: bytes) -> NDArray[np.uint8]:
    """Return the pixels of an 8-bit RGB picture, as browsers make them."""
    if png[:8] != _SIGNATURE:
        raise ValueError("not a PNG")
    at, data, width, height = 8, b"", 0, 0
    while at < len(png):
        size, kind = struct.unpack(">I4s", png[at : at + 8])
        body = png[at + 8 : at + 8 + size]
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", body[:10])
            if (depth, colour) != (8, 2):
                raise ValueError(f"{depth} bits of colour type {colour}: expected 8-bit RGB")
        elif kind == b"IDAT":
            data += body
        at += size + 12
    rows = np.frombuffer(zlib.decompress(data), dtype=np.uint8).reshape(height, 1 + width * 3)
    return _unfiltered(rows).reshape(height, width, 3)


def _unfiltered(rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    out = np.zeros((rows.shape[0], rows.shape[1] - 1), dtype=np.uint8)
    above = bytes(out.shape[1])
    for number, row in enumerate(rows):
        line = bytearray(row[1:].tobytes())
        for at in range(len(line) if row[0] else 0):
            left = line[at - 3] if at >= 3 else 0
            corner = above[at - 3] if at >= 3 else 0
            line[at] = (line[at] + _predicted(int(row[0]), left, above[at], corner)) & 255
        above = bytes(line)
        out[number] = np.frombuffer(above, dtype=np.uint8)
    return out


def _predicted(kind: int, left: int, up: int, corner: int) -> int:
    if kind == 1:
        return left
    if kind == 2:
        return up
    if kind == 3:
        return (left + up) // 2
    far = left + up - corner
    return min((left, up, corner), key=lambda each: abs(far - each))


def _encode(indices: NDArray[np.uint8], palette: NDArray[np.int64]) -> bytes:
    height, width = indices.shape
    rows = np.zeros((height, width + 1), dtype=np.uint8)
    rows[:, 1:] = indices
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        (b"PLTE", palette.astype(np.uint8).tobytes()),
        (b"IDAT", zlib.compress(rows.tobytes(), 9)),
        (b"IEND", b""),
    )
    return _SIGNATURE + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in parts
    )
