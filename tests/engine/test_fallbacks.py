"""Slow ways give the same figures, and are counted."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from streams import fallbacks
from streams.engine.batch import LogBatch, LogRecord
from streams.engine.pricing.book import PriceBook
from streams.engine.settings import ShardSettings
from streams.engine.shard.shard import Shard
from streams.transport import raw_batches, raw_fetch
from tests.raw_records import raw
from tests.transport.batches import batch
from tests.transport.test_raw_batches import PAIR, records_of

T0 = 1_789_999_980_000
SAMPLE = {"source": "t", "job_id": "j", "node": "n", "interval_ms": 1000, "gpus": ["0"], "util_ratio": [0.5]}


@pytest.fixture(autouse=True)
def counts(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    fresh: Counter[str] = Counter()
    monkeypatch.setattr(fallbacks, "counts", fresh)
    return fresh


def fed(*more: dict[str, Any]) -> Shard:
    shard = Shard(0, ShardSettings(), PriceBook.empty())
    records = [
        LogRecord(at, T0, json.dumps({**SAMPLE, "time_ms": T0 - at, **each}).encode())
        for at, each in enumerate(more)
    ]
    assert shard.fold(LogBatch("gpu", 0, 0, len(records), raw(records))) is None
    assert shard.books.applied == len(more)
    return shard


def test_what_the_kernel_takes_is_none(counts: Counter[str]) -> None:
    fed(*[{}] * 10)
    assert counts == {"gpu_shape": 1, "gpu_decoded": 0}


def test_a_new_key_in_each_message_is_seen(counts: Counter[str]) -> None:
    fed(*({f"key{number}": 1} for number in range(10)))
    assert counts["gpu_decoded"] == 10


def test_a_new_text_in_each_message_is_seen(counts: Counter[str]) -> None:
    fed(*({"node": f"n{number}"} for number in range(10)))
    assert counts["gpu_shape"] == 10


def test_a_checksum_without_its_c_part_is_seen(counts: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    fetched = bytes(batch(0, PAIR))
    list(records_of(raw_fetch.AsRaw(), fetched, 0))
    assert counts["checksum"] == 0
    monkeypatch.setattr(raw_batches, "_IS_FAST", False)
    list(records_of(raw_fetch.AsRaw(), fetched, 0))
    assert counts["checksum"] == 1
