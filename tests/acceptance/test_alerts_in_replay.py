"""Labelled traces through `trainfare replay`: stored alerts and burn rates against the plain judge's.

There are 200; `make test` takes every eighth, `make test-long` all.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pytest

from schemas.tables import ALERTS, BURN_RATES
from sinks.clickhouse import ClickHouseStore, Embedded
from streams.engine.rules.registry import NAMES
from tests.cli.command import trainfare
from tests.oracle.judge import judge_job
from tests.oracle.knowledge import Knowledge, Told, in_log_time
from tests.oracle.model import HOUR_MS, Line
from tests.property.compare import MOST_SHOWN
from tests.property.compare_alerts import Row, Stored, alert_differences, ms, rate_differences
from tests.strategies.telling import Trace
from tests.strategies.traces import make_trace, merged
from tests.strategies.values import BASE_MS

# Each file is a replay of its own: hours that the longest of these traces may take.
FILES = {
    "short": {2: range(60), 3: range(60, 120)},
    "long": {5: range(120, 170)},
    "day": {10: range(170, 200)},
}
ROWS_COMPARED = 1000
#: Heartbeats are rare in these traces, so that few jobs are silent for longer than they usually are.
RULES = {"burn_fast", "burn_sustained", "burn_drift", "unpriced", "traffic"}


@dataclass
class Replayed:
    """What was stored of one file of traces."""

    alerts: list[Row]
    burn_rates: list[Row]


def traces_of(file: str, each: int) -> list[Trace]:
    """One of so many traces, which begin within an hour; their jobs and prices concern no other trace."""
    rng = random.Random(file)
    return [
        make_trace(
            seed,
            name=f"t{seed}",
            begin_ms=BASE_MS + rng.randrange(HOUR_MS),
            prices_ms=BASE_MS,
            hours_at_most=hours,
        )
        for hours, seeds in FILES[file].items()
        for seed in seeds[each - 1 :: each]
    ]


def replay(lines: list[Line], directory: Path) -> Replayed:
    log = directory / "log.jsonl"
    log.write_text("".join(json.dumps({"topic": x.topic, "value": x.value}) + "\n" for x in lines))
    done = trainfare("replay", log, "--data", directory / "data")
    # Some files have refused prices and controls on purpose: everything else is metered, and the exit code says so.
    assert done.code == (2 if "trainfare: everything else is metered" in done.err else 0), done.err[-3000:]
    store = ClickHouseStore(Embedded(data_dir=directory / "data", database="trainfare"))
    try:
        # Those of rules across jobs have a test of their own.
        alerts = [row for row in store.select(ALERTS).to_pylist() if row["rule"] in NAMES]
        return Replayed(alerts, store.select(BURN_RATES).to_pylist())
    finally:
        store.close()


def known_of(traces: list[Trace], told: list[Told]) -> dict[str, Knowledge]:
    """What is known of each trace; the time of the log is that of all lines."""
    trace_of = {id(line): trace.name for trace in traces for _, line in trace.lines}
    return {
        trace.name: Knowledge(one for one in told if trace_of.get(id(one.line), trace.name) == trace.name)
        for trace in traces
    }


@pytest.mark.parametrize("file", FILES)
def test_stored_alerts_and_burn_rates_are_the_judges(file: str, tmp_path: Path) -> None:
    _check(traces_of(file, 8), tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("file", FILES)
def test_those_of_all_traces_are_the_judges(file: str, tmp_path: Path) -> None:
    _check(traces_of(file, 1), tmp_path)


def _check(traces: list[Trace], tmp_path: Path) -> None:
    lines = merged(traces)
    stored = replay(lines, tmp_path)
    told = in_log_time(lines)
    known = known_of(traces, told)
    _check_alerts(stored, known, told[-1].log_ms)
    _check_labels(stored, traces)
    _check_burn_rates(stored, known)


def _trace_name(job_id: str) -> str:
    return job_id.partition("-")[0]


def _check_alerts(stored: Replayed, known: dict[str, Knowledge], until_ms: int) -> None:
    got: dict[str, list[Stored]] = defaultdict(list)
    for row in stored.alerts:
        got[_trace_name(row["subject_name"])].append(Stored.of(row))
    found: list[str] = []
    count = 0
    for name, knowledge in known.items():
        want = [a for job_id in knowledge.job_ids for a in judge_job(job_id, knowledge, until_ms=until_ms)]
        found += alert_differences(got[name], want, knowledge)
        count += len(want)
    assert count > len(known)
    assert not found, f"{len(found)} differences in {count} alerts\n" + "\n".join(found[:MOST_SHOWN])


def _check_labels(stored: Replayed, traces: list[Trace]) -> None:
    """The alerts that the stories owe, whatever engine and judge agree on."""
    fired = {(row["rule"], row["subject_name"]) for row in stored.alerts}
    # What burn_drift tells of first is no burn_sustained beside it, unless that is more urgent.
    drifted = {
        row["subject_name"]
        for row in stored.alerts
        if row["rule"] == "burn_drift" and row["severity"] != "digest"
    }
    told_of = {("burn_sustained", job_id) for job_id in drifted}
    assert fired | told_of >= {label for trace in traces for label in trace.must}
    quiet = {job_id for trace in traces for job_id in trace.quiet}
    # Quiet jobs send a heartbeat now and then only, and some break off more than once.
    assert not {label for label in fired if label[1] in quiet} - {
        (rule, job_id) for rule in ("silent_job", "retry_loop") for job_id in quiet
    }
    assert {rule for rule, _ in fired} >= RULES


def _check_burn_rates(stored: Replayed, known: dict[str, Knowledge]) -> None:
    rows = random.Random(0).sample(stored.burn_rates, ROWS_COMPARED)
    rows.sort(key=lambda row: (row["job_id"], ms(row["time"])))  # the judge learns line by line
    found = [words for row in rows for words in rate_differences(row, known[_trace_name(row["job_id"])])]
    assert not found, f"{len(found)} differences\n" + "\n".join(found[:MOST_SHOWN])
