"""The fleet of ordinary work: the same of the same seed, of events that are valid, and counted by kind of work."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import orjson
import pytest

from loadtest.labelled.ordinary import KINDS, OrdinaryShape, jobs_of, make_events
from loadtest.labelled.ordinary_run import BOUNDS, Told, as_table, kind_of, merged, per_day, run_part
from schemas.decode import decode
from schemas.durations import DAY_MS
from schemas.invalid import Invalid

LATER_MS = 2**42
DAY = OrdinaryShape(days=1, times=1)


def test_a_seed_makes_one_log_of_valid_events() -> None:
    events = make_events(DAY)
    assert events == make_events(DAY)
    assert [at_ms for at_ms, _, _ in events] == sorted(at_ms for at_ms, _, _ in events)
    for _, topic, value in events:
        found = decode(topic, orjson.dumps(value), [], LATER_MS)
        assert not isinstance(found, Invalid), (found, value)


def test_there_is_every_kind_and_each_job_ends_once() -> None:
    jobs = [*jobs_of(OrdinaryShape(days=8, times=1))]
    assert {kind_of(job.job_id) for job in jobs} == set(KINDS)
    assert len({job.job_id for job in jobs}) == len(jobs)
    for job in jobs:
        ends = [
            value["type"]
            for _, topic, value in job.events
            if topic == "jobs" and value["attempt"] == job.attempt
        ]
        assert ends[-1] in ("completed", "cancelled", "failed")


def test_what_is_told_of_a_day_is_counted_by_kind(tmp_path: Path) -> None:
    told = run_part(DAY, tmp_path)
    assert set(told.ran_ms) <= set(KINDS)
    assert told.job_days > 3
    quiet = ("training", "multinode", "ray", "spot", "sweep", "infer", "rlhf", "weekly")
    assert {kind: count for (kind, _), count in told.messages.items() if kind in quiet} == {}
    table = [*as_table(told)]
    assert [line.split(" | ")[0].removeprefix("| ") for line in table[2:-1]] == [*KINDS, "others"]


@pytest.mark.parametrize(("pages", "tickets", "holds"), [(1, 5, True), (2, 5, False), (1, 6, False)])
def test_a_bound_that_is_missed_is_seen(pages: int, tickets: int, holds: bool) -> None:
    half = Told(Counter({"spot": 50 * DAY_MS}), Counter(), Counter(), {}, 1)
    messages = Counter({("spot", "page"): pages, ("others", "ticket"): tickets})
    told = merged([half, half._replace(ran_ms=half.ran_ms.copy(), messages=messages)])
    assert (told.job_days, told.lines) == (100.0, 2)
    assert all(per_day(told, severity) <= bound for severity, bound in BOUNDS.items()) == holds
