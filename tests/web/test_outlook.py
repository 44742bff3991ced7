"""What the API, the page and `trainfare top` say of what is to come in the sentence of a firing alert: as of now."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from schemas.budget_tables import BUDGET_USE
from schemas.durations import HOUR_MS
from schemas.tables import ALERTS, BURN_RATES, JOBS
from sinks.clickhouse import ClickHouseStore
from sinks.rows import Rows
from streams.cli.top.sources import StoreSource
from streams.clock import ManualClock
from streams.config.settings import ClickHouseSettings, Settings
from streams.engine.alerts.alert import RESOLVED, Alert
from streams.engine.alerts.budgets import Budget, Limits
from streams.engine.alerts.rows import alerts_table
from streams.engine.ledger_rules.budget_alert import TopKind, budget_alert, budget_over
from streams.engine.ledger_rules.findings import BudgetFinding
from streams.engine.ledger_rules.periods import CalendarPeriod
from streams.engine.ledger_rules.subject import BudgetSubject
from streams.engine.ledger_rules.usage import Amounts
from streams.engine.rules.formatting import unheeded
from tests.sinks.rows import instant, rows
from tests.sinks.stores import embedded
from tests.web.serving import Client, served

USD = 10**9
NOW = instant("2026-03-01 10:05")
MONTH, NEXT_MONTH = instant("2026-03-01 00:00"), instant("2026-04-01 00:00")
NOW_MS = int(NOW.timestamp() * 1000)
FIRED_MS = int(instant("2026-03-01 09:30").timestamp() * 1000)
PERIOD = CalendarPeriod(*(int(at.timestamp() * 1000) for at in (MONTH, NEXT_MONTH)))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ClickHouseStore]:
    with embedded(tmp_path / "store") as opened:
        yield opened


def of_budget(rule: str, percent: int, limit_usd: int = 100) -> Alert:
    """An alert about a team's budget: 80 % were used at 09:30, at $20/h."""
    budget = Budget(name="b", match={"team": "vision"}, per="month", limits=Limits(usd_nano=limit_usd * USD))
    used, per_hour = Amounts(limit_usd * USD * max(percent, 80) // 100), Amounts(20 * USD)
    left_ms = max(limit_usd - max(percent, 80) * limit_usd // 100, 0) * HOUR_MS // 20
    found = BudgetFinding(
        rule, percent, BudgetSubject(budget), PERIOD, FIRED_MS, True, used, per_hour, PERIOD.end_ms, left_ms
    )
    return budget_alert(None, found, TopKind("a", USD), silenced=False)


def about(subject: str, rule: str, text: str, usd: int, *, kind: str = "job", **other: Any) -> Alert:
    base = of_budget("budget_used", 80)
    plain = {"budget_nano": None, "exhausted_in_ms": None, "usd_nano_per_hour": usd * USD, **other}
    name = f"{subject} {text}"
    return replace(
        base,
        alert_id=f"al_{subject}_{rule}_{other.get('status', '')}",
        rule=rule,
        subject_kind=kind,
        subject_name=subject,
        summary=name,
        **plain,
    )


def more(usd: int) -> str:
    """What it was going to cost when it fired."""
    said = unheeded(usd * USD, FIRED_MS)
    assert said.endswith(" more by 17:00 UTC")
    return said


def put(store: ClickHouseStore, *alerts: Alert) -> None:
    store.insert(ALERTS, alerts_table(alerts, 0, 1), "alerts")
    pays = {"i": (3, 3, 0), "b": (50, 40, 10), "q": (9, 9, 10), "o": (100, 90, 0), "n": (7, 7, 0)}
    store.insert(
        BURN_RATES,
        rows(
            BURN_RATES,
            *(
                {"time": NOW, "job_id": job, "usd_per_hour_now": Decimal(now), "usd_per_hour": Decimal(mean),
                 "expected_usd_per_hour": Decimal(expected)}
                for job, (now, mean, expected) in pays.items()
            ),
        ),
        "rates",
    )  # fmt: skip
    use(store, 1, "90.5")


def use(store: Rows, version: int, usd: str, at: datetime = NOW) -> None:
    """What is used of the budget of $100 at an instant, at $19/h."""
    used: dict[str, Any] = {"budget": "b", "subject_kind": "team", "subject_name": "vision", "per": "month"}
    used |= {"time": at, "period_start": MONTH, "period_end": NEXT_MONTH, "limit_usd": Decimal(100)}
    used |= {"used_usd": Decimal(usd), "used_ratio": float(usd) / 100, "usd_per_hour": Decimal(19)}
    store.insert(BUDGET_USE, rows(BUDGET_USE, {**used, "version": version}), usd)


def said(store: ClickHouseStore, *alerts: Alert, path: str = "/api/v1/alerts") -> dict[str, str]:
    put(store, *alerts)

    async def work(client: Client) -> Any:
        return await client.get(path, 200)

    return {each["alert_id"]: each["summary"] for each in served(store, work, wall_ms=NOW_MS)["alerts"]}


BEFORE = "team vision has used 80.0 % of budget b for March 2026: $80 of $100, $20/h"


def test_a_budget_has_what_is_used_and_left_now(store: ClickHouseStore) -> None:
    eighty, forecast = of_budget("budget_used", 80), of_budget("budget_forecast", 0)
    over = budget_over(of_budget("budget_used", 50), FIRED_MS + 60_000)
    assert ", used up at 10:30 UTC; " in eighty.summary
    found = said(store, eighty, forecast, over)
    now = "stop or shrink a ($1.00/h), or raise it; 90.5 % at 10:05 UTC, $19/h, used up at 10:35 UTC"
    assert found[eighty.alert_id] == f"{BEFORE}; {now}"
    assert found[forecast.alert_id].startswith(
        "team vision was to use up budget b for March 2026 at 10:30 UTC, "
    )
    assert found[forecast.alert_id].endswith(f": $80 of $100, $20/h; {now}")
    assert found[over.alert_id] == f"over after 1 min: {BEFORE}"


def test_a_used_up_budget_has_what_it_costs_from_now_on(store: ClickHouseStore) -> None:
    full = of_budget("budget_used", 100)
    assert f", else {more(20)}" in full.summary
    put(store, full)
    use(store, 2, "111")

    async def work(client: Client) -> Any:
        return await client.get("/api/v1/alerts", 200)

    (alert,) = served(store, work, wall_ms=NOW_MS)["alerts"]
    assert alert["summary"] == (
        "team vision has used up budget b for March 2026: $100 of $100; stop or shrink a ($1.00/h), or raise it;"
        " 111.0 % at 10:05 UTC, $19/h, else $150 more by 18:00 UTC"
    )


def test_a_budget_that_was_not_judged_lately(store: ClickHouseStore) -> None:
    put(store, of_budget("budget_used", 80))

    async def work(client: Client) -> Any:
        return await client.get("/api/v1/alerts", 200)

    (alert,) = served(store, work, wall_ms=NOW_MS + 300_001)["alerts"]
    assert alert["summary"] == (
        f"{BEFORE}; stop or shrink a ($1.00/h), or raise it; 90.5 % at 10:05 UTC, $19/h"
    )


def test_a_budget_of_which_nothing_is_known_now_has_only_its_past(store: ClickHouseStore) -> None:
    gone = of_budget("budget_used", 80, limit_usd=1000)
    assert ", used up at " in gone.summary
    (text,) = said(store, gone).values()
    assert text == (
        "team vision has used 80.0 % of budget b for March 2026: $800 of $1,000, $20/h; stop or shrink a ($1.00/h), or raise it"
    )


NOW_SAID = (
    (about("i", "idle_gpus", f"leaves GPUs idle; stop it, else {more(2)}; H100", 2), "leaves GPUs idle; stop it, else $24 more by 18:00 UTC; H100"),
    (about("i", "runaway_length", f"is still billed; stop it, else {more(2)}", 2), "is still billed; stop it, else $24 more by 18:00 UTC"),
    (about("r", "retry_loop", f"failed; stop it, else {more(2)}, fired 2 times", 2), "failed; stop it, fired 2 times"),
    (about("i", "retry_loop", f"failed; stop it, else {more(2)}, fired 2 times", 2), "failed; stop it, else $24 more by 18:00 UTC, fired 2 times"),
    (about("b", "burn_fast", f"burns: stop it, else {more(9)}", 30, expected_nano_per_hour=10 * USD), "burns: stop it, else $317 more by 18:00 UTC"),
    (about("q", "burn_fast", f"burns: stop it, else {more(9)}", 30, expected_nano_per_hour=10 * USD), "burns: stop it, else $158 more by 18:00 UTC"),
    (about("o", "oversized", f"began; stop it, else {more(9)}", 100, ratio=5.0), "began; stop it, else $633 more by 18:00 UTC"),
    (about("n", "traffic", f"pays; keep it, else at least {more(9)}", 9), "pays; keep it"),
    (about("n", "price_basis", f"pays since attempt 2, {more(9)}; move it back", 9), "pays since attempt 2; move it back"),
    (about("n", "unsampled_gpus", f"has none; find it, else {more(9)}", 9), "has none; find it"),
    (about("n", "team_burn", f"spent; move jobs, else {more(9)}", 9, kind="team"), "spent; move jobs"),
    (about("n", "forgotten_node", f"is paid; end it, else {more(9)}", 9, kind="node"), "is paid; end it"),
    (about("i", "idle_gpus", f"uses them again, else {more(2)}", 2, status=RESOLVED), f"uses them again, else {more(2)}"),
)  # fmt: skip


def test_a_job_has_what_it_pays_now(store: ClickHouseStore) -> None:
    """Fired at 09:30; it is 10:05. What nobody knows of the present is left out."""
    found = said(store, *(alert for alert, _ in NOW_SAID))
    assert found == {alert.alert_id: f"{alert.subject_name} {now}" for alert, now in NOW_SAID}


def test_tries_of_a_run_that_followed_are_in_the_sentence(store: ClickHouseStore) -> None:
    """Three tries were told of at 09:30, the fourth and fifth began after it; one of another owner is none of them."""
    owners = {"sft-1": "ada", "sft-2": "ada", "sft-3": "ada", "sft-4": "ada", "sft-5": "ada", "sft-6": "bob"}
    fired = datetime.fromtimestamp(FIRED_MS / 1000, UTC)
    began = {name: fired + timedelta(minutes=10 * (number - 3)) for number, name in enumerate(owners, 1)}
    jobs = (
        {"job_id": name, "owner": owner, "team": "vision", "run_id": "sft", "state": "failed", "attempts": 1,
         "started": began[name] - timedelta(minutes=1 if name < "sft-4" else 0),
         "ended": began[name] + timedelta(minutes=5), "first_event": NOW, "last_event": NOW}
        for name, owner in owners.items()
    )  # fmt: skip
    store.insert(JOBS, rows(JOBS, *jobs), "jobs")
    lost = (
        {"hour": fired, "job_id": name, "lost_cost_usd": Decimal(24), "gpu_cost_usd": Decimal(24)}
        for name in owners
    )
    store.insert("job_hours", rows("job_hours", *lost), "hours")
    told = "and two more failed one after another"
    loop = about("sft-3", "resubmit_loop", told, 9, cost_nano=72 * USD)
    over = about("sft-3", "resubmit_loop", told, 9, cost_nano=72 * USD, status=RESOLVED)
    assert said(store, loop, over) == {
        loop.alert_id: f"sft-3 {told}; 2 more jobs since, the last sft-5, $120.00 of work lost in all",
        over.alert_id: f"sft-3 {told}",
    }


def test_time_goes_on_where_no_job_costs_anything(store: ClickHouseStore) -> None:
    alert = about("n", "forgotten_node", f"is paid; end it, else {more(9)}", 9, kind="node")
    store.insert(ALERTS, alerts_table([alert], 0, 1), "alerts")

    def shown(wall_ms: int) -> str:
        async def work(client: Client) -> Any:
            return await client.get("/api/v1/alerts", 200)

        (found,) = served(store, work, wall_ms=wall_ms)["alerts"]
        return str(found["summary"])

    assert shown(FIRED_MS + 60_000) == alert.summary
    assert shown(NOW_MS) == "n is paid; end it"


def test_the_view_of_a_job_and_the_stored_row(store: ClickHouseStore) -> None:
    alert = about("i", "idle_gpus", f"leaves GPUs idle; stop it, else {more(2)}", 2)
    store.insert(
        JOBS, rows(JOBS, {"job_id": "i", "state": "running", "first_event": NOW, "last_event": NOW}), "jobs"
    )
    assert said(store, alert, path="/api/v1/jobs/i") == {
        "al_i_idle_gpus_": "i leaves GPUs idle; stop it, else $24 more by 18:00 UTC"
    }
    answer = store.ask("SELECT summary, held FROM alerts FINAL")
    assert next(iter(answer.rows()))[0] == alert.summary


def test_top_without_a_worker(tmp_path: Path) -> None:
    with embedded(tmp_path) as store:
        put(
            store,
            of_budget("budget_used", 80),
            about("i", "idle_gpus", f"leaves GPUs idle; stop it, else {more(2)}", 2),
            about("r", "retry_loop", f"failed; stop it, else {more(2)}", 2),
        )
    settings = Settings(clickhouse=ClickHouseSettings(data_dir=tmp_path))
    shown = {each.rule: each.summary for each in StoreSource(settings, ManualClock()).fetch().alerts}
    assert shown == {
        "budget_used": f"{BEFORE}; stop or shrink a ($1.00/h), or raise it; 90.5 % at 10:05 UTC, $19/h, used up at 10:35 UTC",
        "idle_gpus": "i leaves GPUs idle; stop it, else $24 more by 18:00 UTC",
        "retry_loop": "r failed; stop it",
    }
