"""What the demonstration says: the words that a newcomer, and a check in CI, look for."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import orjson
import pytest

from streams.cli import demo_lines as lines
from streams.cli.top.figures import Burn, Job, MeterView
from streams.demo.summary import Summary
from streams.engine.alerts.alert import Alert
from streams.engine.alerts.titles import TITLES
from streams.engine.shard.books import Books
from streams.notify.channels.webhook import webhook_body
from streams.notify.webhooks.receiver import Received

AT_MS = 1_763_650_720_000  # 14:58:40 UTC
ALERT = Alert(
    alert_id="al_1",
    rule="burn_fast",
    severity="page",
    status="firing",
    subject_kind="job",
    subject_name="llm-7b-pretrain",
    owner="ada",
    team="foundation",
    project="atlas",
    started_ms=AT_MS,
    resolved_ms=None,
    ratio=2.711,
    usd_nano_per_hour=1_303_765_432_100,
    expected_nano_per_hour=112_050_000_000,
    cost_nano=0,
    window_ms=900_000,
    summary="burns",
    evidence_sql="",
    held_ms=AT_MS,
    changed_ms=AT_MS,
    firings=1,
    silenced=False,
)
SUMMARY = Summary(
    seconds=90.04,
    event_hours=1.5,
    jobs=129,
    gpu_hours=Decimal("2255.31"),
    usd=Decimal("12846.44"),
    lost_usd=Decimal("32.83"),
    usd_per_hour=Decimal("2106.9"),
    alerts=2,
    delivered=4,
    books=Books(records_in=10, applied=8, duplicate=1, dead_lettered=1),
)


def line_of(**changes: object) -> str:
    told = {name: getattr(ALERT, name) for name in ALERT.__struct_fields__} | changes
    message = orjson.loads(webhook_body(Alert(**told)))
    return lines.delivered(Received("msg_1", message["type"], message["timestamp"], message["data"]))


def test_a_delivered_page_has_its_time_rule_owner_and_sentence() -> None:
    assert line_of() == "14:58:40  page      Runaway burn                   to ada        burns"


def test_a_resolved_one_says_how_long_it_lasted() -> None:
    line = line_of(status="resolved", resolved_ms=AT_MS + 440_000, changed_ms=AT_MS + 440_000)
    assert (
        line
        == "15:06:00  resolved  Runaway burn                   to ada        job llm-7b-pretrain, after 7 min 20 s"
    )


def test_every_title_has_room_before_the_owner() -> None:
    ends = {line_of(rule=rule).index("  to ada") for rule in TITLES}
    assert len(ends) == 1


def test_an_alert_may_have_no_owner() -> None:
    assert " to -         " in line_of(rule="team_burn", subject_kind="team", owner="")


@pytest.mark.parametrize("name", ["a\x1b[31mb", "a\nb", "a\rb"])
def test_names_cannot_move_the_cursor(name: str) -> None:
    assert line_of(summary=name, owner=name).isprintable()
    assert line_of(status="resolved", resolved_ms=AT_MS, subject_name=name).isprintable()


def test_what_burns_is_one_line() -> None:
    jobs = tuple(Job(f"job-{n}", usd_per_hour_now=Decimal(n)) for n in range(5))
    burn = Burn(AT_MS, Decimal("1796.02"), Decimal(0), Decimal("11344.018"), 0.19, 40, Decimal(331), 1)
    assert lines.burning(MeterView(AT_MS, burn, jobs)) == (
        "14:58:40  $1,796.02/h  40 jobs on 331 GPUs  unproductive 19 %  today $11,344.02  1 alert firing  "
        "top: job-4 $4.00/h, job-3 $3.00/h, job-2 $2.00/h"
    )


def test_nothing_burns_yet() -> None:
    assert lines.burning(MeterView(AT_MS, Burn())).endswith("top: -")


def test_the_time_is_said_to_be_simulated() -> None:
    assert (
        lines.pace(60, AT_MS) == "simulated fleet, 60x time (1 min a second) from 2025-11-20 14:58:40 UTC on"
    )


def test_the_summary_has_every_figure() -> None:
    assert dict(lines.summary(SUMMARY)) == {
        "ran for": "90 s, 1.5 h of the fleet's time",
        "jobs metered": "129",
        "GPU hours": "2,255.3",
        "dollars": "$12,846.44, of it $32.83 lost work",
        "burn rate": "$2,106.90/h at the end",
        "alerts": "2; 4 messages delivered",
        "books balance": "yes: 10 records in = 8 applied + 0 unattributed + 1 duplicate + 1 refused",
    }


def test_books_that_do_not_balance_are_not_called_balanced() -> None:
    assert dict(lines.summary(replace(SUMMARY, books=Books(records_in=2))))["books balance"].startswith(
        "NO: 2 records"
    )
