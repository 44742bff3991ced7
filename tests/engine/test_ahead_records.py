"""Records whose times are ahead of the log: counted by sender and minute, alike however the log is cut or taken up again."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.clock_table import KEYS, RECORDS_AHEAD
from streams.engine.batch import LogBatch, LogRecord
from streams.engine.pricing.book import PriceBook
from streams.engine.settings import ShardSettings
from streams.engine.shard import ahead_records
from streams.engine.shard.shard import Shard
from tests.raw_records import raw

T0 = 1_780_308_000_000
MINUTE = 60_000
FUTURE_MS = 5 * MINUTE  # "more than 5 min later than the log time"
Rows = dict[tuple[Any, ...], tuple[int, int, int]]


def shard(run_start_ms: int | None = None) -> Shard:
    return Shard(0, ShardSettings(run_start_ms=run_start_ms), PriceBook.empty())


def beat(offset: int, log_ms: int, ahead_ms: int, source: str = "sdk", **fields: Any) -> LogRecord:
    about = {"source": source, "id": f"e{offset}", "job_id": "run-1", "type": "heartbeat", **fields}
    return LogRecord(offset, log_ms, json.dumps({**about, "time_ms": log_ms + ahead_ms}).encode())


def sample(offset: int, log_ms: int, ahead_ms: int, node: str = "n1", source: str = "dcgm") -> LogRecord:
    about = {
        "source": source,
        "node": node,
        "job_id": "run-1",
        "interval_ms": 1000,
        "gpu": "0",
        "util_ratio": 1.0,
    }
    return LogRecord(offset, log_ms, json.dumps({**about, "time_ms": log_ms + ahead_ms}).encode())


def fold(one: Shard, topic: str, *records: LogRecord) -> None:
    read = raw(records) if topic == "gpu" else records
    one.fold(LogBatch(topic, 0, records[0].offset, records[-1].offset + 1, read))


def stored(one: Shard, version: int = 1) -> Rows:
    rows = one.checkpoint(T0, version, open_attempts=False).tables.get(RECORDS_AHEAD)
    return {} if rows is None else by_key(rows.to_pylist())


def by_key(rows: list[dict[str, Any]]) -> Rows:
    return {
        tuple(row[name] for name in KEYS[RECORDS_AHEAD] if name != "shard"): (
            row["records"],
            row["refused"],
            row["most_ahead_ms"],
        )
        for row in rows
    }


def minutes(rows: Rows) -> dict[tuple[str, str, str, int], tuple[int, int, int]]:
    return {(*key[:-1], round(key[-1].timestamp() * 1000 - T0) // MINUTE): row for key, row in rows.items()}


def test_refused_records_are_counted_by_sender_and_minute() -> None:
    one = shard()
    fold(
        one,
        "jobs",
        beat(0, T0, FUTURE_MS),
        beat(1, T0 + 1, FUTURE_MS + 1),
        beat(2, T0 + 2, FUTURE_MS + 70_000),
        beat(3, T0 + MINUTE, FUTURE_MS + 9),
        beat(4, T0 + MINUTE, FUTURE_MS + 8, source="other"),
    )
    fold(
        one, "gpu", sample(0, T0, 2 * FUTURE_MS), sample(1, T0 + 5, 0), sample(2, T0 + 6, 3 * FUTURE_MS, "n2")
    )
    assert minutes(stored(one)) == {
        ("sdk", "", "jobs", 0): (2, 2, FUTURE_MS + 70_000),
        ("sdk", "", "jobs", 1): (1, 1, FUTURE_MS + 9),
        ("other", "", "jobs", 1): (1, 1, FUTURE_MS + 8),
        ("dcgm", "n1", "gpu", 0): (1, 1, 2 * FUTURE_MS),
        ("dcgm", "n2", "gpu", 0): (1, 1, 3 * FUTURE_MS),
    }
    assert stored(one, 2) == {}


def test_a_replay_meters_them_and_counts_them_all_the_same() -> None:
    one = shard(run_start_ms=T0 + 90 * MINUTE)
    fold(one, "jobs", beat(0, T0, 40 * MINUTE), beat(1, T0, 200 * MINUTE))
    fold(one, "gpu", sample(0, T0, 40 * MINUTE), sample(1, T0, 0), sample(2, T0, 200 * MINUTE))
    assert minutes(stored(one)) == {
        ("sdk", "", "jobs", 0): (2, 1, 200 * MINUTE),
        ("dcgm", "n1", "gpu", 0): (2, 1, 200 * MINUTE),
    }


def test_what_is_wrong_in_another_way_and_the_canary_are_not_counted() -> None:
    one = shard()
    fold(one, "jobs", beat(0, T0, 2 * FUTURE_MS, type="nonsense"), beat(1, T0, 2 * FUTURE_MS, gpu_count=-1))
    fold(one, "jobs", beat(2, T0, 2 * FUTURE_MS, source="trainfare-canary"))
    assert stored(one) == {}
    assert one.tallies["jobs"].dead_lettered == 3


def test_senders_under_ever_new_names_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead_records, "SENDERS_AT_MOST", 3)
    one = shard()
    fold(one, "jobs", *(beat(at, T0, 2 * FUTURE_MS, source=f"s{at}") for at in range(5)))
    fold(one, "jobs", *(beat(at, T0 + MINUTE, 2 * FUTURE_MS, source=f"s{at}") for at in range(5, 10)))
    assert sorted(key[0] for key in stored(one)) == ["s0", "s1", "s2", "s5", "s6", "s7"]


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**32))
def test_any_cut_and_any_restart_give_the_same_rows(seed: int) -> None:
    chance = random.Random(seed)
    run_start_ms = chance.choice((None, T0 + 90 * MINUTE))
    logs: dict[str, list[LogRecord]] = {"jobs": [], "gpu": []}
    for topic, of_topic in logs.items():
        at_ms = T0
        for offset in range(chance.randrange(2, 40)):
            at_ms += chance.choice((0, 0, 9_000, 45_000, -2_000))
            ahead_ms, name = chance.choice((0, FUTURE_MS, FUTURE_MS + 1, 40 * MINUTE)), chance.choice("ab")
            make = beat if topic == "jobs" else sample
            of_topic.append(make(offset, at_ms, ahead_ms, source=name))

    def rows_of(cut: bool) -> Rows:
        one, found, blobs = shard(run_start_ms), Rows(), list[bytes]()
        version = 0
        for topic, of_topic in logs.items():
            at = 0
            while at < len(of_topic):
                size = chance.randrange(1, 6) if cut else len(of_topic)
                fold(one, topic, *of_topic[at : at + size])
                at += size
                if not cut or chance.random() < 0.5:
                    version += 1
                    checkpoint = one.checkpoint(T0, version, open_attempts=False)
                    blobs.append(checkpoint.snapshot)
                    found |= (
                        by_key(checkpoint.tables[RECORDS_AHEAD].to_pylist())
                        if RECORDS_AHEAD in checkpoint.tables
                        else {}
                    )
                    if cut and chance.random() < 0.5:
                        one = Shard.restore(0, one.settings, PriceBook.empty(), blobs)
        return found | stored(one, version + 1)

    assert rows_of(cut=True) == rows_of(cut=False)
