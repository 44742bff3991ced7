"""What must be stored after a soak, by the tests' oracle, and what is: every job's rows, quantities and nano-dollars."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from typing import NamedTuple

from loadtest.soak_load import Account
from sinks.clickhouse import ClickHouseStore
from tests.oracle.compute import compute, compute_job, price_book
from tests.oracle.model import Line

CANARY = "trainfare-canary"


class Sum(NamedTuple):
    """Rows that are not zero, their quantities and costs."""

    rows: int
    quantity: int
    cost_nano: int
    lost_nano: int


class Totals(NamedTuple):
    """What is compared."""

    jobs: dict[str, Sum]
    nodes: Sum
    gpu_samples: int
    work_gpu_ms: int
    dead_letters: int

    def cost_nano(self) -> int:
        """Of all jobs."""
        return sum(each.cost_nano for each in self.jobs.values())


def expected(account: Account) -> Totals:
    """What the oracle makes of what was sent; everything in it has ended, so no clock matters."""
    by_job: dict[str, list[Line]] = defaultdict(list)
    prices: list[Line] = []
    nodes: list[Line] = []
    for topic, body in account.told:
        line = Line(topic, body)
        if topic == "prices":
            prices.append(line)
        elif topic == "nodes":
            nodes.append(line)
        else:
            by_job[str(body["job_id"])].append(line)
    newest_ms = max(int(body["time_ms"]) for _, body in account.told)
    book = price_book(prices)
    jobs: dict[str, Sum] = {}
    for job_id, lines in by_job.items():
        rows = compute_job(lines, book=book, as_of_ms=newest_ms).ledger.values()
        if not rows:
            continue  # it began in the last second
        jobs[job_id] = Sum(
            len(rows),
            sum(row.quantity for row in rows),
            sum(row.cost_nano for row in rows),
            sum(row.lost_cost_nano for row in rows),
        )
    held = compute([*prices, *nodes], as_of_ms=newest_ms).nodes.values()
    of_nodes = Sum(len(held), sum(row.quantity for row in held), sum(row.cost_nano for row in held), 0)
    return Totals(jobs, of_nodes, account.gpu_samples, account.permille, account.bad)


def stored(store: ClickHouseStore, others: tuple[str, ...] = ()) -> Totals:
    """The same as the tables have it; jobs whose ids begin as one of `others` are not ours."""
    ours = " AND ".join(f"NOT startsWith(job_id, '{each}')" for each in (CANARY, *others))
    jobs = {
        str(row["job_id"]): _sum(row)
        for row in store.query(
            f"SELECT job_id, {_SUMS}, toString(sum(lost_cost_usd)) AS lost FROM job_minutes FINAL "
            f"WHERE quantity != 0 AND {ours} GROUP BY job_id"
        ).to_pylist()
    }
    nodes = store.query(
        f"SELECT {_SUMS}, '0' AS lost FROM node_minutes FINAL "
        f"WHERE quantity != 0 AND NOT startsWith(node, '{CANARY}')"
    ).to_pylist()
    usage = store.query(
        "SELECT sum(sampled_gpu_s) AS samples, sum(productive_gpu_ms) AS work "
        f"FROM job_usage_minutes FINAL WHERE {ours}"
    ).to_pylist()[0]
    dead = store.query("SELECT toUInt64(count()) AS n FROM dead_letters FINAL").to_pylist()[0]
    return Totals(jobs, _sum(nodes[0]), int(usage["samples"]), int(usage["work"]), int(dead["n"]))


def differences(got: Totals, want: Totals) -> list[str]:
    """One sentence for each thing that differs."""
    found = [
        f"job {job_id}: got {got.jobs.get(job_id)}, want {want.jobs.get(job_id)}"
        for job_id in sorted(got.jobs.keys() | want.jobs.keys())
        if got.jobs.get(job_id) != want.jobs.get(job_id)
    ]
    for name in ("nodes", "gpu_samples", "work_gpu_ms", "dead_letters"):
        mine, theirs = getattr(got, name), getattr(want, name)
        if mine != theirs:
            found.append(f"{name}: got {mine}, want {theirs}")
    return found


_SUMS = "toUInt64(count()) AS n, toString(sum(toInt128(quantity))) AS q, toString(sum(cost_usd)) AS c"


def _sum(row: dict[str, object]) -> Sum:
    nano = [int(Decimal(str(row[name])).scaleb(9)) for name in ("c", "lost")]
    return Sum(int(str(row["n"])), int(str(row["q"])), *nano)
