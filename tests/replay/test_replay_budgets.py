"""Budgets over a replayed log: each threshold at the first whole minute at which it is reached, by the controls of then."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.cli.command import trainfare

DAY_MS = 86_400_000
MINUTE_MS = 60_000
T0 = 19_700 * DAY_MS  # 2023-12-09 00:00 UTC


def write(path: Path, *events: tuple[int, str, dict[str, Any]]) -> Path:
    lines = (
        {"topic": topic, "value": {"source": "t", "id": f"{path.stem}{number}", "time_ms": at_ms, **event}}
        for number, (at_ms, topic, event) in enumerate(events)
    )
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def rows(data: Path, sql: str) -> list[dict[str, Any]]:
    done = trainfare("sql", sql, "--data", data, "--format", "json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    return list(found["data"] if isinstance(found, dict) else found)


def replay(data: Path, *words: object) -> None:
    done = trainfare("replay", *words, "--data", data)
    assert done.code == 0, done.err


PRICE = {"sku": "x", "component": "gpu", "usd": "6", "per": "gpu_hour", "effective_ms": T0}
ALERTS = """
SELECT rule, severity, status, subject_kind AS kind, subject_name AS name, owner, ratio, budget_usd,
    exhausted_in_s, toUnixTimestamp64Milli(started) AS started_ms, toUnixTimestamp64Milli(resolved) AS resolved_ms, summary
