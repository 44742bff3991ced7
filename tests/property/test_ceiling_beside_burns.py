"""What a job costs is one message: `ceiling` and the burn rules about one job, as the plain judge has them, too.

Bursts are a few messages, whichever rules tell of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from schemas.tables import ALERTS
from tests.oracle.cases import T0, job, price
from tests.oracle.model import HOUR_MS, MINUTE_MS, Line
from tests.property.test_alerts import check

M = MINUTE_MS


def scaled(gpus: int, minutes: int = 150, *more: Line) -> list[Line]:
    """A job of 100 GPUs, $200/h, that is scaled after an hour and put right some time later."""
    start = [price("p", "2", time_ms=T0), *more, job("j", "started", T0, gpu_count=100)]
    steps = ((60, gpus), (60 + minutes, 100))
    after = [job("j", "scaled", T0 + minute * M, gpu_count=count) for minute, count in steps]
    return [*start, *after, job("j", "heartbeat", T0 + 6 * HOUR_MS)]


def told(lines: list[Line], cuts: Sequence[int] = (3,)) -> list[tuple[str, str, int]]:
    """Each alert, and after how many minutes it began."""
    found = {row["alert_id"]: row for row in check(lines, cuts).rows(ALERTS)}
    return sorted(
        (row["rule"], row["severity"], (round(row["started"].timestamp() * 1000) - T0) // M)
        for row in found.values()
    )


def rule(name: str, **said: object) -> Line:
    record = {"source": "t", "id": name, "time_ms": T0, "kind": "rule", "name": name, "rule": name}
    return Line("controls", {**record, **said})


def test_a_job_of_which_burn_fast_tells_is_no_ceiling_beside() -> None:
    assert told(scaled(800)) == [("burn_fast", "page", 63)]


def test_a_job_of_which_ceiling_tells_is_no_other_burn_beside_nor_when_it_is_put_right() -> None:
    assert told(scaled(300)) == [("ceiling", "page", 65)]


def test_a_job_below_the_ceiling_is_a_burn_as_ever() -> None:
    """`burn_drift` comes first; once it pages, `burn_sustained` would page for the same."""
    assert [each[:2] for each in told(scaled(240))] == [("burn_drift", "page")]
    cheap = rule("burn_drift", thresholds={"page_usd_per_hour": 1000})
    assert [each[:2] for each in told(scaled(240, 150, cheap))] == [
        ("burn_drift", "ticket"),
        ("burn_sustained", "page"),
    ]


def test_a_ticket_keeps_no_page_back() -> None:
    fast = rule("burn_fast", thresholds={"page_usd_per_hour": 1e6})
    assert told(scaled(800, 150, fast)) == [("burn_fast", "ticket", 63), ("ceiling", "page", 65)]
    of_all = rule("ceiling", severity="ticket")
    found = told(scaled(300, 150, of_all))
    assert [(rule, each) for rule, each, _ in found] == [("burn_drift", "page"), ("ceiling", "ticket")]


def test_what_costs_so_much_for_less_than_five_minutes_is_none() -> None:
    assert told(scaled(300, 5)) == []


@pytest.mark.parametrize("cuts", [(3,), (9, 14, 15)])
@pytest.mark.parametrize(
    ("length", "every", "rules"),
    [
        (8, 30, ["burn_fast", "burn_sustained", "burn_fast", "burn_sustained"]),
        (3, 40, ["burn_fast"] * 4),
    ],
)
def test_bursts_are_four_messages_of_which_the_last_one_goes_on(
    length: int, every: int, rules: list[str], cuts: Sequence[int]
) -> None:
    starts = range(60, 60 + 10 * every, every)
    steps = [(start + after, gpus) for start in starts for after, gpus in ((0, 100), (length, 10))]
    lines = [
        price("p", "2", time_ms=T0),
        job("j", "started", T0, gpu_count=10),
        *(job("j", "scaled", T0 + minute * M, gpu_count=gpus) for minute, gpus in steps),
        job("j", "heartbeat", T0 + 12 * HOUR_MS),
    ]
    assert [rule for rule, *_ in sorted(told(lines, cuts), key=lambda each: each[2])] == rules
