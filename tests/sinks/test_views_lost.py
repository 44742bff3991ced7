"""The example of lost work in docs/cost_metrics.md: from its events by the oracle, and through the view `lost_work`."""

import re
from decimal import Decimal
from pathlib import Path

from schemas.tables import ATTEMPTS, JOB_HOURS
from sinks.clickhouse import ClickHouseStore
from tests.oracle.cases import job, price
from tests.oracle.compute import compute
from tests.oracle.model import Line
from tests.sinks.rows import dicts, rows

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "cost_metrics.md").read_text()
DAY_MS = 1_780_272_000_000
ATTEMPT = re.compile(
    r"^\| (\d) \| (\d\d:\d\d)(?:, starting until (\d\d:\d\d))? \| (\d\d:\d\d)(?:, checkpoint at (\d\d:\d\d))? "
    r"\| `(\w+)` \| \$([\d.]+) \| \$([\d.]+) \| \$([\d.]+) \|$",
    re.MULTILINE,
)


def ms(clock: str) -> int:
    hours, minutes = clock.split(":")
    return DAY_MS + (60 * int(hours) + int(minutes)) * 60_000


def events() -> list[Line]:
    found = [price("gpu", "3.6")]
    for number, start, running, end, checkpoint, state, *_ in ATTEMPT.findall(PAGE):
        attempt = {"attempt": int(number)}
        first = "allocated" if running else "started"
        found.append(job("j", first, ms(start), gpu_count=1, **attempt))
        if running:
            found.append(job("j", "started", ms(running), **attempt))
        if checkpoint:
            found.append(job("j", "checkpointed", ms(checkpoint), **attempt))
        if state != "superseded":
            found.append(job("j", state, ms(end), **attempt))
    return found


def test_the_example_of_lost_work_and_retry_overhead(store: ClickHouseStore) -> None:
    tables = compute(events())
    hours = [
        {
            "job_id": key.job_id,
            "attempt": key.attempt,
            "hour": key.hour * 3600,
            "lost_cost_usd": Decimal(row.lost_cost_nano).scaleb(-9),
            "starting_lost_cost_usd": Decimal(row.starting_lost_cost_nano).scaleb(-9),
        }
        for key, row in tables.hours.items()
    ]
    attempts = [
        {"job_id": job_id, "attempt": number, "state": row.state}
        for (job_id, number), row in tables.attempts.items()
    ]
    store.insert(JOB_HOURS, rows(JOB_HOURS, *hours), "h")
    store.insert(ATTEMPTS, rows(ATTEMPTS, *attempts), "a")
    found = dicts(store, "SELECT * FROM lost_work ORDER BY attempt")
    said = ATTEMPT.findall(PAGE)
    assert len(said) == 3
    want = [(int(row[0]), row[5], Decimal(row[7]), Decimal(row[8])) for row in said]
    columns = ("attempt", "state", "lost_cost_usd", "retry_cost_usd")
    assert [tuple(row[name] for name in columns) for row in found] == want
    assert [row["retried"] for row in found] == [True, True, False]
    cost = sum(sum(row.cost_nano) for row in tables.hours.values())
    assert cost == sum(int(Decimal(row[6]).scaleb(9)) for row in said)
    lost, retries = (sum(row[place] for row in want) for place in (2, 3))
    assert f"Of ${cost / 1e9:.2f}, ${lost:.2f} are lost and ${retries:.2f} are retry overhead" in PAGE
