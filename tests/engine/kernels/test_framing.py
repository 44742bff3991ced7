"""Records in the bytes of a fetch: as aiokafka reads them, as the naive twin does, and never outside of the bytes."""

from __future__ import annotations

import ctypes
import mmap
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import _DefaultRecordBatchPy
from aiokafka.record.util import decode_varint_py
from hypothesis import given
from hypothesis import strategies as st

from streams.engine.kernels.framing import (
    BATCH,
    HEADER_SIZE,
    RECORD_SIZE_MIN,
    count_batches,
    frame_records,
    read_batches,
)
from tests.engine.kernels.naive_framing import BadError, Framed, frame
from tests.transport.batches import Written, batch

HEADERS = st.lists(st.tuples(st.text(max_size=9), st.none() | st.binary(max_size=9)), max_size=3)
WRITTEN = st.builds(
    Written,
    delta=st.integers(0, 3),
    timestamp=st.integers(0, 2**41),
    value=st.none() | st.binary(max_size=200),
    key=st.none() | st.binary(max_size=9),
    headers=HEADERS,
)


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """Batches that follow each other with gaps, some of them emptied or shortened by compaction, and a piece of one."""
    data = bytearray()
    offset = draw(st.integers(0, 2**40))
    for _ in range(draw(st.integers(1, 4))):
        records, at = [], 0
        for each in draw(st.lists(WRITTEN, max_size=5)):
            at += each.delta
            records.append(Written(at, each.timestamp, each.value, each.key, each.headers))
            at += 1
        last = at + draw(st.integers(0, 3))
        appended_ms = draw(st.none() | st.integers(0, 2**41))
        data += batch(offset, records, last_delta=last, appended_ms=appended_ms)
        offset += last + 1 + draw(st.integers(0, 5))
    if draw(st.booleans()):
        data += batch(offset, [Written(0, 1, b"cut off")])[: draw(st.integers(1, 70))]
    return bytes(data)


def framed(data: bytes, wanted: int, where: Any = None) -> list[Framed]:
    """By the kernels; BadError as from the twin.  `where`: an array that already holds the bytes."""
    array = np.frombuffer(data, np.uint8) if where is None else where
    count = count_batches(array)
    if count < 0:
        raise BadError("length")
    batches = np.zeros(count, BATCH)
    if read_batches(array, batches) >= 0 or (batches["magic"] < 2).any():
        raise BadError("header")
    sizes = batches["records_end"] - batches["records_at"]
    if (batches["count"] * RECORD_SIZE_MIN > sizes).any():
        raise BadError("room")
    room = int(batches["count"].sum())
    offsets, log_ms, value_at, headers_at = (np.full(room, -7, np.int64) for _ in range(4))
    value_size = np.full(room, -7, np.int32)
    filled, bad = frame_records(array, batches, wanted, offsets, log_ms, value_at, value_size, headers_at)
    if bad >= 0:
        raise BadError("records")
    columns = (offsets, log_ms, value_at, value_size, headers_at)
    assert all((column[filled:] == -7).all() for column in columns)
    return [Framed(*(int(column[k]) for column in columns)) for k in range(filled)]


class PythonBatch(_DefaultRecordBatchPy):  # type: ignore[misc]  # marked final
    """Without the compiled numbers, which may read behind the end of bad bytes and end the process."""

    def _read_msg(self) -> Any:
        return super()._read_msg(decode_varint_py)


def by_aiokafka(data: bytes, wanted: int) -> list[tuple[int, int, bytes | None]]:
    """What its parser makes of whole batches: offset, timestamp, value."""
    found, at = [], 0
    while at + 12 <= len(data):
        end = at + 12 + int.from_bytes(data[at + 8 : at + 12], "big", signed=True)
        if end > len(data):
            break
        read = PythonBatch(data[at:end])
        for record in read:
            if record.offset >= wanted:
                found.append((record.offset, record.timestamp, record.value))
                wanted = record.offset + 1
        # A batch all below what was asked for would lead the fetcher back; no broker sends one.
        wanted, at = max(wanted, read.next_offset), end
    return found


