"""Kinds of jobs that do the same each day, replayed: who is told until it is usual, and of what is not; the same in any cut."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from schemas.tables import ALERTS
from sinks.clickhouse import ClickHouseStore, Embedded
from streams.backtest.fired import FiredAlert
from streams.backtest.recorder import AlertRecorder
from streams.clock import ManualClock
from streams.notify.history import StoredDeliveries
from streams.notify.incident_hold import IncidentSettings
from streams.notify.kind_figures import KindFigures
from streams.replay.replay import run_replay
from tests.acceptance.kinds import (
    BEGIN_MS,
    DAY_MS,
    DAYS,
    GROWING_DAYS,
    HOUR_MS,
    KINDS,
    MINUTE_MS,
    SWEEP_DAYS,
    TRIALS,
    USUAL_DAYS,
    grows_each_day,
    sweep_each_day,
    write_log,
)
from tests.notify.scripted_sender import Office

#: When something is far beyond what is usual it is told, so many minutes after it began at most.
WITHIN_MINUTES = {"traffic": 30, "idle_gpus": 100, "burn": 10}


class Outcome(NamedTuple):
    """The episodes as a backtest has them, and what a notifier sends and withholds of the same store."""

    episodes: tuple[FiredAlert, ...]
    told: list[tuple[str, str]]
    withheld: set[str]


def replayed(files: Sequence[Path], data: Path, *, appended: bool = False) -> Outcome:
    recorder = AlertRecorder()
    if appended:
        for file in files:
            run_replay([file], data, append=True, alert_sink=recorder)
    else:
        run_replay(files, data, alert_sink=recorder)
    store = ClickHouseStore(Embedded(data_dir=data, database="trainfare"))
    try:
        episodes = recorder.episodes(StoredDeliveries(store), KindFigures(store))
        told, withheld = asyncio.run(delivered(store))
        return Outcome(episodes, told, withheld)
    finally:
        store.close()


async def delivered(store: ClickHouseStore) -> tuple[list[tuple[str, str]], set[str]]:
    """What a notifier that takes the shards over sends, to the day's end."""
    names = {row["alert_id"]: row["subject_name"] for row in store.select(ALERTS).to_pylist()}
    there = Office(
        store=store, clock=ManualClock(BEGIN_MS + (DAYS + 1) * DAY_MS), options={"resolved_horizon_ms": None}
    )
    there.notifier.look_up_incidents(lambda _: IncidentSettings(3, "ada"))
    there.notifier.resume(range(64))
    while there.notifier.behind or there.notifier.waiting:
        await there.work(1_000)
    withheld = {names[alert] for alert, outcome in there.rows("alert_id", "outcome") if outcome == "usual"}
    return there.sender.told, withheld


@pytest.mark.parametrize("name", KINDS)
def test_the_first_runs_are_told_then_none_until_one_is_beyond_them(name: str, tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", KINDS[name])
    outcome = replayed([log], tmp_path / "data")
    messages = [each.messages for each in outcome.episodes]
    assert messages == [1] * (USUAL_DAYS - 1) + [0, 0, 1]
    told = {each.subject for each in outcome.episodes if each.messages}
    assert {subject for subject, _ in outcome.told} == told
    assert outcome.withheld == {each.subject for each in outcome.episodes} - told
    last = outcome.episodes[-1]
    began_ms = BEGIN_MS + DAYS * DAY_MS + 8 * HOUR_MS + 20 * MINUTE_MS
    began_ms += {"traffic": 0, "idle_gpus": 60 * MINUTE_MS, "burn": 70 * MINUTE_MS}[name]
    assert last.notified_ms - began_ms <= WITHIN_MINUTES[name] * MINUTE_MS


@pytest.mark.parametrize("name", KINDS)
def test_in_any_cut_the_same_is_told(name: str, tmp_path: Path) -> None:
    """Cut while the last usual run's alert fires, and while the last one's does."""
    log = write_log(tmp_path / "log.jsonl", KINDS[name])
    whole, cut = in_cuts(log, (DAYS - 1, DAYS), tmp_path)
    assert cut.episodes == whole.episodes
    assert (sorted(cut.told), cut.withheld) == (sorted(whole.told), whole.withheld)


def in_cuts(log: Path, days: Sequence[int], directory: Path) -> tuple[Outcome, Outcome]:
    """A log as a whole, and cut on some days while alerts fire."""
    whole = replayed([log], directory / "data")
    lines = log.read_bytes().splitlines(keepends=True)
    cuts = [0, *(_place(lines, day) for day in days), len(lines)]
    parts: list[Path] = []
    for number in range(len(cuts) - 1):
        parts.append(directory / f"part-{number}.jsonl")
        parts[-1].write_bytes(b"".join(lines[cuts[number] : cuts[number + 1]]))
    return whole, replayed(parts, directory / "cut", appended=True)


def test_a_sweep_whose_jobs_are_usual_is_no_incident_that_is_told(tmp_path: Path) -> None:
    """Three alerts of one cause are an incident: one for the digest, as long as each of them is usual."""
    log = write_log(tmp_path / "log.jsonl", sweep_each_day, days=SWEEP_DAYS)
    whole, cut = in_cuts(log, (SWEEP_DAYS - 1, SWEEP_DAYS), tmp_path)
    incidents = [each for each in whole.episodes if each.rule == "incident"]
    assert [each.messages for each in incidents] == [1, 1, 0, 1]
    assert [each.messages for each in whole.episodes if each.rule != "incident"] == [0] * TRIALS * SWEEP_DAYS
    assert not [subject for subject, _ in whole.told if subject.startswith("hpo-")]
    assert cut.episodes == whole.episodes


def test_a_job_that_grows_at_one_hour_of_each_day_is_told_on_three_days_then_if_it_is_another_hour_or_more(
    tmp_path: Path,
) -> None:
    log = write_log(tmp_path / "log.jsonl", grows_each_day, days=GROWING_DAYS)
    whole, cut = in_cuts(log, (3, GROWING_DAYS - 2), tmp_path)
    burns = [each for each in whole.episodes if each.rule.startswith("burn_")]
    assert [_opened(each) for each in burns if each.messages] == [
        (1, 9, "ticket"),
        (2, 9, "ticket"),
        (3, 9, "ticket"),
        (GROWING_DAYS - 1, 20, "ticket"),
        (GROWING_DAYS, 9, "page"),
    ]
    quiet = [_opened(each) for each in burns if not each.messages]
    assert quiet == [(day, 9, "ticket") for day in range(4, GROWING_DAYS)]
    assert len(whole.told) == len(whole.episodes) - len(quiet)
    assert whole.withheld == {"serve"}
    assert (cut.episodes, sorted(cut.told)) == (whole.episodes, sorted(whole.told))


def _opened(alert: FiredAlert) -> tuple[int, int, str]:
    """The day and the hour at which it opened, and how urgent it is."""
    days, hour_ms = divmod(alert.started_ms - BEGIN_MS, DAY_MS)
    return days, hour_ms // HOUR_MS, alert.severity


def _place(lines: Sequence[bytes], day: int) -> int:
    """The first line after 10:17 of a day."""
    at_ms = BEGIN_MS + day * DAY_MS + 10 * HOUR_MS + 17 * MINUTE_MS
    return next(
        place for place, line in enumerate(lines) if int(line.split(b'"time_ms": ')[1].split(b",")[0]) > at_ms
    )
