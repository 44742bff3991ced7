"""Whoever has seen a canary's job in Kafka adds nothing to it: a shard charges a run of it what a run costs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from schemas.canary_proof import CanaryProof
from schemas.decode import decode
from schemas.events import PriceEvent
from schemas.reserved import CANARY
from schemas.tables import DEAD_LETTERS, JOB_MINUTES, JOBS
from streams.engine.batch import LogBatch, LogRecord
from streams.engine.pricing.book import PriceBook
from streams.engine.settings import ShardSettings
from streams.engine.shard.shard import Shard
from streams.selfcheck.canary.plan import EXPECTED_NANO, CanaryOptions, events_of, price_at, run_at
from streams.topics import Topic
from tests.raw_records import raw as as_raw

PROOF = CanaryProof(b"k" * 32)
AT_MS = 1_800_000_000_000
RUN = run_at(AT_MS, CanaryOptions(1))
SETTINGS = ShardSettings(canary=PROOF)


def book() -> PriceBook:
    topic, _, record = price_at(AT_MS - 60_000)
    event = decode(topic, PROOF.signed(topic, record), (), AT_MS, PROOF)
    assert isinstance(event, PriceEvent)
    return PriceBook.empty().with_events([event])


def honest() -> dict[Topic, list[bytes]]:
    found: dict[Topic, list[bytes]] = {}
    for topic, _, event in events_of(RUN):
        found.setdefault(topic, []).append(PROOF.signed(topic, event))
    return found


def hostile() -> dict[Topic, list[bytes]]:
    """100 GPUs, for an hour, for the job of a run whose ids were read in Kafka."""
    base: dict[str, Any] = {"job_id": RUN.job_id, "attempt": 1, "source": CANARY}
    seen = [msgspec.json.decode(each)["id"] for each in honest()[Topic.JOBS]]
    hour = 3_600_000
    jobs = [
        {**base, "id": seen[1], "type": "queued", "time_ms": RUN.begin_ms - hour, "gpu_count": 100},
        {**base, "id": seen[2], "type": "allocated", "time_ms": RUN.begin_ms - hour, "gpu_count": 100},
        {**base, "id": "mine", "source": "me", "type": "scaled", "time_ms": RUN.begin_ms, "gpu_count": 100},
        {
            **base,
            "id": "two",
            "source": "me",
            "attempt": 2,
            "type": "started",
            "time_ms": RUN.begin_ms,
            "gpu_count": 100,
        },
    ]
    sample = {"interval_ms": 10_000, "node": "n1", "gpus": ["0"], "util_ratio": [1.0], "time_ms": RUN.end_ms}
    gpu = [{**base, **sample, "attempt": attempt} for attempt in (1, 2)]
    network = [
        {**base, "id": "w", "interval_ms": 0, "bytes": 10**12, "path": "internet", "time_ms": RUN.end_ms}
    ]
    return {
        topic: [msgspec.json.encode(each) for each in events]
        for topic, events in {Topic.JOBS: jobs, Topic.GPU: gpu, Topic.NETWORK: network}.items()
    }


def fed(values: dict[Topic, list[bytes]], *, raw: bool, settings: ShardSettings = SETTINGS) -> dict[str, Any]:
    shard = Shard(0, settings, book())
    for topic, each in values.items():
        records = [LogRecord(at, AT_MS, value) for at, value in enumerate(each)]
        assert shard.fold(LogBatch(topic, 0, 0, len(records), as_raw(records) if raw else records)) is None
    return dict(shard.checkpoint(AT_MS, 1, open_attempts=True).tables)


def rows(tables: dict[str, Any], table: str) -> list[dict[str, Any]]:
    return tables[table].to_pylist() if table in tables else []


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("first", ["honest", "hostile"])
def test_others_events_of_a_canary_s_job_are_dead_letters_and_cost_it_nothing(
    first: str, *, raw: bool
) -> None:
    alone = fed(honest(), raw=raw)
    pair = (honest(), hostile()) if first == "honest" else (hostile(), honest())
    both = {topic: [*pair[0][topic], *pair[1][topic]] for topic in pair[0]}
    attacked = fed(both, raw=raw)
    for table in (JOB_MINUTES, JOBS):
        assert rows(attacked, table) == rows(alone, table)
        assert rows(alone, table)
    assert sum(int(row["cost_usd"] * 10**9) for row in rows(attacked, JOB_MINUTES)) == EXPECTED_NANO
    refused = [row["reason"] for row in rows(attacked, DEAD_LETTERS)]
    assert refused == ["reserved_name"] * sum(map(len, hostile().values()))


@pytest.mark.parametrize("raw", [False, True])
def test_what_is_sent_again_word_for_word_counts_once(*, raw: bool) -> None:
    alone = fed(honest(), raw=raw)
    again = fed({topic: each * 3 for topic, each in honest().items()}, raw=raw)
    assert rows(again, JOB_MINUTES) == rows(alone, JOB_MINUTES)
    assert not rows(again, DEAD_LETTERS)


@pytest.mark.parametrize("proof", [None, CanaryProof(b"o" * 32)])
@pytest.mark.parametrize("raw", [False, True])
def test_a_log_read_without_its_key_has_no_canary_and_says_so(
    proof: CanaryProof | None, *, raw: bool
) -> None:
    found = fed(honest(), raw=raw, settings=replace(SETTINGS, canary=proof))
    assert not rows(found, JOB_MINUTES)
    assert {row["reason"] for row in rows(found, DEAD_LETTERS)} == {"reserved_name"}
    assert len(rows(found, DEAD_LETTERS)) == sum(map(len, honest().values()))
