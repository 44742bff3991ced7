"""Rules across jobs and budgets of drawn ledgers: a replay's alerts are those of the plain oracle."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings

from sinks.clickhouse import ClickHouseStore
from streams.replay.replayed_judge import LogJudge
from tests.oracle.budgets import budget_told, forecast_told, run_over_ms
from tests.oracle.ledger_rules import episodes, holding, price_jumps
from tests.property.chronicle import Chronicle, owner_of_shard_0, records_of
from tests.property.ledger_stories import CENT_NANO, LENGTH, T0, Job, Story, stories
from tests.property.profile import EXAMPLES, PROFILE
from tests.sinks.stores import empty
from tests.worker.ledger_lab import HOUR_MS, MINUTE_MS, opened

END_MS = T0 + LENGTH * MINUTE_MS
#: (rule, severity, subject kind, subject name, limit in nano-dollars, started, resolved)
Told = tuple[str, str, str, str, int | None, int, int | None]
#: Judged by code that other tests compare.
_ELSEWHERE = ("retry_overhead", "oversized", "unusual_length")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseStore]:
    with opened(Path(tmp_path_factory.mktemp("ledger"))) as opened_store:
        yield opened_store


def replayed(store: ClickHouseStore, story: Story) -> list[Told]:
    """What the product tells of it."""
    empty(store.target)
    story.store(store)
    reference = Chronicle().part(records_of(story))
    changes = asyncio.run(LogJudge(store, reference.view()).judge(owner_of_shard_0(), END_MS))
    ids = [(each.alert_id, each.status, each.changed_ms) for each in changes]
    assert len(ids) == len(set(ids)), "one change is told twice"
    last = {each.alert_id: each for each in changes}
    return sorted(
        (
            (a.rule, a.severity, a.subject_kind, a.subject_name, a.budget_nano, a.started_ms, a.resolved_ms)
            for a in last.values()
            if a.rule not in _ELSEWHERE and a.rule != "budget_forecast"
        ),
        key=str,
    ) + sorted(
        (
            (a.rule, a.status, a.subject_kind, a.subject_name, a.budget_nano, a.changed_ms, None)
            for a in changes
            if a.rule == "budget_forecast"
        ),
        key=str,
    )


def expected(story: Story) -> list[Told]:
    """What the oracle tells of it."""
    used, forecasts = list[Told](), list[Told]()
    for kind, name, limits, args in _budgets(story):
        spent, per, deadline_ms, over_ms, started_ms = args
        first_ms = min(job.minutes.start for job in story.jobs) // HOUR_MS * HOUR_MS
        for percent, fired, over in budget_told(spent, limits, per, first_ms, END_MS, over_ms=over_ms):
            severity = "page" if percent == 100 else "ticket"
            used.append(("budget_used", severity, kind, name, limits[0], fired, over))
        for fired, over in forecast_told(
            spent, limits, per, first_ms, END_MS, deadline_ms, over_ms, started_ms
        ):
            changes = [("firing", fired)] + ([] if over is None else [("resolved", over)])
            forecasts += [("budget_forecast", s, kind, name, limits[0], at, None) for s, at in changes]
    costs = story.costs()
    rules = [(minute, record) for minute, record in story.controls if record["kind"] == "rule"]
    first_ms = min(job.minutes.start for job in story.jobs) // HOUR_MS * HOUR_MS
    held = {
        end_ms: holding(costs, end_ms, [each for minute, each in rules if T0 + minute * MINUTE_MS <= end_ms])
        for end_ms in range(first_ms + HOUR_MS, END_MS + 1, HOUR_MS)
    }
    said = [(T0 + minute * MINUTE_MS, record) for minute, record in rules]
    jumps = price_jumps(costs.revisions, first_ms, END_MS, said)
    severities = {"provisioning_burst": "page"}
    used += [
        (rule, severities.get(rule, "ticket"), kind, name, None, started, over)
        for rule, kind, name, started, over in [*episodes(held), *jumps]
    ]
    return sorted(used, key=str) + sorted(forecasts, key=str)


def _budgets(story: Story) -> Iterator[tuple[str, str, list[int | None], Any]]:
    for _, record in story.controls:
        if record["kind"] != "budget":
            continue
        match: dict[str, str] = {
            n: record[n] for n in ("experiment", "project", "team", "owner") if n in record
        }
        limits = _limits(record)
        if record["per"] == "run":
            for job in story.jobs:
                if all(job.names.get(name, "") == value for name, value in match.items()):
                    yield "job", job.job_id, limits, _run(story, job)
        else:
            kind = next(iter(match), "fleet")
            yield kind, match.get(kind, ""), limits, (story.used(match), record["per"], None, None, None)
    for job in story.jobs:
        if job.budget:
            yield "job", job.job_id, _limits(job.budget), _run(story, job)


def _run(story: Story, job: Job) -> Any:
    over_ms = run_over_ms(job.end, job.ended_ms)
    return story.used({"job_id": job.job_id}), "run", job.deadline_ms, over_ms, job.minutes.start


def _limits(record: Any) -> list[int | None]:
    usd, gpu, wall = (record.get(name) for name in ("usd", "gpu_hours", "wall_clock_hours"))
    return [
        None if usd is None else int(usd) * 100 * CENT_NANO,
        None if gpu is None else round(gpu * HOUR_MS * 1000),
        None if wall is None else round(wall * HOUR_MS),
    ]


@settings(PROFILE, max_examples=max(EXAMPLES // 12, 8))
@given(stories())
def test_a_replay_tells_what_the_oracle_tells(store: ClickHouseStore, story: Story) -> None:
    wanted = expected(story)
    assume(not _flaps(wanted))
    assert replayed(store, story) == wanted


def _flaps(told: Sequence[Told]) -> bool:
    """Whether a price jumps for the fourth time within 3 h: such an alert stays open, of which another test tells."""
    began: dict[str, list[int]] = {}
    for rule, _, _, name, _, started_ms, _ in told:
        if rule == "price_jump":
            began.setdefault(name, []).append(started_ms)
    return any(
        fourth - first < 3 * HOUR_MS
        for each in began.values()
        for first, fourth in zip(each, each[3:], strict=False)
    )