def values(data: bytes, rows: list[Framed]) -> list[tuple[int, int, bytes | None]]:
    return [
        (row.offset, row.log_ms, None if row.value_size < 0 else data[row.value_at :][: row.value_size])
        for row in rows
    ]


@given(logs(), st.integers(0, 30))
def test_all_records_are_where_aiokafka_finds_them(data: bytes, above: int) -> None:
    wanted = int.from_bytes(data[:8], "big") + above
    found = framed(data, wanted)
    assert found == frame(data, wanted)
    assert values(data, found) == by_aiokafka(data, wanted)


def mutated(data: bytes, seed: int) -> bytes:
    """Some bytes of it are others, or it is shorter; often where the numbers stand."""
    chosen = random.Random(seed)
    changed = bytearray(data)
    for _ in range(chosen.randint(1, 3)):
        at = chosen.randrange(len(changed))
        if chosen.random() < 0.5:
            at = min(at, HEADER_SIZE + 12)
        changed[at] = chosen.choice((0, 1, 127, 128, 255, changed[at] ^ (1 << chosen.randrange(8))))
    return bytes(changed[: chosen.randint(1, len(changed))] if chosen.random() < 0.1 else changed)


@given(logs(), st.integers(0, 2**32))
def test_of_changed_bytes_the_kernels_say_what_their_twin_says(data: bytes, seed: int) -> None:
    changed = mutated(data, seed)
    wanted = int.from_bytes(data[:8], "big")
    try:
        expected = frame(changed, wanted)
    except BadError:
        with pytest.raises(BadError):
            framed(changed, wanted)
    else:
        assert framed(changed, wanted) == expected


@given(logs(), st.integers(0, 2**32))
def test_what_aiokafka_refuses_in_the_records_is_refused(data: bytes, seed: int) -> None:
    header, changed = data[:HEADER_SIZE], mutated(data[HEADER_SIZE:] + b"\x00", seed)[:-1]
    wanted = int.from_bytes(data[:8], "big")
    try:
        by_aiokafka(header + changed, wanted)
    except CorruptRecordException as fault:
        if isinstance(fault.__cause__, UnicodeDecodeError):
            return  # the name of a header that is no text: read as well as it can be
        with pytest.raises(BadError):
            framed(header + changed, wanted)
    except Exception:  # noqa: BLE001 - of a header it has no words for
        return


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="guarded pages by mprotect")
@pytest.mark.parametrize("beyond", [0, 1])
def test_no_byte_outside_is_read(beyond: int) -> None:
    """Behind the bytes there is a page that ends the process when it is read; the control reads one byte of it."""
    code = f"from tests.engine.kernels.test_framing import walk_before_a_guarded_page as f; f({beyond})"
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, check=False)
    assert (done.returncode == 0) == (beyond == 0), done.stderr.decode()[-2000:]


def walk_before_a_guarded_page(beyond: int) -> None:
    """Frame changed logs whose last byte is the last one that may be read."""
    room = 4 * mmap.PAGESIZE
    pages = mmap.mmap(-1, room + mmap.PAGESIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(start + room), mmap.PAGESIZE, 0) == 0
    whole = np.frombuffer(pages, np.uint8)
    names = [("name", b"text"), ("", None)]
    log = b"".join(
        batch(k * 10, [Written(i, k, b"v" * i * k, None if i % 2 else b"key", names) for i in range(4)])
        for k in range(4)
    )
    for seed in range(3_000):
        changed = mutated(log, seed)
        here = whole[room - len(changed) : room + beyond]
        pages[room - len(changed) : room] = changed
        here.flags.writeable = False
        if beyond:
            here.sum()
        try:
            framed(changed, 0, here)
        except BadError:
            continue
