"""What a live job costs in memory has a limit: what can never change again is not kept.

Each test lets a job live for days; what is stored of it stays the oracle's.
"""

from __future__ import annotations

import gc
import json
from dataclasses import replace

import pytest

from schemas.decode import decode
from schemas.events import PriceEvent
from streams.engine.batch import LogBatch, LogRecord
from streams.engine.coverage import coverage
from streams.engine.pricing.book import PriceBook
from streams.engine.pricing.recent import Recent
from streams.engine.reference_log import ReferenceLog
from streams.engine.repricing.price_changes import PriceChanges
from streams.engine.settings import FUTURE_MS, ShardSettings
from streams.engine.shard.sequencer import Ticks
from streams.engine.shard.shard import Shard
from tests.harness import FAR_FUTURE_MS, Meter
from tests.oracle.cases import T0, gpu, job, price
from tests.oracle.compute import compute
from tests.oracle.model import HOUR_MS, MINUTE_MS, Line
from tests.property.compare import assert_same

H, M = HOUR_MS, MINUTE_MS
SETTINGS = ShardSettings(run_start_ms=FAR_FUTURE_MS - FUTURE_MS, snapshots_per_round=3)


def fed(lines: list[Line], size: int) -> Meter:
    """A meter that read the lines in pieces, and was restored in the middle."""
    machine = Meter(SETTINGS)
    numbered = list(enumerate(lines))
    for begin in range(0, len(lines), size):
        machine.feed(numbered[begin : begin + size])
        if begin // size == len(lines) // size // 2:
            machine.restart()
    machine.checkpoint(machine.newest_ms)
    return machine


def test_minutes_that_no_sample_reaches_any_more_leave_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coverage, "_SPARE", 16)
    lines = [price("p", "2"), job("j", "started", T0, gpu_count=1)]
    for k in range(1, 4 * 24 * 6):  # four days, a sample of each tenth minute
        lines.append(gpu("j", T0 + k * 10 * M, M, {"a": 0.5}))
        lines.append(job("j", "heartbeat", T0 + k * 10 * M))
        if k % 100 == 99:  # of another GPU, as late as may be: an hour that began a day and an hour ago
            lines.append(gpu("j", T0 + k * 10 * M - 24 * H, H, {f"late{k}": 1.0}))
    machine = fed(lines, 50)
    assert_same(machine.tables(), compute(lines))
    held = machine.shards[0].coverage
    minutes = held.usage(held.rows_of(held.holders_of("j", 1))).minute
    # A quarter more than 25 h of them wait to be dropped, by the second pass after that; a pass comes with each piece.
    assert len(minutes) < 26 * 6 * 4 // 3 + 60 * 2
    assert int(minutes.min()) * M > machine.newest_ms - 44 * H


