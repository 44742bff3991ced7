"""What goes on is paid again and again without a look at its timeline: the rows are those of one look at the end."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.decode import decode
from schemas.durations import HOUR_MS
from schemas.events import PriceEvent
from schemas.tables import ATTEMPTS, JOB_HOURS, JOB_MINUTES, JOBS, KEYS, NODE_HOURS, NODE_MINUTES
from streams.engine.batch import LogBatch, LogRecord
from streams.engine.ledger import changed_hours
from streams.engine.ledger.hour_pieces import pieces_of
from streams.engine.pricing.book import PriceBook
from streams.engine.pricing.context import NOBODY
from streams.engine.settings import ShardSettings
from streams.engine.shard.shard import Shard
from streams.engine.state.attempt import AttemptState
from streams.engine.state.hour_measures import HourPieces, Sums
from streams.engine.timeline.attempts import Timeline
from streams.engine.timeline.lines import attempt_lines

T0 = 1_704_067_200_000
MINUTE_MS = 60_000
Json = dict[str, Any]
Rows = dict[tuple[str, tuple[object, ...]], Json]


def event(kind: str, after_ms: int, job_id: str = "j", **named: object) -> Json:
    key = f"{kind}{after_ms}{job_id}{sorted(named.items())}"
    return {
        "source": "s",
        "id": key,
        "time_ms": T0 + after_ms,
        "job_id": job_id,
        "type": kind,
        "gpu_type": "H100",
    } | named


def price(sku: str, usd: str, after_ms: int, **match: str) -> PriceEvent:
    value = {
        "source": "s", "id": f"{sku}{after_ms}", "time_ms": T0, "sku": sku, "component": "gpu", "usd": usd,
        "per": "gpu_hour", "effective_ms": T0 + after_ms,
    } | match  # fmt: skip
    found = decode("prices", json.dumps(value).encode(), (), T0 + 10**9)
    assert isinstance(found, PriceEvent)
    return found


BOOK = PriceBook.empty().with_events(
    [price("a", "2.5", -(10**9), gpu_type="H100"), price("a", "3", 7 * MINUTE_MS + 1, gpu_type="H100")]
)


def feed(shard: Shard, topic: str, events: Sequence[Json]) -> None:
    first = shard.position.next.get(topic, 0)
    records = [LogRecord(first + i, T0 + 10**9, json.dumps(value).encode()) for i, value in enumerate(events)]
    assert shard.fold(LogBatch(topic, 0, first, first + len(events), records)) is None


_TABLES = (JOB_MINUTES, NODE_MINUTES, JOBS, ATTEMPTS, JOB_HOURS, NODE_HOURS)


class Stored:
    """Tables of one shard, as a store has them."""

    def __init__(self, book: PriceBook = BOOK) -> None:
        self.shard = Shard(0, ShardSettings(), book)
        self.rows: Rows = {}
        self.version = 0

    def pay(self, after_ms: int, *, open_attempts: bool = True) -> dict[str, pa.Table]:
        """A checkpoint whose rows are stored; its tables."""
        self.version += 1
        point = self.shard.checkpoint(T0 + after_ms, self.version, open_attempts=open_attempts)
        assert not point.more
        for name in _TABLES:
            for row in point.tables[name].to_pylist() if name in point.tables else ():
                row.pop("version")
                key = tuple(row[column] for column in KEYS[name])
                self.rows[name, key] = row
        return point.tables

    def current(self) -> Rows:
        """Rows that count."""
        return {
            key: row
            for key, row in self.rows.items()
            if row.get("quantity") != 0
            and (key[0] not in (JOB_HOURS, NODE_HOURS) or any(row[name] for name in row if _is_measure(name)))
        }


def _is_measure(column: str) -> bool:
    return column.endswith(("_ms", "_usd")) and column not in KEYS[JOB_HOURS]


_EGRESS = {
    "source": "s", "id": "net", "time_ms": T0, "sku": "net", "component": "network", "usd": "0.09", "per": "gib",
    "effective_ms": 0,
}  # fmt: skip
_egress = decode("prices", json.dumps(_EGRESS).encode(), (), T0 + 10**9)
assert isinstance(_egress, PriceEvent)
BOOK_WITH_TRAFFIC = BOOK.with_events([_egress])
KINDS = ("started", "suspended", "resumed", "checkpointed", "scaled", "failed", "preempted", "completed")
instants = st.one_of(
    st.integers(0, 20).map(lambda minute: minute * MINUTE_MS),
    st.integers(0, 20 * MINUTE_MS),
    st.integers(57, 62).map(lambda minute: minute * MINUTE_MS),
)


@st.composite
def moments(draw: st.DrawFn) -> list[tuple[int, list[Json], list[Json]]]:
    """Payments at rising clocks, each with what of jobs and nodes comes before it; some of it is of the future."""
    clocks = sorted(draw(st.lists(instants, min_size=2, max_size=8)))
    found = []
    for clock_ms in clocks:
        jobs = [
            event(
                draw(st.sampled_from(KINDS)),
                draw(instants),
                attempt=draw(st.integers(1, 2)),
                gpu_count=draw(st.integers(1, 3)),
            )
            for _ in range(draw(st.integers(0, 2)))
        ]
        nodes = [
            event(draw(st.sampled_from(("provisioned", "updated", "terminated"))), draw(instants))
            | {"node": "n", "gpu_count": draw(st.integers(1, 3))}
            for _ in range(draw(st.integers(0, 1)))
        ]
        found.append((clock_ms, jobs, [{k: v for k, v in node.items() if k != "job_id"} for node in nodes]))
    return found


@st.composite
def usage(draw: st.DrawFn) -> tuple[list[Json], list[Json]]:
    """Samples and traffic."""
    samples = [
        sample(draw(instants) // 1000, draw(st.integers(1, 130)), attempt=draw(st.integers(1, 2)))
        for _ in range(draw(st.integers(0, 1)))
    ]
    amounts = [
        {
            "source": "s", "id": f"n{at_ms}", "time_ms": T0 + at_ms, "interval_ms": draw(st.integers(1, 130_000)),
            "job_id": "j", "attempt": draw(st.integers(1, 2)), "bytes": draw(st.integers(1, 10**12)),
            "path": "internet", "direction": "egress",
        }
        for at_ms in draw(st.lists(instants, max_size=1))
    ]  # fmt: skip
    return samples, amounts


@given(moments(), st.lists(usage(), min_size=8, max_size=8))
def test_payments_at_rising_clocks_come_to_the_hours_of_one_payment_with_usage_too(
    story: list[tuple[int, list[Json], list[Json]]], used: list[tuple[list[Json], list[Json]]]
) -> None:
    often, once = Stored(BOOK_WITH_TRAFFIC), Stored(BOOK_WITH_TRAFFIC)
    for (clock_ms, jobs, nodes), (samples, amounts) in zip(story, used, strict=False):
        for stored in (often, once):
            for topic, events in (("jobs", jobs), ("nodes", nodes), ("gpu", samples), ("network", amounts)):
                feed(stored.shard, topic, events)
        often.pay(clock_ms)
        often.pay(clock_ms + 1)  # nothing but time goes on
    once.pay(story[-1][0] + 1)
    assert often.current() == once.current()


def test_an_hour_that_goes_on_is_handed_over_without_a_look_at_what_it_is_made_of() -> None:
    stored, expected = Stored(BOOK_WITH_TRAFFIC), Stored(BOOK_WITH_TRAFFIC)
    node = {"source": "s", "id": "n", "time_ms": T0, "node": "n", "type": "provisioned", "gpu_count": 8}
    for one in (stored, expected):
        feed(one.shard, "jobs", [event("started", 0, gpu_count=8)])
        feed(one.shard, "nodes", [node])
    stored.pay(8 * MINUTE_MS)  # after the price has changed
    stored.pay(9 * MINUTE_MS)
    attempt, at = stored.shard.jobs["j"].attempts[1], stored.shard.nodes["n"]
    known, known_node = attempt.open_hour, at.open_hour
    assert known is not None
    assert known_node is not None
    stored.pay(10 * MINUTE_MS)
    assert attempt.open_hour is known
    assert at.open_hour is known_node
    stored.pay(60 * MINUTE_MS)
    assert attempt.open_hour is known
    stored.pay(61 * MINUTE_MS)
    assert attempt.open_hour is not known  # another hour
    assert at.open_hour is not known_node
    expected.pay(61 * MINUTE_MS)
    assert stored.current() == expected.current()


def test_an_hour_does_not_go_on_into_time_that_another_attempt_has() -> None:
    """The first attempt is reported to start later than the second one, which is still open."""
    stored, expected = Stored(), Stored()
    for one in (stored, expected):
        feed(one.shard, "jobs", [event("started", 0, gpu_count=8, attempt=2)])
        feed(one.shard, "jobs", [event("started", 5 * MINUTE_MS, gpu_count=8, attempt=1)])
        feed(one.shard, "jobs", [event("completed", 8 * MINUTE_MS, attempt=1)])
    for minute in (1, 2, 3, 6, 7):
        stored.pay(minute * MINUTE_MS)
    expected.pay(7 * MINUTE_MS)
    assert stored.current() == expected.current()


@given(moments())
def test_payments_at_rising_clocks_come_to_the_rows_of_one_payment(
    story: list[tuple[int, list[Json], list[Json]]],
) -> None:
    often = Stored()
    once = Stored()
    for clock_ms, jobs, nodes in story:
        for stored in (often, once):
            feed(stored.shard, "jobs", jobs)
            feed(stored.shard, "nodes", nodes)
        often.pay(clock_ms)
    once.pay(story[-1][0])
    assert often.current() == once.current()


def test_a_payment_looks_nothing_up_until_a_price_changes() -> None:
    stored = Stored()
    feed(stored.shard, "jobs", [event("started", 0, gpu_count=8)])
    stored.pay(MINUTE_MS)
    known = stored.shard.jobs["j"].attempts[1].open_accruals
    stored.pay(6 * MINUTE_MS)
    assert stored.shard.jobs["j"].attempts[1].open_accruals is known  # prolonged
    stored.pay(9 * MINUTE_MS)
    assert stored.shard.jobs["j"].attempts[1].open_accruals is not known  # the price is another one since
    expected = Stored()
    feed(expected.shard, "jobs", [event("started", 0, gpu_count=8)])
    expected.pay(9 * MINUTE_MS)
    assert stored.current() == expected.current()
    timeline = stored.shard.jobs["j"].timelines()[1]
    lines = attempt_lines(timeline.paid(T0 + 9 * MINUTE_MS), timeline.lost, BOOK, NOBODY)
    assert stored.shard.jobs["j"].attempts[1].booked_lines == lines


def test_hours_of_attempts_that_ended_are_summed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    stored, summed = Stored(), list[tuple[int, int]]()

    def spy(attempt: AttemptState, line: Timeline, hour: int, singles: Sums) -> HourPieces:
        summed.append((attempt.number, hour - T0 // HOUR_MS))
        return pieces_of(attempt, line, hour, singles)

    monkeypatch.setattr(changed_hours, "pieces_of", spy)
    for attempt in range(1, 6):
        begin_ms = attempt * HOUR_MS
        feed(stored.shard, "jobs", [event("started", begin_ms, attempt=attempt, gpu_count=8)])
        feed(stored.shard, "jobs", [event("preempted", begin_ms + MINUTE_MS, attempt=attempt)])
        stored.pay(begin_ms + 50 * MINUTE_MS, open_attempts=attempt % 2 == 0)
    assert summed == [(attempt, attempt) for attempt in range(1, 6)]


def test_an_event_that_costs_nothing_leaves_what_is_known() -> None:
    stored = Stored()
    feed(stored.shard, "jobs", [event("started", 0, gpu_count=8)])
    stored.pay(MINUTE_MS)
    attempt = stored.shard.jobs["j"].attempts[1]
    known = attempt.open_accruals
    feed(stored.shard, "jobs", [event("checkpointed", MINUTE_MS)])
    stored.pay(2 * MINUTE_MS)
    assert attempt.open_accruals is known
    feed(stored.shard, "jobs", [event("scaled", 2 * MINUTE_MS, gpu_count=4)])
    stored.pay(3 * MINUTE_MS)
    assert attempt.open_accruals is not known


def test_a_clock_that_is_set_back_takes_back_what_was_paid() -> None:
    stored, expected = Stored(), Stored()
    for one in (stored, expected):
        feed(one.shard, "jobs", [event("started", 0, gpu_count=8)])
    stored.pay(5 * MINUTE_MS)
    stored.pay(3 * MINUTE_MS)
    expected.pay(3 * MINUTE_MS)
    assert stored.current() == expected.current()


def sample(after_s: int, interval_s: int = 10, **named: object) -> Json:
    return {
        "source": "s", "time_ms": T0 + after_s * 1000, "interval_ms": interval_s * 1000, "job_id": "j", "node": "n",
        "gpus": ["a", "b"], "util_ratio": [0.5, 1], "gpu_type": "H100",
    } | named  # fmt: skip


def test_a_metered_job_is_told_again_only_with_what_goes_on_unless_its_rows_say_more() -> None:
    stored = Stored()
    feed(stored.shard, "gpu", [sample(10)])
    assert {JOBS, ATTEMPTS, JOB_MINUTES} <= stored.pay(MINUTE_MS, open_attempts=False).keys()
    feed(stored.shard, "gpu", [sample(20)])
    tables = stored.pay(MINUTE_MS, open_attempts=False)
    assert JOB_MINUTES in tables  # what it costs is there at once
    assert JOBS not in tables
    assert not stored.shard.unsaved(T0 + MINUTE_MS, open_attempts=False)
    tables = stored.pay(MINUTE_MS, open_attempts=True)
    assert tables[JOBS]["last_event"].cast(pa.int64()).to_pylist() == [T0 + 20_000]
    feed(stored.shard, "gpu", [sample(30, region="eu")])
    assert JOBS in stored.pay(MINUTE_MS, open_attempts=False)  # its region is news


def test_a_metered_job_that_leaves_has_had_its_last_word() -> None:
    stored = Stored()
    feed(stored.shard, "gpu", [sample(10)])
    stored.pay(MINUTE_MS, open_attempts=False)
    feed(stored.shard, "gpu", [sample(20)])
    assert JOBS not in stored.pay(MINUTE_MS, open_attempts=False)
    feed(stored.shard, "gpu", [sample(3 * 86_400, job_id="k")])
    tables = stored.pay(MINUTE_MS, open_attempts=True)  # its hours wait for the accrual, and it for them
    assert "j" not in stored.shard.jobs
    told = dict(
        zip(
            tables[JOBS]["job_id"].to_pylist(),
            tables[JOBS]["last_event"].cast(pa.int64()).to_pylist(),
            strict=True,
        )
    )
    assert told["j"] == T0 + 20_000
    assert stored.shard.due.sampled_jobs == set()


@given(st.lists(st.tuples(st.integers(0, 600), st.integers(1, 130), st.booleans()), min_size=1, max_size=20))
def test_the_newest_winner_is_the_greatest_of_all_whenever_it_is_asked_for(
    samples: list[tuple[int, int, bool]],
) -> None:
    stored = Stored()
    for end_s, interval_s, is_asked in samples:
        feed(stored.shard, "gpu", [sample(end_s, interval_s)])
        attempt = stored.shard.jobs["j"].attempts[1] if "j" in stored.shard.jobs else None
        if attempt is not None and is_asked:
            assert attempt.newest_winner() == max(attempt.winners.values(), default=None)
