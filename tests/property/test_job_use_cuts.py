"""The rules about how GPUs are used tell the same of drawn jobs in one span as in any others: one cause is one message."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from schemas.tables import ALERTS, JOB_HOURS, JOB_MINUTES, JOB_USAGE_MINUTES, JOBS
from sinks.clickhouse import ClickHouseStore
from streams.engine.alerts.controls import Controls
from streams.engine.alerts.rows import alerts_table
from streams.worker.ledger_judges.fleet_judge import FleetJudge
from streams.worker.ledger_judges.known_alerts import SHARD, KnownAlerts
from tests.property.profile import EXAMPLES, PROFILE
from tests.sinks.rows import rows
from tests.sinks.stores import empty
from tests.worker.ledger_lab import HOUR_MS, MINUTE_MS, T0, at, opened

M = MINUTE_MS
STEP = 5
NODES = 4
LENGTH = 300
RULES = ("spinning", "straggler", "inefficient")


class Use(NamedTuple):
    """What the GPUs of a node do, in thousandths, and the power of one."""

    busy: int
    sm: int
    tensor: int
    power_w: int


WORKS = Use(950, 600, 300, 620)
SPINS = Use(1000, 60, 0, 140)
LOW = Use(950, 50, 0, 600)
SLOW = Use(300, 50, 0, 300)
IDLE = Use(0, 0, 0, 100)
#: What the first node does, and what the others do.
PARTS = ((WORKS, WORKS), (SPINS, SPINS), (LOW, LOW), (SLOW, LOW), (SLOW, WORKS), (IDLE, SPINS), (IDLE, IDLE))


class Stood(NamedTuple):
    """An alert of the job's shard: it began, cleared, fired again and cleared (minutes)."""

    rule: str
    edges: tuple[int, int, int, int]

    def row(self, job_id: str, now: int) -> dict[str, Any] | None:
        """As it is stored at a minute."""
        known = [edge for edge in self.edges if edge <= now]
        if not known:
            return None
        over = None if len(known) % 2 else at(T0 + known[-1] * M)
        about = {"subject_kind": "job", "subject_name": job_id, "severity": "ticket", "rule": self.rule}
        status = "firing" if over is None else "resolved"
        began = at(T0 + self.edges[0] * M)
        return {
            "alert_id": f"al_{self.rule}{job_id}",
            "status": status,
            "started": began,
            "resolved": over,
            **about,
        }


class UsedJob(NamedTuple):
    """What a job does, one part after the other, each for so many minutes, and an alert of its shard about it."""

    phases: tuple[tuple[tuple[Use, Use], int], ...]
    stood: Stood | None = None

    def minutes(self) -> list[tuple[Use, Use]]:
        return [part for part, minutes in self.phases for _ in range(minutes)][:LENGTH]


_phases = st.tuples(st.sampled_from(PARTS), st.integers(3, 30).map(lambda steps: steps * STEP))


@st.composite
def _stood(draw: st.DrawFn) -> Stood:
    began = draw(st.integers(40, 200))
    over = began + draw(st.integers(1, 60))
    again = over + draw(st.integers(1, 10))
    return Stood(
        draw(st.sampled_from(["stalled", "idle_gpus"])),
        (began, over, again, again + draw(st.integers(1, 60))),
    )


_jobs = st.builds(
    UsedJob, st.lists(_phases, min_size=2, max_size=6).map(tuple), st.none() | st.none() | _stood()
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseStore]:
    with opened(Path(tmp_path_factory.mktemp("job-use"))) as opened_store:
        yield opened_store


