"""Ledgers of some hours, drawn: jobs of teams, nodes, prices, and the records of `controls` that judge them.

All instants are whole minutes after T0, money is in cents.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from hypothesis import strategies as st

from schemas.tables import JOB_HOURS, JOB_MINUTES, JOBS, NODE_HOURS, UNATTRIBUTED_MINUTES
from sinks.clickhouse import ClickHouseStore
from tests.oracle.ledger_rules import Costs, JobHour, JobUse, NodeHour, Revision
from tests.oracle.model import HOUR_MS, MINUTE_MS, Json
from tests.sinks.rows import rows

T0 = 20_454 * 86_400_000 + 21 * HOUR_MS  # 1 January 2026, 21:00 UTC: a day ends after three hours
HOURS = 5
LENGTH = HOURS * 60
CENT_NANO = 10**7
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_team = st.sampled_from(["", "vision", "nlp"])
_owner = st.sampled_from(["", "ada", "bob"])


@dataclass(frozen=True)
class Job:
    """One job that runs once; `milli_gpus` on `node`, '' where no node is known."""

    job_id: str
    names: Mapping[str, str]
    start: int
    length: int
    cents: int  # a minute
    milli_gpus: int = 0
    node: str = ""
    end: str = ""  # how it ended; '': it goes on
    deadline: int | None = None
    budget: Mapping[str, str] = field(default_factory=dict)
    pauses: tuple[
        tuple[int, int], ...
    ] = ()  # in order, (from, until) ms after its start: it is paid, but does not run
    sampled: int = 0  # of four quarters of its GPU-time

    @property
    def spans(self) -> list[tuple[int, int]]:
        """When it runs: (from_ms, until_ms)."""
        start_ms = self.minutes.start
        edges = [0, *(edge for pause in self.pauses for edge in pause), self.length * MINUTE_MS]
        return [(start_ms + a, start_ms + b) for a, b in zip(edges[::2], edges[1::2], strict=True) if a < b]

    def ran_ms(self, from_ms: int, until_ms: int) -> int:
        """For how long it ran between two instants."""
        return sum(max(0, min(b, until_ms) - max(a, from_ms)) for a, b in self.spans)

    @property
    def minutes(self) -> range:
        return range(T0 + self.start * MINUTE_MS, T0 + (self.start + self.length) * MINUTE_MS, MINUTE_MS)

    @property
    def hours(self) -> list[int]:
        return sorted({minute // HOUR_MS * HOUR_MS for minute in self.minutes})

    def held_milli_ms(self, hour: int) -> int:
        """GPU-time of an hour."""
        return sum(hour <= minute < hour + HOUR_MS for minute in self.minutes) * self.milli_gpus * MINUTE_MS

    def sampled_ms(self, hour: int) -> int:
        """What samples cover of it."""
        return self.held_milli_ms(hour) * self.sampled // 4000

    @property
    def ended_ms(self) -> int | None:
        return self.minutes.stop if self.end else None

    @property
    def deadline_ms(self) -> int | None:
        return None if self.deadline is None else T0 + self.deadline * MINUTE_MS


@dataclass(frozen=True)
class Node:
    node: str
    first: int  # hour
    hours: int
    cents: int  # an hour
    milli_gpus: int = 8_000


class Stray(NamedTuple):
    """A GPU of a node that works for no job in some minutes after T0, for so many ms in each."""

    node: str
    gpu: str
    start: int
    length: int
    productive_ms: int


@dataclass(frozen=True)
class Story:
    jobs: tuple[Job, ...]
    nodes: tuple[Node, ...]
    prices: tuple[tuple[str, int, int, int], ...]  # sku, minute, cents, minute of the log
    controls: tuple[tuple[int, Json], ...]  # minute of the log, record; one that `ends` has no value
    strays: tuple[Stray, ...] = ()

    def until(self, minute: int) -> Story:
        """What was stored when the log had come to a minute."""
        jobs = [
            job if job.start + job.length <= minute else replace(job, length=minute - job.start, end="")
            for job in self.jobs
            if job.start < minute
        ]
        nodes = [
            replace(node, hours=min(node.hours, minute // 60 - node.first))
            for node in self.nodes
            if node.first < minute // 60
        ]
        strays = [
            each._replace(length=min(each.length, minute - each.start))
            for each in self.strays
            if each.start < minute
        ]
        return replace(self, jobs=tuple(jobs), nodes=tuple(nodes), strays=tuple(strays))

    def costs(self) -> Costs:
        """What the oracle is told."""
        names = {job.job_id: job.names for job in self.jobs}
        hours: dict[tuple[str, int], int] = {}
        uses: dict[tuple[str, int], tuple[int, int]] = {}
        for job in self.jobs:
            for minute in job.minutes:
                hour = minute // HOUR_MS * HOUR_MS
                hours[job.job_id, hour] = hours.get((job.job_id, hour), 0) + job.cents * CENT_NANO
                if job.node and job.milli_gpus:
                    cost, held = uses.get((job.node, hour), (0, 0))
                    uses[job.node, hour] = cost + job.cents * CENT_NANO, held + job.milli_gpus * MINUTE_MS
        strays: dict[tuple[str, int], int] = {}
        for stray in self.strays:
            for minute in range(stray.start, stray.start + stray.length):
                where = stray.node, T0 + minute // 60 * HOUR_MS
                strays[where] = strays.get(where, 0) + stray.productive_ms
        nodes = [
            NodeHour(
                node.node, T0 + hour * HOUR_MS, "c1", "p5", "infra", HOUR_MS, node.milli_gpus * HOUR_MS,
                node.cents * CENT_NANO,
            )
            for node in self.nodes
            for hour in range(node.first, node.first + node.hours)
        ]  # fmt: skip
        revisions = [
            Revision(sku, "gpu_hour", cents * CENT_NANO, T0 + minute * MINUTE_MS, T0 + said * MINUTE_MS)
            for sku, minute, cents, said in self.prices
        ]
        return Costs(
            names,
            [
                JobHour(
                    job.job_id,
                    hour,
                    hours[job.job_id, hour],
                    "",
                    job.held_milli_ms(hour),
                    job.sampled_ms(hour),
                    job.ran_ms(hour, hour + HOUR_MS),
                    0,
                    hours[job.job_id, hour] if job.milli_gpus else 0,
                )
                for job in self.jobs
                for hour in job.hours
            ],
            nodes,
            [JobUse(*key, *use) for key, use in uses.items()],
            revisions,
            strays=strays,
        )

    def used(self, match: Mapping[str, str]) -> dict[int, list[int]]:
        """What matching jobs used in each minute: nano-dollars, thousandths of a GPU times ms, ms of run time."""
        found: dict[int, list[int]] = {}
        for job in self.jobs:
            own = {"job_id": job.job_id, **job.names}
            if all(own.get(name, "") == value for name, value in match.items()):
                for minute in job.minutes:
                    used = found.setdefault(minute, [0, 0, 0])
                    used[0] += job.cents * CENT_NANO
                    used[1] += job.milli_gpus * MINUTE_MS
                    used[2] += job.ran_ms(minute, minute + MINUTE_MS)
        return found

    def store(self, store: ClickHouseStore, version: int = 0) -> None:
        """Write it as shards do."""
        tables: dict[str, list[dict[str, Any]]] = {}
        for job in self.jobs:
            tables.setdefault(JOBS, []).append(_job_row(job))
            tables.setdefault(JOB_MINUTES, []).extend(_minute_rows(job))
            tables.setdefault(JOB_HOURS, []).extend(_hour_rows(job))
        for node in self.costs().nodes:
            row = {
                "node": node.node, "hour": _at(node.hour_ms), "cluster": node.cluster, "team": node.team,
                "instance_type": node.instance_type, "paid_ms": node.paid_ms, "gpu_milli_ms": node.gpu_milli_ms,
                "cost_usd": _usd(node.cost_nano),
            }  # fmt: skip
            tables.setdefault(NODE_HOURS, []).append(row)
        tables[UNATTRIBUTED_MINUTES] = [
            {
                "node": stray.node, "gpu": stray.gpu, "minute": _at(T0 + minute * MINUTE_MS), "sampled_s": 60,
                "productive_ms": stray.productive_ms,
            }
            for stray in self.strays
            for minute in range(stray.start, stray.start + stray.length)
        ]  # fmt: skip
        for table, found in tables.items():
            found = [{**row, "version": version} for row in found]
            store.insert(table, rows(table, *found), f"story:{table}:{version}")


def _job_row(job: Job) -> dict[str, Any]:
    return {
        "job_id": job.job_id, "state": job.end or "running", "started": _at(job.minutes.start),
        "ended": None if job.ended_ms is None else _at(job.ended_ms),
        "deadline": None if job.deadline_ms is None else _at(job.deadline_ms),
        "budget": list(job.budget.items()), **job.names,
    }  # fmt: skip


def _minute_rows(job: Job) -> Iterator[dict[str, Any]]:
    for minute in job.minutes:
        quantity = job.milli_gpus * MINUTE_MS
        row = {
            "job_id": job.job_id,
            "minute": _at(minute),
            "cost_usd": _usd(job.cents * CENT_NANO),
            "sku": "x",
        }
        if quantity:
            yield {**row, "node": job.node, "quantity": quantity}
        else:
            yield {**row, "component": "compute", "unit": "instance_milli_ms", "quantity": 60_000_000}


def _hour_rows(job: Job) -> Iterator[dict[str, Any]]:
    for hour in job.hours:
        count = sum(hour <= minute < hour + HOUR_MS for minute in job.minutes)
        component = "gpu" if job.milli_gpus else "compute"
        spans = [
            (max(a - hour, 0), min(b - hour, HOUR_MS))
            for a, b in job.spans
            if a < hour + HOUR_MS and b > hour
        ]
        yield {
            "job_id": job.job_id, "hour": _at(hour), "wall_clock_ms": sum(b - a for a, b in spans),
            "wall_clock_from_ms": [a for a, _ in spans], "wall_clock_until_ms": [b for _, b in spans],
            "gpu_milli_ms": job.held_milli_ms(hour), "sampled_gpu_ms": job.sampled_ms(hour),
            f"{component}_cost_usd": _usd(count * job.cents * CENT_NANO),
        }  # fmt: skip


def _at(ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=ms)


def _usd(nano: int) -> Decimal:
    return Decimal(nano).scaleb(-9)


_NODES = ("n0", "n1")
_match = st.dictionaries(st.sampled_from(["team", "owner", "project", "experiment"]), st.sampled_from(["ada", "vision", "lr"]), max_size=2)  # fmt: skip


@st.composite
def _jobs(draw: st.DrawFn, number: int) -> Job:
    names = {"team": draw(_team), "owner": draw(_owner), "project": draw(st.sampled_from(["", "lr"]))}
    names["experiment"] = draw(st.sampled_from(["", "lr"]))
    # The first one begins with the ledger: in its first hour nothing is forecast.
    start = draw(st.integers(0, LENGTH - 61)) if number else 0
    end = draw(st.sampled_from(["", "completed", "failed"]))
    length = draw(st.integers(1, LENGTH - start)) if end else LENGTH - start
    limit = {"usd": f"{draw(st.integers(1, 60))}"} if draw(st.booleans()) else {}
    edges = sorted(draw(st.sets(st.integers(0, length * MINUTE_MS), max_size=draw(st.sampled_from([0, 8])))))
    return Job(
        f"j{number}", names, start, length,
        draw(st.integers(0, 60)), draw(st.sampled_from([0, 500, 8_000])), draw(st.sampled_from(["", *_NODES])),
        end, draw(st.sampled_from([None, start + 30, start + 180])), limit,
        tuple(zip(edges[::2], edges[1::2], strict=False)),  # the last edge of an odd number is left out
        draw(st.sampled_from([0, 1, 2, 4, 5])),
    )  # fmt: skip


@st.composite
def _budget(draw: st.DrawFn, number: int) -> Json:
    limits = {
        "usd": draw(st.sampled_from([None, "5", "20", "100"])),
        "gpu_hours": draw(st.sampled_from([None, 2, 10.5])),
        "wall_clock_hours": draw(st.sampled_from([None, 1, 3.25])),
    }
    if not any(limits.values()):
        limits["usd"] = "40"
    per = draw(st.sampled_from(["run", "day", "week", "month", "total"]))
    given = {name: value for name, value in limits.items() if value is not None}
    return {"kind": "budget", "name": f"b{number}", "per": per, **given, **draw(_match)}


@st.composite
def _rule(draw: st.DrawFn, number: int) -> Json:
    rule = draw(
        st.sampled_from(
            [
                "team_burn",
                "team_burn",
                "unallocated",
                "owner_coverage",
                "forgotten_node",
                "price_jump",
                "unsampled_gpus",
            ]
        )
    )
    given: dict[str, st.SearchStrategy[dict[str, float]]] = {
            "team_burn": st.sampled_from([{"usd_per_hour": 3}, {"share_ratio": 0.5}, {"usd_per_hour": 12, "share_ratio": 0.7}]),
            "unallocated": st.sampled_from([{"idle_ratio": 0.5}, {"least_usd": 0.2}]),
            "owner_coverage": st.sampled_from([{"owned_ratio": 0.5}, {"least_usd": 7}]),
            "forgotten_node": st.sampled_from([{"hours": 1}, {"hours": 2}, {"stray_usd": 0.1}, {"stray_usd": 0.02}]),
            "price_jump": st.sampled_from([{"factor": 2}, {"factor": 7}]),
            "unsampled_gpus": st.sampled_from([{"unsampled_ratio": 0.25}, {"cluster_ratio": 0.3}, {"cluster_ratio": 1}]),
    }  # fmt: skip
    thresholds = draw(given[rule])
    match = draw(_match) if rule == "team_burn" else {}
    said: Json = {"kind": "rule", "name": f"r{number}", "rule": rule, "thresholds": thresholds, **match}
    return said | ({"enabled": False} if draw(st.integers(0, 5)) == 5 else {})


@st.composite
def _prices(draw: st.DrawFn) -> list[tuple[str, int, int, int]]:
    """Revisions, each said when it takes effect, and corrections of some that are said later."""
    usd = st.sampled_from([0, 10, 30, 31, 70, 210])
    minutes = st.integers(0, LENGTH - 1)
    found = draw(
        st.lists(st.tuples(st.sampled_from("pq"), minutes, usd), max_size=4, unique_by=lambda each: each[:2])
    )
    said = [(*each, each[1]) for each in found]
    for sku, minute, _ in found:
        if draw(st.integers(0, 2)) == 2:
            said.append((sku, minute, draw(usd), minute + draw(st.sampled_from([1, 20, 60, 61, 90]))))
    return sorted((each for each in said if each[3] < LENGTH), key=lambda each: each[3])


@st.composite
def stories(draw: st.DrawFn, *, changes: bool = False) -> Story:
    """Some jobs, nodes and prices, and the records that judge them; rules may come while the log goes on.

    `changes`: budgets are raised, lowered and ended while their period lasts.
    """
    jobs = tuple(draw(_jobs(number)) for number in range(draw(st.integers(1, 4))))
    nodes = [
        Node(name, first, draw(st.integers(1, HOURS - first)), draw(st.sampled_from([40, 100, 1200])))
        for name in _NODES[: draw(st.integers(0, 2))]
        for first in [draw(st.integers(0, HOURS - 1))]
    ]
    if draw(st.booleans()):
        first = draw(st.integers(0, HOURS - 1))
        nodes += [Node(f"m{number}", first, 1, 10) for number in range(draw(st.sampled_from([9, 10, 11])))]
    prices = draw(_prices())
    controls = [(0, draw(_budget(number))) for number in range(draw(st.integers(0, 3)))]
    # Raised, lowered or ended while the period lasts.
    for minute in (
        sorted(draw(st.lists(st.integers(1, LENGTH), max_size=3, unique=True)))
        if controls and changes
        else ()
    ):
        record = draw(st.sampled_from([each for _, each in controls]))
        changed = {
            **record,
            "usd": draw(st.sampled_from(["3", "8", "15", "30", "60", "120"])),
            "ends": draw(st.integers(0, 3)) == 3,
        }
        controls.append((minute, changed))
    controls += [
        (draw(st.sampled_from([0, 0, 90, 130])), draw(_rule(number)))
        for number in range(draw(st.integers(0, 3)))
    ]
    strays = [
        Stray(node, gpu, start, draw(st.integers(1, LENGTH - start)), draw(st.sampled_from([0, 600, 60_000])))
        for node in _NODES
        for gpu in "0123"[: draw(st.sampled_from([0, 0, 1, 4]))]
        for start in [draw(st.integers(0, LENGTH - 1))]
    ]
    return Story(jobs, tuple(nodes), tuple(prices), tuple(controls), tuple(strays))
