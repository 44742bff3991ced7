"""`trainfare incident`: the report of an alert in Markdown, from a closed store and through a worker, with hostile names."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections.abc import Mapping
from datetime import UTC
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from schemas.control_table import CONTROLS
from schemas.durations import DAY_MS
from schemas.tables import DELIVERIES
from sinks.clickhouse import ClickHouseStore, Embedded
from streams.cli.incident_shown import markdown_of
from streams.cli.reading import Reader, _Opened
from streams.engine.rules.formatting import instant
from streams.explain.incident.report import IncidentReport, incident_report
from streams.explain.job import explained
from streams.explain.why.margin_history import histories_before
from tests.cli.command import trainfare
from tests.cli.test_alerts_why import MINUTE_MS, T0_MS, event
from tests.cli.test_markdown import HOSTILE, NODES, cells, kinds, parsed
from tests.web.live import at, delivery, put
from tests.web.serving import LOCAL_TOKEN, Client, served

#: It fails at minutes 7, 15 and 23: `retry_loop` opens with the third one. It is acknowledged at minute 30 by somebody with such a name.
LINES = [
    event("prices", 0, sku="g", component="gpu", usd="10", per="gpu_hour", effective_ms=0),
    *(
        event("jobs", minute, job_id=HOSTILE, attempt=attempt, **about)
        for attempt in range(1, 7)
        for minute, about in (
            (
                attempt * 8 - 8,
                {"type": "started", "gpu_count": 4, "owner": HOSTILE, "team": "t|eam", "gpu_type": "H|100"},
            ),
            (attempt * 8 - 1, {"type": "failed", "reason": "out_of_memory"}),
        )
    ),
    event("jobs", 200, job_id="other", type="queued"),
]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("incident")
    (root / "events.jsonl").write_text("".join(LINES))
    first = trainfare("replay", root / "events.jsonl", "--data", root / "first")
    assert first.code == 0, first.err
    (row,) = _alerts(root / "first")
    ack = {"kind": "ack", "name": "known", "alert_id": row, "by": HOSTILE, "comment": "seen | `so`"}
    quiet = {"kind": "silence", "name": "later", "team": "t|eam", "by": "ada"}
    lines = [*LINES[:-1], event("controls", 50, **ack), event("controls", 55, **quiet), LINES[-1]]
    (root / "events.jsonl").write_text("".join(lines))
    done = trainfare("replay", root / "events.jsonl", "--data", root / "meter")
    assert done.code == 0, done.err
    store = ClickHouseStore(Embedded(data_dir=root / "meter"))
    try:
        rows = [
            delivery(row, 1, "retrying", detail="answered 503: `try` | later"),
            delivery(row, 2, "delivered", receiver="https://hooks.example.com:443"),
        ]
        times = [{"time": at(T0_MS + minute * MINUTE_MS)} for minute in (24, 25)]
        put(store, DELIVERIES, [{**each, **time} for each, time in zip(rows, times, strict=True)], "incident")
        gone = {
            "offset": 10**9,
            "time": at(T0_MS + 58 * MINUTE_MS),
            "kind": "silence",
            "name": "later",
            "removed": True,
        }
        put(
            store,
            CONTROLS,
            [
                {
                    **dict.fromkeys(("alert_id", "by", "comment", "source", "id", "fault", "value"), ""),
                    "match": [],
                    "begins": None,
                    "until": None,
                    "planned_usd_per_hour": None,
                    "version": 1,
                    **gone,
                }
            ],
            "gone",
        )
    finally:
        store.close()
    return root / "meter"


def _alerts(data: Path) -> list[str]:
    asked = "SELECT alert_id FROM alerts FINAL WHERE rule = 'retry_loop'"
    return trainfare("sql", asked, "--data", data, "--format", "csv").out.split()[1:]


@pytest.fixture(scope="module")
def report(data: Path) -> str:
    (alert_id,) = _alerts(data)
    done = trainfare("incident", alert_id, "--data", data)
    assert (done.code, done.err) == (0, "")
    return done.out


def of_store(data: Path) -> IncidentReport:
    store = ClickHouseStore(Embedded(data_dir=data))
    try:
        found = incident_report(Reader(_Opened(store)), _alerts_in(store)[0])
    finally:
        store.close()
    assert found is not None
    return found


def _alerts_in(store: ClickHouseStore) -> list[str]:
    asked = "SELECT alert_id FROM alerts FINAL WHERE rule = 'retry_loop'"
    return [str(row[0]) for row in store.ask(asked, {}).rows()]


def test_the_timeline_has_what_happened_in_its_order(report: str) -> None:
    rows = [row for row in cells(report) if re.match(r"2026-03-01 ", row[0]) and len(row) == 4]
    whats = [row[1] for row in rows]
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)
    opened = whats.index("Retry loop opened (page)")
    assert whats[:opened].count("attempt 3 started") == 1
    assert "attempt 4 started" in whats[opened:]
    sent = [(row[1], row[2], row[3]) for row in rows if row[1].startswith("message")]
    assert [each[0] for each in sent] == [
        "message that retry_loop is firing: the receiver does not take it",
        "message that retry_loop is firing: delivered",
    ]
    assert sent[1][1] == "`https://hooks.example.com:443`"
    assert r"\x60try\x60 \x7c later (503), attempt 1" in sent[0][2]
    acted = [row[1] for row in rows if row[1] in ("acknowledged", "silenced", "taken back")]
    assert acted == ["acknowledged", "silenced", "taken back"]


def test_the_dollars_are_those_of_the_ledger(data: Path, report: str) -> None:
    found = of_store(data)
    opened = at(int(found.alert["started_ms"]))
    store = ClickHouseStore(Embedded(data_dir=data))
    try:
        explanation = explained(store, HOSTILE, by_minute=True)
    finally:
        store.close()
    assert explanation is not None
    since = [each for each in explanation.intervals if each.begin.replace(tzinfo=UTC) >= opened]
    # Four GPUs at $10 an hour for seven minutes, six times; three of them after it opened.
    assert found.spent_usd == sum(each.cost_usd for each in since)
    assert found.lost_usd == sum(each.lost_cost_usd for each in since)
    assert round(found.spent_usd, 2) == 14
    (job,) = found.jobs
    assert job.total_usd == explanation.total_usd
    assert "cost $14.00 meanwhile, of which $14.00 is lost work" in report
    assert not job.is_by_hour


def test_what_would_have_fired_earlier_is_what_the_judge_says(data: Path, report: str) -> None:
    found = of_store(data)
    own = next(each for each in found.earlier if each.rule == "retry_loop")
    assert (own.what, own.value, own.threshold) == ("attempts failed within an hour", 2, 3)
    assert T0_MS + 15 * MINUTE_MS <= own.at_ms < T0_MS + 16 * MINUTE_MS
    assert round(own.spent_usd, 2) == Decimal("4.67")  # of the third attempt
    assert any("attempts failed within an hour" in row and "2" in row for row in cells(report))


def test_it_says_and_who_acknowledged(report: str) -> None:
    assert "The first message went to `https://hooks.example.com:443` 2 min after it opened" in report
    assert "acknowledged it 27 min after it opened" in report


def test_a_message_by_another_clock_than_the_log_s_is_no_delay(data: Path) -> None:
    """A demo's log is a month old, and its messages are sent today."""
    found = of_store(data)
    late_ms = found.as_of_ms + 30 * DAY_MS
    moved: list[Mapping[str, Any]] = [{**row, "time_ms": late_ms} for row in found.deliveries]
    shown = markdown_of(dataclasses.replace(found, deliveries=moved))
    assert f"`https://hooks.example.com:443` at {instant(late_ms)}, by the wall clock" in shown
    assert "30 d" not in shown
    assert "Messages stand by the wall clock" in shown
    assert "wall clock" not in markdown_of(found)


