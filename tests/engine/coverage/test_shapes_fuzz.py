"""Three hundred thousand messages, whole and broken: each is left to the general decoder, or is what it makes of them."""

from __future__ import annotations

import os
import random
from itertools import chain

import numpy as np
import pytest

from schemas.decode import decode
from schemas.events import GpuEvent
from streams.engine.coverage.shapes import Parsed, Shapes
from tests.engine.coverage.message_forms import accidents, message
from tests.engine.coverage.shape_twin import NEWEST_MS, Packed, shape_of

IS_COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
MESSAGES = 300_000 if IS_COMPILED else 2_000
OF_A_LONG_RUN = 1_000_000 if IS_COMPILED else 2_000
BATCH = 20_000 if IS_COMPILED else 500
_PLANES = (
    ("util", "util_ratio"),
    ("sm", "sm_ratio"),
    ("tensor", "tensor_ratio"),
    ("memory", "memory_used_mib"),
    ("power", "power_w"),
)


def compare(shapes: Shapes, packed: Packed, parsed: Parsed) -> int:
    """How many records were taken; all of these are what the general decoder makes of them."""
    taken = np.flatnonzero(parsed.shape >= 0)
    data = packed.data.tobytes()
    spans = zip(packed.value_at[taken].tolist(), packed.value_size[taken].tolist(), strict=True)
    values = [data[at : at + size] for at, size in spans]
    events: list[GpuEvent] = []
    for value in values:
        event = decode("gpu", value, (), NEWEST_MS)
        assert isinstance(event, GpuEvent), (value, event)
        events.append(event)
    for number, event, value in zip(parsed.shape[taken].tolist(), events, values, strict=True):
        assert shapes[number] == shape_of(event), value
    assert parsed.time_ms[taken].tolist() == [event.time_ms for event in events]
    assert parsed.interval_ms[taken].tolist() == [event.interval_ms for event in events]
    ids = zip(parsed.id_at[taken].tolist(), parsed.id_size[taken].tolist(), strict=True)
    assert [data[at : at + size].decode() for at, size in ids] == [event.id for event in events]
    counts = np.zeros(len(parsed.shape), np.int64)
    counts[taken] = [len(event.gpus) for event in events]
    assert parsed.value_ptr.tolist() == [0, *np.cumsum(counts).tolist()]
    for plane, field in _PLANES:
        found = getattr(parsed, plane)
        wanted = [getattr(event, field) for event in events]
        if all(values is None for values in wanted):
            assert len(found) == 0
            continue
        none = float("nan")
        lists = (w if w is not None else [none] * len(e.gpus) for w, e in zip(wanted, events, strict=True))
        want = np.fromiter(chain.from_iterable(lists), np.float64)
        same = (found.view(np.int64) == want.view(np.int64)) | (np.isnan(found) & np.isnan(want))
        assert len(found) == len(want)
        assert same.all(), (plane, found[~same], want[~same])
    return len(taken)


def fuzz(seed: int, count: int) -> float:
    """The share of messages that were taken."""
    rng, draw = random.Random(seed), np.random.default_rng(seed)
    shapes = Shapes()
    newest_ms = np.full(BATCH, NEWEST_MS)
    taken = 0
    for number in range(count // BATCH):
        packed = accidents(draw, [message(rng) for _ in range(BATCH // 25)], BATCH, in_turn=number % 2 == 0)
        taken += compare(shapes, packed, shapes.parse(*packed, newest_ms))
    return taken / count


def test_no_message_is_read_otherwise_than_by_the_general_decoder() -> None:
    assert fuzz(1, MESSAGES) > 0.1


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 12))
def test_nor_are_ten_million_others(seed: int) -> None:
    assert fuzz(seed, OF_A_LONG_RUN) > 0.1
