"""The nights in which clocks change, by hand: budgets of a day, recurring silences and planned rates in Europe/Berlin."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from loadtest.labelled.judging import judged
from streams.backtest.fired import FiredAlert

HOUR_MS = 3_600_000
MINUTE_MS = 60_000
ZONE = "Europe/Berlin"
#: Clocks are put back at 01:00 UTC, so that the day has 25 hours and begins at 22:00 UTC; or forward, 23 hours, at 23:00 UTC.
AUTUMN, SPRING = "2025-10-25T22:00", "2026-03-28T23:00"
Said = tuple[float, str, dict[str, Any]]


def ms(begin: str) -> int:
    return round(datetime.fromisoformat(begin).replace(tzinfo=UTC).timestamp() * 1000)


def fired(directory: Path, begin: str, *said: Said) -> list[tuple[str, float, FiredAlert]]:
    """(rule, hours after the beginning, alert) of each alert of a replay; times of events are hours after it, too."""
    begin_ms = ms(begin)
    price = {"sku": "h100", "component": "gpu", "usd": "2.5", "per": "gpu_hour", "gpu_type": "H100"}
    events = []
    for number, (hours, topic, value) in enumerate([(-30, "prices", {**price, "effective_ms": 0}), *said]):
        at_ms = begin_ms + round(hours * HOUR_MS)
        events.append((at_ms, topic, {"id": f"{number}", "source": "story", "time_ms": at_ms, **value}))
    with judged(sorted(events, key=lambda each: each[0]), directory / "log.jsonl.gz") as run:
        return [(alert.rule, (alert.started_ms - begin_ms) / HOUR_MS, alert) for alert in run.backtest.alerts]


def started(hours: float, job_id: str = "train", **about: Any) -> Said:
    """Eight GPUs at $20 an hour."""
    held = {"gpu_count": 8, "gpu_type": "H100", "owner": "ada", "team": "vision"}
    return hours, "jobs", {"job_id": job_id, "type": "started", **held, **about}


def last(hours: float) -> Said:
    return hours, "jobs", {"job_id": "other", "type": "queued"}


@pytest.mark.parametrize(
    ("begin", "usd", "at"),
    [
        (AUTUMN, "490", 24.5),  # of $500 in 25 hours
        (SPRING, "450", 22.5),  # of $460 in 23 hours
        (SPRING, "470", None),
    ],
    ids=["25 hours", "23 hours", "more than 23 hours cost"],
)
def test_a_budget_of_a_day_has_the_hours_of_that_day(
    tmp_path: Path, begin: str, usd: str, at: float | None
) -> None:
    budget = {"kind": "budget", "name": "day", "team": "vision", "usd": usd, "per": "day", "time_zone": ZONE}
    found = fired(tmp_path, begin, (-1, "controls", budget), started(0), last(26))
    whole = [
        hours for rule, hours, alert in found if rule == "budget_used" and "has used up" in alert.summary
    ]
    assert whole == pytest.approx([] if at is None else [at + 1 / 60])


@pytest.mark.parametrize(
    ("begin", "zone", "is_forecast"), [(SPRING, ZONE, False), (AUTUMN, ZONE, False), (SPRING, "UTC", True)]
)
def test_a_team_that_works_by_the_clock_is_forecast_by_it(
    tmp_path: Path, begin: str, zone: str, is_forecast: bool
) -> None:
    """Eight hours of each weekday, $160, of a budget of $170: by hours of UTC they would be nine on the Monday after."""
    day = {"per": "day", "usd": "170", "time_zone": zone}
    said: list[Said] = [(-15 * 24, "controls", {"kind": "budget", "name": "day", "team": "vision", **day})]
    later = 1 if begin == SPRING else -1
    for number in (*range(-13, 0), *range(1, 6)):
        at = 24 * number + 9 - (later if number > 0 else 0)
        if number % 7 not in (0, 6):  # Sunday is the day of the change, 0
            ended = {"job_id": f"train{number}", "type": "completed"}
            said += [started(at, f"train{number}"), (at + 8, "jobs", ended)]
    found = fired(tmp_path, begin, *said, last(24 * 6))
    messages = [hours for rule, hours, _ in found if rule == "budget_forecast"]
    assert bool(messages) == is_forecast


@pytest.mark.parametrize(
    ("begin", "hours", "is_silenced"),
    [(AUTUMN, 6.75, True), (AUTUMN, 7.25, False), (SPRING, 4.75, True), (SPRING, 5.25, False)],
    ids=["25 hours, before 6", "25 hours, after 6", "23 hours, before 6", "23 hours, after 6"],
)
def test_a_silence_until_six_ends_at_six_by_the_clock_of_that_night(
    tmp_path: Path, begin: str, hours: float, is_silenced: bool
) -> None:
    silence = {"kind": "silence", "name": "nights", "team": "vision", "hours": "22:00-06:00"}
    loop = [
        (hours + minute / 60, "jobs", {"job_id": "loop", "attempt": attempt, "type": kind, **more})
        for attempt, minute in enumerate((-12, -8, -4), 1)
        for kind, minute, more in (
            ("started", minute, started(0)[2] | {"job_id": "loop", "type": "started"}),
            ("failed", minute + 4, {"reason": "out_of_memory"}),
        )
    ]
    nights = (-1, "controls", {**silence, "time_zone": ZONE})
    found = [
        each for each in fired(tmp_path, begin, nights, *loop, last(hours + 0.1)) if each[0] == "retry_loop"
    ]
    ((_, at, alert),) = found
    assert at == hours
    assert bool(alert.silenced) == is_silenced


@pytest.mark.parametrize(
    ("begin", "planned_until"), [(AUTUMN, 7.0), (SPRING, 5.0)], ids=["25 hours", "23 hours"]
)
def test_a_rate_planned_until_six_ends_at_six_by_the_clock_of_that_night(
    tmp_path: Path, begin: str, planned_until: float
) -> None:
    plan: dict[str, Any] = {
        "kind": "planned",
        "name": "nightly",
        "team": "vision",
        "hours": "22:00-06:00",
        "time_zone": ZONE,
    }
    plan |= {"from_ms": ms(begin) - 48 * HOUR_MS, "until_ms": ms(begin) + 48 * HOUR_MS}
    grows = (-0.5, "jobs", {"job_id": "train", "type": "scaled", "gpu_count": 80})
    said = (-3, "controls", {**plan, "usd_per_hour": "200"}), started(-2, expected_usd_per_hour="20"), grows
    burns = [hours for rule, hours, _ in fired(tmp_path, begin, *said, last(10)) if rule.startswith("burn")]
    assert burns
    assert planned_until < burns[0] < planned_until + 0.5
