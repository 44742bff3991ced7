"""Scores of a few alerts and labels, by hand."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from schemas.durations import DAY_MS
from streams.backtest.fired import Backtest, CostSpan, FiredAlert
from streams.backtest.labels import Label
from streams.backtest.score import ANY_PAGE, ANY_RULE, count_rules, noise_of, score_kinds


def alert(
    rule: str, subject: str, started_ms: int, severity: str = "page", messages: int = 1, silenced: int = 0,
    kind: str = "job",
) -> FiredAlert:  # fmt: skip
    return FiredAlert(rule, severity, kind, subject, started_ms, None, "", messages, silenced)


def backtest(*alerts: FiredAlert) -> Backtest:
    return Backtest("", alerts, {"a": DAY_MS, "b": 2 * DAY_MS, "c": DAY_MS // 2}, 10, 0)


def a_cent_a_ms(spans: Sequence[CostSpan]) -> dict[CostSpan, Decimal]:
    return {span: Decimal(span.until_ms - span.from_ms) / 100 for span in spans}


LABELS = [Label("a", "wide", 100, 200), Label("b", "wide", 100, 200), Label("c", "idle", 0, 50)]


def test_noise_counts_messages_by_severity_and_time() -> None:
    found = backtest(
        alert("fast", "a", 1, messages=2),
        alert("slow", "b", 1, "ticket", messages=0, silenced=3),
        alert("budget", "red", 1, "ticket", kind="team"),
    )
    assert noise_of(found) == (3, 3.5, 2, 1)
    assert noise_of(found).pages_per_job_day == 2 / 3.5
    # Of jobs alone where some are left out: whose a team's alert is nobody knows.
    assert noise_of(found, ["a"]) == (2, 2.5, 0, 0)
    assert noise_of(found, ["a", "b", "c"]).pages_per_job_day == 0


def test_precision_is_of_the_alerts_that_somebody_got() -> None:
    found = backtest(
        alert("fast", "a", 100),
        alert("fast", "a", 200),  # the label ends before
        alert("fast", "b", 99),
        alert("fast", "b", 150, messages=0, silenced=1),
        alert("slow", "c", 10, "ticket"),
        alert("budget", "a", 150, kind="team"),
    )
    fast, slow = (x for x in count_rules(found, LABELS) if x.rule != "budget")
    assert (fast.rule, len(fast.alerts), fast.silenced, fast.precision) == ("fast", 3, 1, 1 / 3)
    assert (slow.rule, slow.precision) == ("slow", 1.0)
    assert [x.precision for x in count_rules(found, LABELS) if x.rule == "budget"] == [0.0]
    assert {x.precision for x in count_rules(found, None)} == {None}


def test_recall_delay_and_cost_are_of_the_first_alert_of_a_label() -> None:
    found = backtest(
        alert("slow", "a", 110, "ticket"),
        alert("fast", "a", 130),
        alert("fast", "a", 120),
        alert("fast", "b", 250),
        alert("slow", "c", 40, "ticket", messages=0, silenced=1),
    )
    scores = {(x.kind, x.rule): x for x in score_kinds(found, LABELS, a_cent_a_ms)}
    assert scores.keys() == {
        ("wide", ANY_RULE), ("wide", ANY_PAGE), ("wide", "fast"), ("wide", "slow"), ("idle", ANY_RULE), ("idle", ANY_PAGE),
    }  # fmt: skip
    fast = scores["wide", "fast"]
    assert (fast.recall, fast.delays_ms(), fast.costs_usd()) == (0.5, [20], [Decimal("0.2")])
    assert [each.cost_usd for each in fast.detections] == [Decimal("0.2"), Decimal("1")]
    assert scores["wide", ANY_RULE].delays_ms() == [10]
    assert scores["wide", ANY_PAGE].delays_ms() == [20]
    assert (scores["idle", ANY_RULE].recall, scores["idle", ANY_RULE].costs_usd()) == (0.0, [])
