"""What rules by the hour must have told when a run is over, by the plain oracle, and what was told."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from schemas.tables import ALERTS
from tests.oracle.ledger_rules import (
    Costs,
    JobHour,
    JobUse,
    NodeHour,
    Revision,
    Subject,
    forgotten_node,
    price_jumps,
    provisioning_burst,
    team_burn,
    unsampled_gpus,
)
from tests.oracle.ledger_rules_jobs import Fired, judge_log
from tests.oracle.model import COMPONENTS, HOUR_MS, PRICE_FIELDS, Line, Tables, usd_nano
from tests.simulator import hour_stories, sampled_jobs
from tests.simulator.log import Log
from tests.simulator.spenders import BURN, FORGOTTEN, SOURCE, TEAM
from tests.simulator.store import Shelf
from tests.simulator.world import EPOCH_MS

#: Judged of all jobs and nodes, also of those that come late.
_OF_ALL = ("unallocated", "owner_coverage")
#: A shard with nodes and without an open job is not waited for.
_OF_NODES = ("forgotten_node", "provisioning_burst")
_OF_JOBS = ("retry_overhead", "oversized", "unusual_length")
_GPU = COMPONENTS.index("gpu")
_CLUSTER, _TYPE, _GPU = map(PRICE_FIELDS.index, ("cluster", "instance_type", "gpu_type"))

JUMP = "jump"

Alert = dict[str, Any]


def hour_differences(
    shelf: Shelf, log: Log, tables: Tables, alerts: Collection[Alert], judged_ms: int
) -> Iterator[str]:
    """One sentence per fault; `tables`: the oracle's, as of the last judged minute; `alerts`: what rules about one job must tell."""
    hours = sorted({at_ms for rule, at_ms in shelf.judged if rule == "owner_coverage"})
    if hours and hours != list(range(hours[0], judged_ms // HOUR_MS * HOUR_MS + 1, HOUR_MS)):
        yield f"hours {hours} were judged until {judged_ms}"
    rows = [with_ms(row) for row in shelf.rows(ALERTS)]
    costs = costs_of(tables, log.said)
    # Hours before the log are of what comes late.
    paid = (*(each.hour_ms for each in costs.hours), *(each.hour_ms for each in costs.nodes))
    inside = (hour_ms for hour_ms in paid if hour_ms >= EPOCH_MS)
    if hours and hours[0] > (first_ms := min(inside, default=hours[0]) + HOUR_MS):
        yield f"hours were judged from {hours[0]} on, want {first_ms}"
    for at_ms in hours:
        want = in_time(costs, alerts, at_ms)
        for rule, names in want.items():
            got = {row["subject_name"] for row in rows if row["rule"] == rule and covers(row, at_ms)}
            got = {name for name in got if _is_in_time(rule, name)}
            is_known = rule not in _OF_NODES or not _partitions_of_nodes(log) & shelf.short.get(at_ms, set())
            # In the first hour that any node is paid in the fleet comes up, which is no burst; nodes of hours before the log come
            # late, so in its first hour a burst may be missing.
            if rule == "provisioning_burst" and at_ms <= EPOCH_MS + HOUR_MS and not got:
                continue
            if is_known and got != names:
                yield f"{rule} at {at_ms}: fires for {sorted(got)}, want {sorted(names)}"
        for rule in _OF_ALL:
            looks = shelf.judged.get((rule, at_ms), set())
            fires = any(row["rule"] == rule and covers(row, at_ms) for row in rows)
            if looks in ({frozenset()}, {_ALL[rule]}) and fires != bool(max(looks, key=len)):
                yield f"{rule} at {at_ms}: fires {fires}"
    if hours:
        got_jobs = sorted(
            _fired(row) for row in rows if row["rule"] in _OF_JOBS and row["team"] == hour_stories.TEAM
        )
        want_jobs = sorted(
            _shown(each) for each in of_jobs(log, tables, judged_ms, hours[0]) if each.started_ms >= hours[0]
        )
        if got_jobs != want_jobs:
            yield f"rules about jobs by the hour: told {got_jobs}, want {want_jobs}"


_ALL = {
    "unallocated": frozenset({Subject("fleet", "nodes")}),
    "owner_coverage": frozenset({Subject("fleet", "owners")}),
}


def _partitions_of_nodes(log: Log) -> set[int]:
    return {
        line.partition
        for line in log.lines
        if line.topic == "nodes" and isinstance(line.value, dict) and line.value.get("source") == SOURCE
    }


def in_time(costs: Costs, alerts: Collection[Alert], at_ms: int) -> dict[str, set[str]]:
    """For whom rules hold in the hour before, of what comes in time; `alerts`: by rules about one job."""
    held = {
        "team_burn": team_burn(costs, at_ms, BURN),
        "forgotten_node": forgotten_node(costs, at_ms, FORGOTTEN["thresholds"]),
        "provisioning_burst": provisioning_burst(costs, at_ms, {}),
        "unsampled_gpus": unsampled_gpus(costs, at_ms, {}),
    }
    names = {
        rule: {each.subject.name for each in found if _is_in_time(rule, each.subject.name)}
        for rule, found in held.items()
    }
    # What jumped in the hour before is told of at its end.
    names["price_jump"] = {each.name for each in price_jumps(costs.revisions, at_ms - HOUR_MS, at_ms)}
    names["unsampled_gpus"] -= silent_jobs(alerts, at_ms)
    return names


def silent_jobs(alerts: Collection[Alert], at_ms: int) -> set[str]:
    """ "It does not hold in an hour in which a `silent_job` or a `held` of the job was firing" """
    silent = (with_ms(row) for row in alerts if row["rule"] in ("silent_job", "held"))
    return {
        row["subject_name"]
        for row in silent
        if row["started_ms"] <= at_ms and (row["resolved_ms"] or at_ms) > at_ms - HOUR_MS
    }


def of_jobs(log: Log, tables: Tables, judged_ms: int, since_ms: int = 0) -> list[Fired]:
    """What rules about jobs tell of those that come in time; `since_ms`: the first hour that was judged."""
    lines = [
        line for line in log.lines if isinstance(line.value, dict) and line.value.get("source") == SOURCE
    ]
    found = judge_log(lines, _of_team(tables), judged_ms, hour_stories.THRESHOLDS, since_ms)
    return [each for each in found if tables.jobs[each.job_id].team == hour_stories.TEAM]


def _of_team(tables: Tables) -> Tables:
    jobs = {name: row for name, row in tables.jobs.items() if row.team == hour_stories.TEAM}
    return Tables(
        ledger={key: row for key, row in tables.ledger.items() if key.job_id in jobs},
        hours={key: row for key, row in tables.hours.items() if key.job_id in jobs},
        jobs=jobs,
    )


def _is_in_time(rule: str, name: str) -> bool:
    if rule == "provisioning_burst":
        return name.startswith(f"{hour_stories.CLUSTER}/")
    if rule == "unsampled_gpus":
        return name.startswith(sampled_jobs.PREFIX)
    return name == {"team_burn": TEAM, "forgotten_node": "c9/", "price_jump": JUMP}[rule]


def costs_of(tables: Tables, said: Iterable[tuple[Line, int]]) -> Costs:
    """What the rules look at, as the oracle has it; `said`: lines with the prices that jump, and when each was said."""
    jobs = {
        name: {"owner": row.owner or "", "team": row.team or "", "project": row.project or "",
               "experiment": row.experiment or ""}
        for name, row in tables.jobs.items()
    }  # fmt: skip
    hours = [
        JobHour(
            key.job_id, key.hour * HOUR_MS, sum(row.cost_nano), key.fields[_CLUSTER], row.gpu_milli_ms,
            row.sampled_gpu_ms, row.wall_clock_ms, row.starting_ms, row.cost_nano[_GPU],
        )
        for key, row in tables.hours.items()
    ]  # fmt: skip
    nodes = [
        NodeHour(
            node, hour * HOUR_MS, row.dimensions[_CLUSTER], row.dimensions[_TYPE], row.dimensions[-1], row.paid_ms,
            row.gpu_milli_ms, row.cost_nano, row.dimensions[_GPU],
        )
        for (node, hour), row in tables.node_hours.items()
    ]  # fmt: skip
    prices = [
        Revision(value["sku"], value["per"], usd_nano(value["usd"]), value["effective_ms"], said_ms)
        for line, said_ms in said
        if line.topic == "prices" and isinstance(value := line.value, dict) and value.get("sku") == JUMP
    ]
    uses: dict[tuple[str, int], tuple[int, int]] = {}
    suspended: dict[tuple[str, int], int] = {}
    for cell, used in tables.ledger.items():
        if cell.component == "gpu":
            hour_ms = cell.minute // 60 * HOUR_MS
            cost, held = uses.get((cell.node, hour_ms), (0, 0))
            held += used.quantity if cell.unit == "gpu_milli_ms" else 0
            uses[cell.node, hour_ms] = cost + used.cost_nano, held
            if cell.phase == "suspended":
                of_job = cell.job_id, hour_ms
                suspended[of_job] = suspended.get(of_job, 0) + used.quantity
    strays: dict[tuple[str, int], int] = {}
    for (minute, node, _), row in tables.unattributed.items():
        strays[node, minute // 60 * HOUR_MS] = (
            strays.get((node, minute // 60 * HOUR_MS), 0) + row.productive_ms
        )
    at_nodes = [JobUse(*where, *use) for where, use in uses.items()]
    return Costs(jobs, hours, nodes, at_nodes, prices, suspended, strays)


def with_ms(row: Alert) -> Alert:
    """A row of `alerts` with its instants in ms, too."""
    resolved = row["resolved"]
    return row | {
        "started_ms": round(row["started"].timestamp() * 1000),
        "resolved_ms": None if resolved is None else round(resolved.timestamp() * 1000),
    }


def covers(row: Alert, at_ms: int) -> bool:
    """Whether an alert with its instants in ms fires at one."""
    return bool(row["started_ms"] <= at_ms and (row["resolved_ms"] is None or row["resolved_ms"] > at_ms))


def _fired(row: Alert) -> tuple[str, str, int, int]:
    return row["rule"], row["subject_name"], row["started_ms"], row["resolved_ms"] or 0


def _shown(fired: Fired) -> tuple[str, str, int, int]:
    return fired.rule, fired.job_id, fired.started_ms, fired.resolved_ms or 0
