"""Logs of budgets, and of jobs of kinds that recur, replayed whole: what is usual for a kind is told to nobody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.acceptance.cases_alerts.test_cannot_be import told
from tests.cli.command import trainfare


def rules(alerts: list[dict[str, Any]]) -> list[str]:
    return [alert["rule"] for alert in alerts]


def starts(alerts: list[dict[str, Any]], rule: str) -> list[str]:
    return [f"{alert['started']:%m-%d %H:%M}" for alert in alerts if alert["rule"] == rule]


def test_a_team_that_works_by_day_is_not_forecast_to_work_by_night(tmp_path: Path) -> None:
    alerts = told("forecast_month_normal", tmp_path)
    assert rules(alerts) == ["budget_used"]


def test_a_month_that_begins_has_no_forecast(tmp_path: Path) -> None:
    alerts = told("month_reset_gpuh", tmp_path)
    # May has one, for the job began on its last day but one.
    assert starts(alerts, "budget_forecast") == ["05-30 15:16"]
    used = ["05-30 23:38", "05-31 09:00", "05-31 15:15", "06-01 15:38", "06-02 01:00", "06-02 07:15"]
    assert starts(alerts, "budget_used") == used
    assert len(alerts) == 7


def test_a_month_that_is_a_minute_old_has_no_forecast(tmp_path: Path) -> None:
    alerts = told("sweep400_budget", tmp_path)
    assert starts(alerts, "budget_used") == ["06-01 12:55", "06-01 15:11", "06-01 17:27"]
    assert starts(alerts, "budget_forecast") == []
    # The large job is of another size than the team's 400 trials.
    assert starts(alerts, "unusual_length") == []


def test_what_to_shrink_is_the_sweep_while_it_runs(tmp_path: Path) -> None:
    told("sweep400_budget", tmp_path)
    done = trainfare("backtest", tmp_path / "log.jsonl", "--format", "table")
    said = [line for line in done.out.splitlines() if " budget_used " in line]
    first, second, last = (line for line in said if "stop or shrink" in line)
    assert "; stop or shrink experiment hpo-lr ($196/h), or raise it" in first
    assert "; stop or shrink experiment hpo-lr ($195/h), or raise it" in second
    # The last trial ended at 16:06, 81 min before the budget was used up.
    assert "; stop or shrink vit-main ($159/h), or raise it" in last


def test_a_batch_that_grows_each_week_is_told_until_it_has_a_history(tmp_path: Path) -> None:
    (alert,) = told("monday_batch", tmp_path)
    assert (alert["rule"], alert["severity"], alert["subject_name"]) == (
        "oversized", "ticket", "weekly-retrain-1",
    )  # fmt: skip


def test_the_first_large_job_of_a_night_is_told(tmp_path: Path) -> None:
    (alert,) = told("night_experiments", tmp_path)
    assert (alert["rule"], alert["subject_name"]) == ("oversized", "trynight0")


def test_a_retry_loop_is_not_told_again_as_overhead(tmp_path: Path) -> None:
    (alert,) = told("spot_churn", tmp_path)
    assert (alert["rule"], alert["severity"]) == ("retry_loop", "page")
    assert f"{alert['started']:%H:%M}" == "09:10"  # the first preemption was at 09:00


def test_a_large_job_that_was_announced_is_told_to_nobody(tmp_path: Path) -> None:
    assert told("planned_big", tmp_path) == []


def test_a_first_download_is_a_start_and_the_second_repeat_a_message(tmp_path: Path) -> None:
    (alert,) = told("redownload_small", tmp_path)
    assert (alert["rule"], alert["severity"], alert["owner"]) == ("traffic", "ticket", "ada")
    assert f"{alert['started']:%H:%M}" == "10:23"  # the second repeat ended at 10:20
    assert alert["firings"] == 1


def test_what_a_job_does_from_its_start_is_its_work(tmp_path: Path) -> None:
    assert told("cpu_prep_traffic", tmp_path) == []


def test_requests_are_told_as_requests(tmp_path: Path) -> None:
    alerts = told("put_explosion", tmp_path)
    assert rules(alerts) == ["missing_price", "traffic"]
    assert starts(alerts, "traffic") == ["06-01 11:20"]  # 20 min after the first of them
    done = trainfare("backtest", tmp_path / "log.jsonl", "--format", "table")
    assert "2.5 M PUT requests in 5 min, $12.50 ($150/h); write or read fewer, larger objects" in done.out