def test_hostile_names_are_no_markup(report: str) -> None:
    assert not kinds(report) & NODES
    assert "\u202e" not in report
    assert {len(row) for row in cells(report)} <= {2, 4, 5, 7, 8}
    # A bare address or a mention in a paragraph would be alive on a forge: they are in code alone.
    outside = "".join(
        child.content for token in parsed(report) for child in token.children or () if child.type == "text"
    )
    assert "http://evil.example" not in outside
    assert "@all" not in outside


@pytest.mark.parametrize("alert_id", ["al_0123456789abcdef01234567", "nobody", "'; DROP", "\x1b[31m" * 100])
def test_an_unknown_id_is_one_line(data: Path, alert_id: str) -> None:
    done = trainfare("incident", "--data", data, "--", alert_id)
    assert done.code == 1
    assert "no alert of this store has this id" in done.one_line()
    assert "\x1b" not in done.err


def test_a_worker_answers_other_commands_the_same(data: Path) -> None:
    store = ClickHouseStore(Embedded(data_dir=data))
    env = {"TRAINFARE_WEB_TOKEN": LOCAL_TOKEN}
    commands: list[tuple[str, ...]] = []

    async def ask(client: Client) -> Any:
        (alert_id,) = _alerts_in(store)
        commands.extend((("alerts", "why", alert_id), ("jobs",), ("job", "other"), ("explain", "other")))
        return [
            await asyncio.to_thread(trainfare, *words, "--url", client.server.url, env=env)
            for words in commands
        ]

    try:
        done = served(store, ask)
    finally:
        store.close()
    for words, each in zip(commands, done, strict=True):
        assert (each.code, each.err) == (0, ""), words
        assert each.out == trainfare(*words, "--data", data).out, words
    both = trainfare(*commands[0], "--data", data, "--url", "http://127.0.0.1:9")
    assert (both.code, "--url asks a worker: leave out --data" in both.one_line()) == (2, True)


def test_a_worker_reports_the_same(data: Path, report: str) -> None:
    store = ClickHouseStore(Embedded(data_dir=data))

    async def ask(client: Client) -> Any:
        (alert_id,) = _alerts_in(store)
        headers = {"Authorization": f"Bearer {LOCAL_TOKEN}"}
        found = await client.get(f"/api/v1/alerts/{alert_id}/before", headers=headers)
        row = (await client.get(f"/api/v1/alerts/{alert_id}", headers=headers))["alert"]
        local = histories_before(
            store,
            {"subject_kind": "job", "subject_name": row["subject"]["name"], "started_ms": row["started_ms"]},
        )
        assert [each["rule"] for each in found] == [each.rule for each in local]
        assert [len(each["conditions"]) for each in found] == [len(each.conditions) for each in local]
        env = {"TRAINFARE_WEB_TOKEN": LOCAL_TOKEN}
        return await asyncio.to_thread(trainfare, "incident", alert_id, "--url", client.server.url, env=env)

    try:
        done = served(store, ask)
    finally:
        store.close()
    assert (done.code, done.err) == (0, "")
    assert done.out == report