FROM alerts FINAL WHERE rule LIKE 'budget%' ORDER BY started, rule, resolved, name"""


def budget(name: str, **value: Any) -> tuple[int, str, dict[str, Any]]:
    return T0, "controls", {"kind": "budget", "name": name, **value}


def started(job_id: str, at_ms: int = T0, gpus: int = 10, **value: Any) -> tuple[int, str, dict[str, Any]]:
    return at_ms, "jobs", {"job_id": job_id, "type": "started", "gpu_count": gpus, "team": "vision", **value}


def ended(job_id: str, at_ms: int, how: str = "completed") -> tuple[int, str, dict[str, Any]]:
    return at_ms, "jobs", {"job_id": job_id, "type": how}


def test_a_team_crosses_each_threshold_at_its_minute(tmp_path: Path) -> None:
    """Two jobs of 10 GPUs at $6: $2 a minute. $100 are 50 % after 25 min, 80 % after 40, 100 % after 50."""
    log = write(
        tmp_path / "log.jsonl",
        (T0, "prices", PRICE),
        budget("b", team="vision", usd=100, per="day", contact="ada"),
        started("one"),
        started("two"),
        started("other", team="nlp"),
        ended("one", T0 + 70 * MINUTE_MS),
        ended("two", T0 + 70 * MINUTE_MS),
        ended("other", T0 + 70 * MINUTE_MS),
    )
    replay(tmp_path / "data", log)
    found = [each for each in rows(tmp_path / "data", ALERTS) if each["rule"] == "budget_used"]
    said = [
        (each["severity"], (each["started_ms"] - T0) // MINUTE_MS, float(each["budget_usd"]))
        for each in found
    ]
    assert said == [("ticket", 25, 100.0), ("ticket", 40, 100.0), ("page", 50, 100.0)]
    assert {(each["kind"], each["name"], each["owner"]) for each in found} == {("team", "vision", "ada")}
    assert [each["status"] for each in found] == ["resolved", "resolved", "firing"]
    # Each gives way to the next one.
    assert [each["resolved_ms"] - T0 for each in found[:2]] == [40 * MINUTE_MS, 50 * MINUTE_MS]
    assert [each["ratio"] for each in found] == [0.5, 0.8, 1.0]
    assert found[1]["summary"].endswith(
        "team vision has used 80.0 % of budget b for 2023-12-09: $80 of $100, $120/h"
    )
    assert found[2]["summary"].startswith(
        "team vision has used up budget b for 2023-12-09: $100 of $100; stop or shrink one ($60/h), or raise it"
    )
    check_gate(tmp_path / "data")


def test_a_run_has_one_budget_however_often_it_is_submitted(tmp_path: Path) -> None:
    """10 GPUs at $6: $1 a minute, of three jobs one after the other; $50 are used up in the third, after 60 min with pauses."""
    of_run: dict[str, Any] = {"run_id": "llama-7b", "owner": "ada"}
    log = write(
        tmp_path / "log.jsonl",
        (T0, "prices", PRICE),
        budget("llama", run_id="llama-7b", usd=50, contact="ada"),
        started("train-1", **of_run),
        started("other", run_id="gpt", owner="ada"),
        ended("train-1", T0 + 20 * MINUTE_MS, "failed"),
        started("train-2", T0 + 25 * MINUTE_MS, **of_run),
        ended("train-2", T0 + 45 * MINUTE_MS, "failed"),
        started("train-3", T0 + 50 * MINUTE_MS, **of_run),
        ended("train-3", T0 + 70 * MINUTE_MS),
        ended("other", T0 + 70 * MINUTE_MS),
    )
    replay(tmp_path / "data", log)
    found = [each for each in rows(tmp_path / "data", ALERTS) if each["rule"] == "budget_used"]
    assert [(each["severity"], (each["started_ms"] - T0) // MINUTE_MS) for each in found] == [
        ("ticket", 30),
        ("ticket", 45),
        ("page", 60),
    ]
    assert {(each["kind"], each["name"], each["owner"]) for each in found} == {("run", "llama-7b", "ada")}
    assert found[2]["summary"].startswith(
        "run llama-7b has used up budget llama for all time: $50 of $50; stop or shrink train-3"
    )
    used = rows(tmp_path / "data", "SELECT DISTINCT subject_kind, subject_name FROM budget_use")
    assert used == [{"subject_kind": "run", "subject_name": "llama-7b"}]


def test_a_budget_per_run_goes_on_where_the_run_is_submitted_again(tmp_path: Path) -> None:
    """Two jobs of one name, $1 a minute: what both used is of one budget, by whichever of them it is asked for."""
    log = write(
        tmp_path / "log.jsonl",
        (T0, "prices", PRICE),
        budget("each", usd=50, per="run"),
        started("train-1", owner="ada"),
        ended("train-1", T0 + 20 * MINUTE_MS, "failed"),
        started("train-2", T0 + 25 * MINUTE_MS, owner="ada"),
        started("other", T0 + 25 * MINUTE_MS, owner="bob"),
        (T0 + 50 * MINUTE_MS, "jobs", {"job_id": "train-2", "type": "heartbeat"}),
    )
    data = tmp_path / "data"
    replay(data, log)
    found = [(each["name"], each["severity"]) for each in rows(data, ALERTS) if each["status"] == "firing"]
    assert found == [("train-1", "ticket"), ("other", "ticket")]
    (last,) = [
        each for each in rows(data, ALERTS) if each["name"] == "train-1" and each["status"] == "firing"
    ]
    assert last["summary"] == (
        "the run of 2 jobs from train-1 on has used 80.0 % of budget each for this run: $40 of $50, $53/h, used up at 00:56 UTC;"
        " stop or shrink train-2 ($60/h now), or raise it"
    )
    for job in ("train-1", "train-2"):
        done = trainfare("gate", "--job", job, "--need", 5, "--data", data)
        assert (done.code, done.out) == (
            0,
            "go: $5.00 is left of budget each (job train-1, per run), $5.00 needed\n",
        )
    listed = trainfare("budgets", "--data", data)
    assert "run of 2 jobs from train-1 on" in listed.out
    assert listed.out.count("each") == 2


def test_the_job_to_stop_is_none_that_has_ended(tmp_path: Path) -> None:
    """One of 30 GPUs at $6 costs $60 and ends after 20 min; one of 10 costs $40 by minute 40, at which all is used."""
    log = write(
        tmp_path / "log.jsonl",
        (T0, "prices", PRICE),
        budget("b", team="vision", usd=100, per="day"),
        started("large", gpus=30),
        started("small"),
        ended("large", T0 + 20 * MINUTE_MS),
        ended("small", T0 + 45 * MINUTE_MS),
    )
    replay(tmp_path / "data", log)
    page = rows(tmp_path / "data", ALERTS)[-1]
    assert (page["severity"], page["started_ms"]) == ("page", T0 + 40 * MINUTE_MS)
    assert "; stop or shrink small ($60/h), or raise it" in page["summary"]


def check_gate(data: Path) -> None:
    """$140 of $100 are spent; nothing limits team nlp, and the words say so."""
    done = trainfare("gate", "--team", "vision", "--need", "120", "--data", data)
    assert (done.code, done.out) == (
        1,
        "stop: team vision needs $120.00, $0.00 is left of budget b (team vision, per day)\n",
    )
    done = trainfare("gate", "--team", "nlp", "--need", 120, "--data", data)
    assert (done.code, done.out) == (0, "go: no budget limits team nlp\n")
    done = trainfare("gate", "--team", "vision", "--format", "json", "--data", data)
    assert (done.code, json.loads(done.out)["headroom_usd"]) == (1, "0.000000000")
    done = trainfare("gate", "--team", "vision", "--need", "much", "--data", data)
    assert done.code == 2
    assert "--need much: expected dollars" in done.one_line()
    assert trainfare("gate", "--data", data).code == 2


def test_a_run_has_its_own_budget_and_is_over_with_it(tmp_path: Path) -> None:
    log = write(
        tmp_path / "log.jsonl",
        (T0, "prices", PRICE),
        started("one", budget={"usd": "20"}, owner="bob"),
        started("two"),
        ended("one", T0 + 25 * MINUTE_MS),
        ended("two", T0 + 25 * MINUTE_MS),
    )
    replay(tmp_path / "data", log)
    found = rows(tmp_path / "data", ALERTS)
    check_gate_of_runs(tmp_path)
    assert [(each["name"], each["owner"], (each["started_ms"] - T0) // MINUTE_MS) for each in found] == [
        ("one", "bob", 10),
        ("one", "bob", 16),
        ("one", "bob", 20),
    ]
    assert [each["resolved_ms"] - T0 for each in found] == [16 * MINUTE_MS, 20 * MINUTE_MS, 25 * MINUTE_MS]


def check_gate_of_runs(path: Path) -> None:
    """A run that has used a tenth of its budget has a row, and what it leaves is counted."""
    log = write(
        path / "running.jsonl",
        (T0, "prices", PRICE),
        started("one", budget={"usd": "20"}),
        (T0 + 2 * MINUTE_MS, "jobs", {"job_id": "one", "type": "heartbeat"}),
    )
    replay(path / "running", log)
    done = trainfare("gate", "--job", "one", "--need", 18, "--data", path / "running")
    assert (done.code, done.out) == (
        0,
        "go: $18.00 is left of its own budget (job one, per run), $18.00 needed\n",
    )
    assert trainfare("gate", "--job", "one", "--need", "18.01", "--data", path / "running").code == 1
    assert trainfare("gate", "--job", "two", "--need", 19, "--data", path / "running").code == 0


def test_a_new_day_begins_anew(tmp_path: Path) -> None:
    """$1 a minute from 12:00: $500 are $720 a day before, and crossed again the next day."""
    log = write(
        tmp_path / "log.jsonl",
        (T0, "prices", PRICE),
        budget("b", usd=500, per="day"),
        started("one", T0 + DAY_MS // 2),
        ended("one", T0 + 2 * DAY_MS),
    )
    replay(tmp_path / "data", log)
    found = [each for each in rows(tmp_path / "data", ALERTS) if each["rule"] == "budget_used"]
    noon = 720
    assert [(each["started_ms"] - T0) // MINUTE_MS for each in found] == [
        noon + 250, noon + 400, noon + 500, 1440 + 250, 1440 + 400, 1440 + 500,
    ]  # fmt: skip
    minutes = [(each["resolved_ms"] - T0) // MINUTE_MS for each in found]
    assert minutes == [noon + 400, noon + 500, 1440, 1440 + 400, 1440 + 500, 2880]
    assert {each["kind"] for each in found} == {"fleet"}
    forecast = [each for each in rows(tmp_path / "data", ALERTS) if each["rule"] == "budget_forecast"]
    # A 20th of $500 is used in 25 min, 12 h of $60/h are more than $500. The second day is known to be idle at no hour: the
    # morning has no like hour, what is paid then goes on for a day.
    assert [(each["started_ms"] - T0) // MINUTE_MS for each in forecast] == [noon + 25, 1440 + 72]


def test_a_control_that_comes_later_judges_what_comes_later(tmp_path: Path) -> None:
    log = write(
        tmp_path / "log.jsonl",
        (T0, "prices", PRICE),
        started("one"),
        (T0 + 30 * MINUTE_MS, "controls", {"kind": "budget", "name": "b", "usd": 20}),
        (T0 + 40 * MINUTE_MS, "controls", {"kind": "budget", "name": "b", "usd": 1000}),
        ended("one", T0 + 50 * MINUTE_MS),
    )
    replay(tmp_path / "data", log)
    (found,) = rows(tmp_path / "data", ALERTS)
    assert (found["severity"], found["started_ms"] - T0) == ("page", 30 * MINUTE_MS)
    assert found["resolved_ms"] - T0 == 40 * MINUTE_MS


def test_a_paused_job_uses_its_wall_clock_budget_only_while_it_runs(tmp_path: Path) -> None:
    """It runs for 60,000 ms, 60,007 ms from 00:39 on, and from 00:50 on; its own budget is 120,001 ms, that of the team 6 min."""
    log = write(
        tmp_path / "log.jsonl",
        (T0, "prices", PRICE),
        budget("b", team="vision", wall_clock_hours=0.1, per="day"),
        started("one", gpus=1, budget={"wall_clock_hours": 120_001 / 3_600_000}),
        (T0 + MINUTE_MS, "jobs", {"job_id": "one", "type": "suspended"}),
        (T0 + 39 * MINUTE_MS, "jobs", {"job_id": "one", "type": "resumed"}),
        (T0 + 40 * MINUTE_MS + 7, "jobs", {"job_id": "one", "type": "suspended"}),
        (T0 + 50 * MINUTE_MS, "jobs", {"job_id": "one", "type": "resumed"}),
        ended("one", T0 + 62 * MINUTE_MS),
    )
    replay(tmp_path / "data", log)
    found = [each for each in rows(tmp_path / "data", ALERTS) if each["rule"] == "budget_used"]
    minutes = [(each["name"], (each["started_ms"] - T0) / MINUTE_MS) for each in found]
    assert minutes == [("one", 40), ("one", 41), ("vision", 51), ("vision", 53), ("vision", 54)]
    # Nothing is to come, and nothing to be done any more.
    assert found[2]["summary"] == (
        "over after 2 min: team vision has used 50.0 % of budget b for 2023-12-09: 3 min of 6 min of run time, $0.3530/h"
    )
    use = "SELECT budget, used_wall_clock_hours AS hours FROM budget_use FINAL WHERE subject_kind = 'team'"
    (used,) = rows(tmp_path / "data", use)
    assert round(used["hours"] * 3_600_000) == 14 * MINUTE_MS + 7


def test_a_budget_of_a_zone_begins_anew_with_the_first_whole_hour_of_its_day(tmp_path: Path) -> None:
    """$1 a minute from 18:00 UTC on; a day of India begins at 18:30, so with the hour from 19:00 on."""
    hour_ms = 60 * MINUTE_MS
    zone = {"time_zone": "Asia/Kolkata", "per": "day"}
    log = write(
        tmp_path / "log.jsonl",
        (T0, "prices", PRICE),
        budget("b", team="vision", usd=100, **zone),
        started("one", T0 + 18 * hour_ms),
        ended("one", T0 + 21 * hour_ms),
    )
    replay(tmp_path / "data", log)
    found = [each for each in rows(tmp_path / "data", ALERTS) if each["rule"] == "budget_used"]
    minutes = [(each["started_ms"] - T0 - 18 * hour_ms) // MINUTE_MS for each in found]
    assert minutes == [50, 110, 140, 160]
    assert (found[0]["resolved_ms"] - T0) // hour_ms == 19
    assert "budget b for 2023-12-09" in found[0]["summary"]
    assert "budget b for 2023-12-10" in found[1]["summary"]
