"""Answers of the simulated store to the statements of the rules across jobs: sums of its rows, in plain Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from functools import cache
from itertools import combinations
from typing import Any, NamedTuple

from schemas.budget_tables import BUDGET_USE
from schemas.tables import ALERTS, BOOKS, JOB_HOURS, JOB_MINUTES, JOBS, NODE_HOURS, UNATTRIBUTED_MINUTES
from schemas.units import COMPONENTS
from streams.engine.alerts.budgets import MATCHED
from streams.engine.rules import (
    forgotten_node,
    hourly_sql,
    owner_coverage,
    provisioning_burst,
    team_burn,
    unallocated,
    unsampled_gpus,
)
from streams.engine.rules.similar_jobs import stem_of
from streams.worker.ledger_judges import (
    incident_judge,
    oversized_sql,
    price_use,
    quiet_hours_sql,
    run_losses_sql,
    run_sql,
    unusual_length_sql,
    usage_sql,
)
from streams.worker.shards.versions import LIFE_BITS
from tests.oracle.ledger_rules import (
    BY_HOUR,
    Costs,
    JobHour,
    JobUse,
    NodeHour,
)
from tests.oracle.model import HOUR_MS, MINUTE_MS
from tests.simulator import job_answers, receipt_answers
from tests.simulator.shelf_rows import Bound, Row, read, usd
from tests.simulator.store import Shelf

_OPEN = ("starting", "running", "suspended")


class Column(NamedTuple):
    """The values of one column."""

    values: list[Any]

    def __len__(self) -> int:
        return len(self.values)

    @property
    def chunks(self) -> list[Column]:
        return [self]

    def slice(self, first: int, length: int) -> Column:
        return Column(self.values[first : first + length])

    def to_pylist(self) -> list[Any]:
        return self.values


class Rows(NamedTuple):
    """As much of an answer as is asked for."""

    rows: list[Row]

    @property
    def num_rows(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> Column:
        return Column([row[name] for row in self.rows])

    def take(self, places: Column) -> Rows:
        return Rows([self.rows[place] for place in places.to_pylist()])

    @property
    def columns(self) -> list[Column]:
        return [self.column(name) for name in (self.rows[0] if self.rows else ())]

    def to_batches(self, max_chunksize: int) -> list[Rows]:
        assert max_chunksize > 0
        return [self]

    def to_pylist(self) -> list[Row]:
        return self.rows


def answer(shelf: Shelf, sql: str, bound: Bound | None) -> Rows:
    """What the store says."""
    known = _statements().get(sql)
    return Rows([] if known is None else list(known(shelf, bound or {})))


def _jobs(shelf: Shelf) -> dict[str, Row]:
    names = (
        *MATCHED,
        "state",
        "started",
        "ended",
        "deadline",
        "budget",
        "cluster",
        "shard",
        "work_dir",
        "labels",
    )
    return {row[0]: dict(zip(names, row, strict=True)) for row in read(shelf, JOBS, *names)}


def _judged(shelf: Shelf, _: Bound) -> Iterator[Row]:
    times = list(read(shelf, BUDGET_USE, "time"))
    yield {"budgets": len(times), "judged_ms": max((at_ms for (at_ms,) in times), default=0)}


def _accrued(shelf: Shelf, _: Bound) -> Iterator[Row]:
    found: dict[int, tuple[int, int, int]] = {}
    for shard, *values in read(shelf, BOOKS, "shard", "version", "time", "read_to"):
        found[shard] = max(found.get(shard, (0, 0, 0)), tuple(values))
    for shard, (version, time, read_to) in found.items():
        yield {"shard": shard, "accrued_ms": min(time, read_to), "life": version >> LIFE_BITS}
    started = {shard for shard, began in read(shelf, JOBS, "shard", "started") if began is not None}
    yield from ({"shard": shard, "accrued_ms": 0, "life": 0} for shard in sorted(started - found.keys()))


def open_shards(shelf: Shelf) -> set[int]:
    """The shards with a job that goes on."""
    return {
        job["shard"]
        for job in _jobs(shelf).values()
        if job["started"] is not None and job["ended"] is None and job["state"] in _OPEN
    }


def _open_shards(shelf: Shelf, _: Bound) -> Iterator[Row]:
    yield from ({"shard": shard} for shard in open_shards(shelf))


def _next_offsets(shelf: Shelf, _: Bound) -> Iterator[Row]:
    rows = [*read(shelf, BOOKS, "topic", "shard", "next_offset", "version")]
    for topic, shard, offset, version in rows:
        life = max(newest >> LIFE_BITS for _, other, _, newest in rows if other == shard)
        yield {"topic": topic, "shard": shard, "stored_offset": offset if version >> LIFE_BITS == life else 0}


def _runs(shelf: Shelf, bound: Bound) -> Iterator[Row]:
    for job in sorted(_jobs(shelf).values(), key=lambda each: str(each["job_id"])):
        row = _run(job, bound)
        if row["is_live"] and (bound["is_any"] or job["budget"]):
            yield row


def _run(job: Row, bound: Bound) -> Row:
    is_live = job["ended"] is None or job["ended"] >= bound["from_ms"] - HOUR_MS
    times = {f"{name}_ms": job[name] for name in ("started", "ended", "deadline")}
    return {**job, **times, "is_live": is_live}


def _runs_of_owners(shelf: Shelf, bound: Bound) -> Iterator[Row]:
    since_ms = bound["from_ms"] - 30 * 24 * HOUR_MS
    for job in sorted(_jobs(shelf).values(), key=lambda each: str(each["job_id"])):
        if job["owner"] in bound["owners"] and job["started"] is not None and job["started"] >= since_ms:
            yield _run(job, bound)


def _is_certain(bound: Bound, shard: int, at_ms: int) -> bool:
    return not (shard in bound["late"] and at_ms >= bound["cut_ms"])


def _group(fields: tuple[str, ...], jobs: Mapping[str, Row], job_id: str) -> tuple[str, ...]:
    job = {**jobs.get(job_id, {}), "job_id": job_id}
    return tuple(job.get(name) or "" for name in fields)


def _is_wanted(fields: tuple[str, ...], group: tuple[str, ...], bound: Bound) -> bool:
    return all(value in bound[name] for name, value in zip(fields, group, strict=True))


_COSTS = tuple(f"{component}_cost_usd" for component in COMPONENTS)


def _before(fields: tuple[str, ...], shelf: Shelf, bound: Bound) -> Iterator[Row]:
    jobs, sums = _jobs(shelf), dict[tuple[str, ...], Row]()
    starts = [name for name in bound if name.startswith("start_")]
    for job_id, hour_s, shard, gpu, wall, *costs in read(
        shelf, JOB_HOURS, "job_id", "hour", "shard", "gpu_milli_ms", "wall_clock_ms", *_COSTS
    ):
        hour_ms, group = hour_s * 1000, _group(fields, jobs, job_id)
        if (
            hour_ms >= bound["from_ms"]
            or not _is_wanted(fields, group, bound)
            or not _is_certain(bound, shard, hour_ms)
        ):
            continue
        row = sums.setdefault(group, dict(zip(fields, group, strict=True)))
        for name in starts:
            at, since = name.removeprefix("start_"), hour_ms >= bound[name]
            row[f"usd_{at}"] = row.get(f"usd_{at}", Decimal(0)) + usd(sum(costs) * since)
            row[f"gpu_{at}"] = row.get(f"gpu_{at}", 0) + gpu * since
            row[f"wall_{at}"] = row.get(f"wall_{at}", 0) + wall * since
    yield from sums.values()


def _hours(fields: tuple[str, ...], shelf: Shelf, bound: Bound) -> Iterator[Row]:
    jobs, sums = _jobs(shelf), dict[tuple[tuple[str, ...], int], Row]()
    for job_id, hour_s, shard, gpu, wall, *costs in read(
        shelf, JOB_HOURS, "job_id", "hour", "shard", "gpu_milli_ms", "wall_clock_ms", *_COSTS
    ):
        hour_ms, group = hour_s * 1000, _group(fields, jobs, job_id)
        if (
            not bound["from_ms"] <= hour_ms < bound["to_ms"]
            or not _is_wanted(fields, group, bound)
            or not _is_certain(bound, shard, hour_ms)
        ):
            continue
        empty = {
            **dict(zip(fields, group, strict=True)),
            "hour_ms": hour_ms,
            "usd": Decimal(0),
            "gpu": 0,
            "wall": 0,
        }
        row = sums.setdefault((group, hour_ms), empty)
        row["usd"] += usd(sum(costs))
        row["gpu"] += gpu
        row["wall"] += wall
    yield from (sums[each] for each in sorted(sums, key=lambda each: each[1]))


def _paid(shelf: Shelf, bound: Bound) -> Iterator[tuple[str, int, str, str, int, int, int]]:
    names = ("job_id", "minute", "component", "unit", "quantity", "cost_usd", "shard")
    for job_id, minute_s, *rest in read(shelf, JOB_MINUTES, *names):
        if rest[2] and bound["from_ms"] // 1000 <= minute_s < bound["to_ms"] // 1000:
            yield job_id, minute_s * 1000, *rest


def _used(shelf: Shelf, bound: Bound) -> Iterator[Row]:
    names = ("job_id", "minute", "sku", "price_usd", "quantity", "cost_usd")
    sums: dict[tuple[int, str, str, int], int] = {}
    for job_id, minute_s, sku, price, quantity, cost in read(shelf, JOB_MINUTES, *names):
        if quantity and price and sku in bound["skus"]:
            for at_ms in bound["instants"]:
                if at_ms - 5 * MINUTE_MS <= minute_s * 1000 < at_ms:
                    sums[at_ms, sku, job_id, price] = sums.get((at_ms, sku, job_id, price), 0) + cost
    for (at_ms, sku, job_id, price), cost_nano in sums.items():
        yield {"at_ms": at_ms, "sku": sku, "job_id": job_id, "price_nano": price, "cost_nano": cost_nano}


def _shared_alerts(shelf: Shelf, bound: Bound) -> Iterator[Row]:
    same = ("shared_cause", "rule", "severity", "subject_kind", "subject_name", "owner", "team", "project")
    instants = ("started", "resolved", "ticket_since", "page_since", "stood_since")
    names = ("started_ms", "resolved_ms", "ticket_ms", "page_ms", "stood_ms")
    for *values, nano in read(shelf, ALERTS, *same, *instants, "opened_usd_per_hour"):
        row = dict(zip((*same, *names), values, strict=True))
        from_ms = bound["from_ms" if row["subject_kind"] == "job" else "named_from_ms"]
        is_asked = row["shared_cause"] or row["rule"] in bound["standstill"]
        if is_asked and row["rule"] != "incident" and from_ms <= row["started_ms"] < bound["to_ms"]:
            yield {**row, "nano_per_hour": nano}


def _minutes(fields: tuple[str, ...], shelf: Shelf, bound: Bound) -> Iterator[Row]:
    jobs, sums = _jobs(shelf), dict[tuple[tuple[str, ...], int], Row]()
    for job_id, minute_ms, component, unit, quantity, cost, shard in _paid(shelf, bound):
        group = _group(fields, jobs, job_id)
        if _is_wanted(fields, group, bound) and _is_certain(bound, shard, minute_ms):
            empty = {
                **dict(zip(fields, group, strict=True)),
                "minute_ms": minute_ms,
                "usd": Decimal(0),
                "gpu": 0,
            }
            row = sums.setdefault((group, minute_ms), empty)
            row["usd"] += usd(cost)
            row["gpu"] += quantity if component == "gpu" and unit == "gpu_milli_ms" else 0
    yield from sums.values()


def _wall_clock(fields: tuple[str, ...], shelf: Shelf, bound: Bound) -> Iterator[Row]:
    jobs, sums = _jobs(shelf), dict[tuple[tuple[str, ...], int], int]()
    names = ("job_id", "hour", "shard", "wall_clock_from_ms", "wall_clock_until_ms")
    for job_id, hour_s, shard, begins, ends in read(shelf, JOB_HOURS, *names):
        group = _group(fields, jobs, job_id)
        if not bound["from_ms"] <= hour_s * 1000 < bound["to_ms"] or not _is_wanted(fields, group, bound):
            continue
        for begin_ms, end_ms in (
            (hour_s * 1000 + b, hour_s * 1000 + e) for b, e in zip(begins, ends, strict=True)
        ):
            for minute_ms in range(begin_ms // MINUTE_MS * MINUTE_MS, end_ms, MINUTE_MS):
                if minute_ms < bound["to_ms"] and _is_certain(bound, shard, minute_ms):
                    ms = min(end_ms, minute_ms + MINUTE_MS) - max(begin_ms, minute_ms)
                    sums[group, minute_ms] = sums.get((group, minute_ms), 0) + ms
    for (group, minute_ms), ms in sums.items():
        yield {**dict(zip(fields, group, strict=True)), "minute_ms": minute_ms, "wall": ms}


def _top(fields: tuple[str, ...], shelf: Shelf, bound: Bound) -> Iterator[Row]:
    jobs, sums, first = _jobs(shelf), dict[str, int](), dict[str, int]()
    for job_id, minute_ms, _, _, _, cost, _ in _paid(shelf, bound):
        ended_ms = jobs.get(job_id, {}).get("ended")
        is_over = ended_ms is not None and ended_ms <= bound["to_ms"]
        if not is_over and _is_wanted(fields, _group(fields, jobs, job_id), bound):
            sums[job_id] = sums.get(job_id, 0) + cost
            first[job_id] = min(minute_ms, first.get(job_id, minute_ms))
    kinds: dict[tuple[str, str, str], dict[str, int]] = {}
    for job_id, cost in sums.items():
        job, stem = jobs.get(job_id, {}), stem_of(job_id)
        experiment = "" if "experiment" in fields else job.get("experiment", "")
        kind = "experiment" if experiment else "name", experiment or stem or job_id, job.get("team", "")
        rate = cost * HOUR_MS // max(bound["to_ms"] - first[job_id], MINUTE_MS)
        if rate > 0:
            kinds.setdefault(kind, {})[job_id] = rate
    for kind, rates in sorted(kinds.items(), key=lambda each: (-sum(each[1].values()), each[0]))[:1]:
        row = {"kind_by": kind[0], "kind": kind[1], "of_team": kind[2], "jobs": len(rates)}
        yield {**row, "least_job_id": min(rates), "nano_per_hour": sum(rates.values())}


def _live(fields: tuple[str, ...], shelf: Shelf, bound: Bound) -> Iterator[Row]:
    unpriced = {row[0] for row in read(shelf, JOB_HOURS, "job_id", "unpriced_gpu_milli_ms") if row[1]}
    for job_id, job in sorted(_jobs(shelf).items()):
        if job["state"] in ("starting", "running", "metered") and all(
            job[name] in bound[name] for name in fields
        ):
            yield {**job, "is_unpriced": job_id in unpriced}


def costs_of(shelf: Shelf) -> Costs:
    """What the rules by the hour look at."""
    hours = [
        JobHour(job_id, hour_s * 1000, sum(costs), cluster, held, sampled, wall, starting, gpu)
        for job_id, hour_s, cluster, held, sampled, wall, starting, gpu, *costs in read(
            shelf, JOB_HOURS, "job_id", "hour", "cluster", "gpu_milli_ms", "sampled_gpu_ms", "wall_clock_ms", "starting_ms",
            "gpu_cost_usd", *_COSTS,
        )
    ]  # fmt: skip
    of_node = ("cluster", "instance_type", "team", "paid_ms", "gpu_milli_ms", "cost_usd", "gpu_type")
    names = ("node", "hour", *of_node)
    nodes = [NodeHour(node, hour_s * 1000, *rest) for node, hour_s, *rest in read(shelf, NODE_HOURS, *names)]
    uses: dict[tuple[str, int], tuple[int, int]] = {}
    for node, minute_s, component, unit, quantity, cost in read(
        shelf, JOB_MINUTES, "node", "minute", "component", "unit", "quantity", "cost_usd"
    ):
        if component == "gpu" and quantity:
            where = node, minute_s // 3600 * HOUR_MS
            so_far, held = uses.get(where, (0, 0))
            uses[where] = so_far + cost, held + (quantity if unit == "gpu_milli_ms" else 0)
    suspended: dict[tuple[str, int], int] = {}
    of_job = ("job_id", "minute", "component", "phase", "quantity")
    for job_id, minute_s, component, phase, quantity in read(shelf, JOB_MINUTES, *of_job):
        if component == "gpu" and phase == "suspended":
            of_hour = job_id, minute_s // 3600 * HOUR_MS
            suspended[of_hour] = suspended.get(of_hour, 0) + quantity
    strays: dict[tuple[str, int], int] = {}
    for node, minute_s, worked_ms in read(shelf, UNATTRIBUTED_MINUTES, "node", "minute", "productive_ms"):
        where = node, minute_s // 3600 * HOUR_MS
        strays[where] = strays.get(where, 0) + worked_ms
    at_nodes = [JobUse(*key, *use) for key, use in uses.items()]
    return Costs(_jobs(shelf), hours, nodes, at_nodes, suspended=suspended, strays=strays)


def _is_there(shelf: Shelf, bound: Bound) -> Iterator[Row]:
    from_s, to_s = bound["from_ms"] // 1000, bound["to_ms"] // 1000
    sampled = [
        ms for hour_s, ms in read(shelf, JOB_HOURS, "hour", "sampled_gpu_ms") if from_s <= hour_s < to_s
    ]
    nodes = [hour_s for (hour_s,) in read(shelf, NODE_HOURS, "hour") if from_s - 3600 <= hour_s < to_s]
    yield {"jobs": bool(sampled), "samples": any(sampled), "nodes": bool(nodes)}


_HOURLY = {
    unallocated.SQL: "unallocated", owner_coverage.SQL: "owner_coverage",
    forgotten_node.SQL: "forgotten_node", provisioning_burst.SQL: "provisioning_burst",
    unsampled_gpus.SQL: "unsampled_gpus",
}  # fmt: skip


def _by_hour(rule: str, shelf: Shelf, bound: Bound) -> Iterator[Row]:
    costs = costs_of(shelf)
    for at_ms in range(bound["from_ms"] + HOUR_MS, bound["to_ms"] + 1, HOUR_MS):
        held_by = BY_HOUR[rule](costs, at_ms, bound)
        if rule == "unsampled_gpus":
            held_by = [
                held
                for held in held_by
                if not any(
                    job_answers.stood(shelf, each, held.subject.name, at_ms)
                    for each in ("silent_job", "held")
                )
            ]
        stored = {row["shard"]: row["accrued_ms"] for row in _accrued(shelf, {})}
        shelf.short.setdefault(at_ms, set()).update(each for each in range(3) if stored.get(each, 0) < at_ms)
        shelf.judged.setdefault((rule, at_ms), set()).add(frozenset(held.subject for held in held_by))
        for held in held_by:
            part, whole = usd(held.nano), usd(held.of_nano)
            cluster, _, instance_type = held.subject.name.partition("/")
            rows: dict[str, Row] = {
                "unallocated": {"usd": whole, "idle_usd": part},
                "owner_coverage": {"usd": whole, "unowned_usd": part},
                "forgotten_node": {
                    "node_group": held.subject.name, "cluster": cluster, "instance_type": instance_type, "gpu_type": "",
                    "nodes": held.nodes, "first_node": "n", "team": "", "usd": part, "hours": bound.get("hours", 0),
                    "stray_node": "", "last_job": "", "stray_gpus": 0, "stray_nodes": 0, "stray_nano": 0,
                },
                "provisioning_burst": {
                    "cluster": cluster, "instance_type": instance_type, "nodes": held.nodes, "usual_nodes": 0.0, "gone_nodes": 0,
                },
                "unsampled_gpus": {
                    "job_id": held.subject.name, "cluster": held.cluster, "gpus": held.of_nano / 1000 / HOUR_MS,
                    "unsampled_ratio": float(held.unsampled), "others_ratio": float(held.others),
                    "usd": float(part) * float(held.unsampled),
                    **{name: costs.jobs.get(held.subject.name, {}).get(name, "") for name in ("owner", "team", "project")},
                },
            }  # fmt: skip
            yield {"at_ms": at_ms, **rows[rule]}


def _team_burn(fields: tuple[str, ...], shelf: Shelf, bound: Bound) -> Iterator[Row]:
    costs = costs_of(shelf)
    for at_ms in range(bound["from_ms"] + HOUR_MS, bound["to_ms"] + 1, HOUR_MS):
        inside = [hour for hour in costs.hours if hour.hour_ms == at_ms - HOUR_MS]
        spent = [
            hour.cost_nano
            for hour in inside
            if all(costs.jobs.get(hour.job_id, {}).get(name, "") == bound[name] for name in fields)
        ]
        if inside:
            fleet = sum(hour.cost_nano for hour in inside)
            yield {"at_ms": at_ms, "usd": usd(sum(spent)), "fleet_usd": usd(fleet)}


Answerer = Callable[[Shelf, Bound], Iterator[Row]]


@cache
def _statements() -> dict[str, Answerer]:
    """Each statement that the product may send, for all combinations of match fields."""
    found: dict[str, Answerer] = {
        usage_sql.ACCRUED: _accrued,
        usage_sql.JUDGED: _judged,
        usage_sql.ROWS_BY_DAY: job_answers.rows_by_day,
        usage_sql.OPEN_SHARDS: _open_shards,
        usage_sql.NEXT_OFFSETS: _next_offsets,
        usage_sql.RUNS: _runs,
        usage_sql.RUNS_OF_OWNERS: _runs_of_owners,
    }
    found[hourly_sql.IS_THERE] = _is_there
    found[price_use.USED] = _used
    found[incident_judge.SHARED_ALERTS] = _shared_alerts
    found |= {sql: _with(_by_hour, rule) for sql, rule in _HOURLY.items()}
    found |= {
        run_losses_sql.LOSING: job_answers.losing,
        run_losses_sql.OF_OWNERS: job_answers.of_owners,
        run_losses_sql.ATTEMPTS: job_answers.attempts,
        run_losses_sql.LOST: job_answers.lost,
        run_losses_sql.COSTS: job_answers.costs,
        run_losses_sql.LOOPS: job_answers.loops,
        run_sql.ABOUT: job_answers.abouts,
        quiet_hours_sql.SQL: job_answers.quiet_hours,
        oversized_sql.BEGAN: job_answers.oversized_began,
        oversized_sql.BEFORE: job_answers.oversized_before,
        oversized_sql.PAID: job_answers.oversized_paid,
        unusual_length_sql.COMPLETED: job_answers.completed,
        unusual_length_sql.RAN: job_answers.ran,
        unusual_length_sql.HOURS: job_answers.hours_of,
        **receipt_answers.STATEMENTS,
    }
    for count in range(len(MATCHED) + 1):
        for fields in combinations(MATCHED, count):
            found |= {usage_sql.before_sql(fields, starts): _with(_before, fields) for starts in range(1, 6)}
            found[usage_sql.hours_sql(fields)] = _with(_hours, fields)
            found[usage_sql.minutes_sql(fields)] = _with(_minutes, fields)
            found[usage_sql.wall_clock_sql(fields)] = _with(_wall_clock, fields)
            found[usage_sql.top_sql(fields)] = _with(_top, fields)
            found[usage_sql.live_sql(fields)] = _with(_live, fields)
            if not {"job_id", "run_id"} & {*fields}:
                named = tuple(sorted(fields))
                found[team_burn.sql_of(named)] = _with(_team_burn, named)
    return found


def _with(answerer: Callable[[Any, Shelf, Bound], Iterator[Row]], what: Any) -> Answerer:
    return lambda shelf, bound: answerer(what, shelf, bound)