def test_minutes_of_jobs_that_say_nothing_for_days_leave_memory_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """They wait for an event that names price fields, a week and not for ever; GPUs without a job wait for none."""
    monkeypatch.setattr(coverage, "_SPARE", 16)
    lines = [price("p", "2"), job("j", "started", T0, gpu_count=1, purchase="spot")]
    for k in range(1, 12 * 24 * 2):  # twelve days, samples of each thirtieth minute
        lines.append(gpu("j", T0 + k * 30 * M, M, {"a": 0.5}))
        lines.append(gpu("", T0 + k * 30 * M, M, {"b": 0.5}))
    machine = fed(lines, 50)
    assert_same(machine.tables(), compute(lines))
    held = machine.shards[0].coverage
    oldest_ms = {
        job_id: int(held.usage(held.rows_of(held.holders_of(job_id, attempt))).minute.min()) * M
        for job_id, attempt in (("j", 1), ("", 0))
    }
    assert machine.newest_ms - 10 * 24 * H < oldest_ms["j"] < machine.newest_ms - 8 * 24 * H
    assert oldest_ms[""] > machine.newest_ms - 3 * 24 * H
    # Of late events, one divides the minutes that wait; the other moves a sum that is no longer divided, and no money.
    old_ms = T0 + 24 * H + 15 * M
    lines.append(job("j", "updated", old_ms, purchase="reserved"))
    lines.append(job("j", "updated", machine.newest_ms - 4 * 24 * H - 15 * M, purchase="on_demand"))
    machine.feed(list(enumerate(lines))[-2:])
    machine.checkpoint(machine.newest_ms)
    got, want = machine.tables(), compute(lines)
    assert got.ledger == want.ledger
    differs = {key for key in got.hours.keys() | want.hours if got.hours.get(key) != want.hours.get(key)}
    assert {key.hour for key in differs} == {old_ms // H}
    assert sum(row.productive_gpu_ms for row in got.hours.values()) == sum(
        row.productive_gpu_ms for row in want.hours.values()
    )


def test_minutes_of_a_metered_attempt_stay_as_a_price_may_come_for_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(coverage, "_SPARE", 16)
    lines = [price("p", "2"), *(gpu("j", T0 + k * 10 * M, M, {"a": 0.5}) for k in range(1, 3 * 24 * 6))]
    lines.append(price("p", "3", effective_ms=T0 + H))
    assert_same(fed(lines, 100).tables(), compute(lines))


def test_what_says_only_that_a_job_lives_is_not_kept_but_its_identity() -> None:
    lines = [price("p", "2"), job("j", "started", T0, gpu_count=1)]
    lines += [job("j", "heartbeat", T0 + k * M, id=f"h{k}") for k in range(1, 3000)]
    lines += [job("j", "heartbeat", T0 + 3000 * M, id=f"h{k}") for k in range(1, 3000, 7)]
    lines += [job("j", "updated", T0 + 3001 * M, owner="ann"), job("j", "updated", T0 + 3002 * M)]
    machine = fed(lines, 500)
    assert_same(machine.tables(), compute(lines))
    known = machine.shards[0].jobs["j"]
    assert len(known.attempts[1].events) == 2
    assert len(known.seen.dump()) == 16 * 3002


def test_checkpoints_that_no_end_can_fall_before_are_not_kept() -> None:
    lines = [price("p", "2"), job("j", "started", T0, gpu_count=1)]
    lines += [job("j", "checkpointed", T0 + k * 10 * M) for k in range(1, 6 * 72)]
    machine = fed(lines, 100)
    assert len(machine.shards[0].jobs["j"].attempts[1].events) < 6 * 26
    # What is left says as well how often it saves.
    assert machine.shards[0].jobs["j"].timelines()[1].saves_ms == (10 * M,) * 3
    # The earliest end that is not too late: what was lost begins at the checkpoint before it.
    newest_ms = T0 + (6 * 72 - 1) * 10 * M
    lines.append(job("j", "failed", newest_ms - 24 * H + 5 * M))
    machine = fed(lines, 100)
    assert_same(machine.tables(), compute(lines))
    assert any(row.lost_quantity for row in machine.tables().ledger.values())


def test_a_horizon_that_is_raised_later_does_not_reach_behind_what_left_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(coverage, "_SPARE", 16)
    lines = [price("p", "2"), job("j", "started", T0, gpu_count=1)]
    for k in range(1, 4 * 24 * 6):
        lines += [gpu("j", T0 + k * 10 * M, M, {"a": 0.5}), job("j", "checkpointed", T0 + k * 10 * M)]
    machine = fed(lines, 50)
    usage = dict(machine.tables().usage)
    machine.settings = replace(SETTINGS, job_horizon_ms=7 * 24 * H)
    machine.restart()
    machine.restart()  # and it is known to the next owner, too
    late = [gpu("j", T0 + 10 * H, M, {"b": 1.0}), job("j", "failed", T0 + 10 * H)]
    late += [gpu("j", T0 + 73 * H, M, {"b": 1.0}), job("j", "failed", T0 + 73 * H)]  # of the last day
    machine.feed(list(enumerate(late, len(lines))))
    machine.checkpoint(machine.newest_ms)
    found = machine.tables()
    changed = {key for key in found.usage if found.usage[key] != usage.get(key)}
    assert {minute for minute, _, _ in changed} == {(T0 + 73 * H) // M - 1}
    assert [reason for _, reason in found.dead] == ["too_late", "too_late"]
    assert found.jobs["j"].state == "failed"


def test_prices_that_only_archived_jobs_saw_leave_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    # Of what other shards may still ask for, 16 MiB are kept beside.
    monkeypatch.setattr(PriceChanges, "_recent", Recent(0))
    shard = Shard(0, replace(SETTINGS, job_horizon_ms=H // 2), PriceBook.empty())
    reference = ReferenceLog()
    book = PriceBook.empty()
    books_before = books()
    for number in range(11):  # each under prices of its own, archived after half an hour, seen for six
        began_ms = T0 + number * H // 2
        event = decode("prices", value(price("p", str(number + 1), effective_ms=began_ms)), (), FAR_FUTURE_MS)
        assert isinstance(event, PriceEvent)
        book = book.with_events([event])
        reference.extend([(began_ms, event)], [], book, {})
        shard.set_prices(book)
        lines = [
            job(f"j{number}", "started", began_ms, gpu_count=1),
            job(f"j{number}", "completed", began_ms + M),
        ]
        records = [LogRecord(2 * number + k, began_ms, value(line)) for k, line in enumerate(lines)]
        shard.fold(LogBatch("jobs", 0, 2 * number, 2 * number + 2, records))
        shard.judge(Ticks(began_ms + 2 * M, began_ms + 2 * M), reference.view())
        shard.checkpoint(began_ms + 2 * M, number + 1, open_attempts=True)
    assert len(shard.jobs) < 4
    del reference, event
    assert books() - books_before <= len(shard.jobs) + 3


def books() -> int:
    gc.collect()
    return sum(isinstance(each, PriceBook) for each in gc.get_objects())


def value(line: Line) -> bytes:
    return line.value if isinstance(line.value, bytes) else json.dumps(line.value).encode()