def _put(store: ClickHouseStore, jobs: list[UsedJob]) -> None:
    found: dict[str, list[dict[str, Any]]] = {JOBS: [], JOB_HOURS: [], JOB_USAGE_MINUTES: [], JOB_MINUTES: []}
    for number, job in enumerate(jobs):
        job_id = f"job-{'abc'[number]}"
        found[JOBS].append({"job_id": job_id, "state": "running", "started": at(T0), "team": "vision"})
        minutes = job.minutes()
        for hour in range(-(-len(minutes) // 60)):
            found[JOB_HOURS].append(
                {"job_id": job_id, "hour": at(T0 + hour * HOUR_MS), "wall_clock_ms": 1, "attempt": 1}
            )
        for minute, uses in enumerate(minutes):
            for node in range(NODES):
                use = uses[min(node, 1)]
                row = {"job_id": job_id, "node": f"n{node}", "minute": at(T0 + minute * M), "attempt": 1}
                shares = {"productive": use.busy, "sm": use.sm, "tensor": use.tensor}
                measures = {f"{name}_gpu_ms": share * 480 for name, share in shares.items()}
                sampled = dict.fromkeys(("sampled_gpu_s", "sm_sampled_gpu_s", "tensor_sampled_gpu_s"), 480)
                found[JOB_USAGE_MINUTES].append({**row, **measures, **sampled, "power_w_max": use.power_w})
                paid = {"component": "gpu", "unit": "gpu_milli_ms", "quantity": 480_000_000, "sku": "h100"}
                found[JOB_MINUTES].append({**row, **paid, "cost_usd": Decimal("0.332")})
    for table, each in found.items():
        store.insert(table, rows(table, *({**row, "version": 1} for row in each)), f"job-use:{table}")


def told(store: ClickHouseStore, jobs: list[UsedJob], ends: list[int]) -> list[tuple[str, str, str, int]]:
    """What the rules tell, judged up to each of these minutes in turn; what each span tells is stored."""
    empty(store.target)
    _put(store, jobs)
    memory, controls, since = KnownAlerts(store), Controls.from_events([]), 0
    judge, found = FleetJudge(store, memory), list[tuple[str, str, str, int]]()
    for version, until in enumerate(ends, 2):
        stood = [
            {**row, "version": version, "shard": 1}
            for number, job in enumerate(jobs)
            if job.stood is not None and (row := job.stood.row(f"job-{'abc'[number]}", until)) is not None
        ]
        if stood:
            store.insert(ALERTS, rows(ALERTS, *stood), f"job-use:stood:{version}")
        changes = judge.judge(controls, T0 + since * M, T0 + until * M, (), ())
        if changes:
            store.insert(ALERTS, alerts_table(changes, SHARD, version), f"job-use:alerts:{version}")
        memory.stored(changes)
        found += [
            (each.subject_name, each.rule, each.status, (each.changed_ms - T0) // M)
            for each in changes
            if each.rule in RULES
        ]
        since = until
    return sorted(found, key=lambda each: (each[3], each))


SLOW_AND_LOW = UsedJob((((WORKS, WORKS), 60), ((SLOW, LOW), 240)))


@pytest.mark.timeout(1_500)  # 41 logs, each judged in three ways by a real store
@settings(PROFILE, max_examples=max(EXAMPLES // 12, 6))
@given(
    st.lists(_jobs, min_size=1, max_size=3),
    st.sets(st.integers(1, LENGTH // STEP - 1).map(lambda step: step * STEP), max_size=12),
)
@example([SLOW_AND_LOW], {130})
@example([SLOW_AND_LOW._replace(stood=Stood("stalled", (80, 90, 98, 110)))], {95})
@example(
    [UsedJob((((WORKS, WORKS), 60), ((SLOW, WORKS), 60), ((SPINS, SPINS), 60), ((LOW, LOW), 120)))],
    {120, 150},
)
def test_spans_do_not_matter(store: ClickHouseStore, jobs: list[UsedJob], cuts: set[int]) -> None:
    whole = told(store, jobs, [LENGTH])
    assert told(store, jobs, [*sorted(cuts), LENGTH]) == whole
    assert told(store, jobs, [*range(STEP, LENGTH + 1, STEP)]) == whole


def test_a_job_whose_slow_nodes_are_told_is_not_told_to_do_little(store: ClickHouseStore) -> None:
    """Both hold from two hours on; the judge of one long span must know what it has told itself."""
    assert told(store, [SLOW_AND_LOW], [LENGTH]) == [("job-a", "straggler", "firing", 95)]
