"""What one job burned at the same time of earlier days is sent to nobody until it is beyond that; all else is sent at once."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from schemas.control_table import CONTROLS
from schemas.tables import ALERTS, BURN_RATES
from sinks.clickhouse import ClickHouseStore
from sinks.rows import Rows
from streams.engine.alerts.rows import alerts_table
from streams.notify.kind_figures import KindFigures
from streams.notify.kind_hold import LOOK_MS
from tests.notify.scripted_sender import NOW_MS, Office, an_alert, run
from tests.notify.test_kind_hold import DAY_MS, HOUR_MS, MINUTE_MS, burn, ends, history, put, rule
from tests.worker.ledger_lab import at, opened


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseStore]:
    with opened(Path(tmp_path_factory.mktemp("own"))) as store:
        yield store


def own(
    store: Rows, *days: int, pays: int = 240, name: str = "serve", rule: str = "burn_sustained", **other: Any
) -> None:
    """Alerts about a job that opened at about this time so many days before, each for four hours."""
    found = []
    for number, day in enumerate(days):
        started_ms = NOW_MS - day * DAY_MS - number * MINUTE_MS
        figures: dict[str, Any] = {"opened_nano_per_hour": pays * 10**9, "usd_nano_per_hour": 1, **other}
        found.append(
            an_alert(name, "resolved", started_ms + 4 * HOUR_MS, rule=rule, alert_id=f"al_own_{day}",
                     started_ms=started_ms, **figures)
        )  # fmt: skip
    store.insert(ALERTS, alerts_table(found, 0, 1), f"own{name}{days}{pays}")


def test_a_growth_at_the_time_of_earlier_days_is_sent_to_nobody() -> None:
    async def scenario() -> None:
        there = Office()
        own(there.store, 1, 2, 3)
        alert = burn("serve", pays=288)
        await there.offer(alert)
        await there.work(5 * MINUTE_MS)
        await there.offer(ends(alert, 10 * MINUTE_MS))
        assert there.sender.told == []
        assert there.rows("outcome") == [("usual",)] * 2
        assert all("usual for this job: on 3 of the last 14 days" in said for (said,) in there.rows("detail"))

    run(scenario())


@pytest.mark.parametrize(
    ("days", "pays", "other"),
    [
        ((1, 2), 240, {}),
        ((1, 2, 15), 240, {}),
        ((1, 2, 3), 289, {}),
        ((1, 2, 3), 240, {"pays": 199}),
        ((1, 2, 3), 240, {"rule": "ceiling"}),
        ((1, 2, 3), 240, {"name": "serve-2"}),
    ],
    ids=["two days", "long ago", "beyond", "less before", "another rule", "another job"],
)
def test_a_growth_that_is_not_usual_for_the_job_is_sent_at_once(
    days: tuple[int, ...], pays: int, other: dict[str, Any]
) -> None:
    async def scenario() -> None:
        there = Office()
        own(there.store, *days, **other)
        await there.offer(burn("serve", pays=pays))
        assert there.sender.told == [("serve", "firing")]

    run(scenario())


def test_the_mean_until_the_end_counts_where_a_job_grows_in_steps() -> None:
    async def scenario() -> None:
        there = Office()
        own(there.store, 1, 2, 3, pays=120, usd_nano_per_hour=240 * 10**9)
        await there.offer(burn("serve", pays=288))
        assert there.sender.told == []

    run(scenario())


@pytest.mark.parametrize(
    ("minutes", "paid", "is_told"),
    [(60, 288, False), (60, 289, True), (298, 240, False), (299, 240, True)],
    ids=["usual", "more", "as long", "longer"],
)
def test_a_growth_that_becomes_more_than_usual_for_the_job_or_lasts_is_sent(
    minutes: int, paid: int, is_told: bool
) -> None:
    """The days before had 4 h of it: 1.2 times that, and 10 min, are usual."""

    async def scenario() -> None:
        there = Office()
        own(there.store, 1, 2, 3)
        await there.offer(burn("serve", pays=240))
        tick = {
            "job_id": "serve",
            "time": at(NOW_MS + minutes * MINUTE_MS),
            "usd_per_hour_now": Decimal(paid),
        }
        put(there.store, BURN_RATES, tick)
        await there.work(LOOK_MS)
        assert there.sender.told == [("serve", "firing")] * is_told

    run(scenario())


@pytest.mark.parametrize(("paid", "is_told"), [(241, False), (400, False), (401, True)])
def test_far_above_what_is_usual_for_the_kind_nothing_is_usual_for_the_job(paid: int, is_told: bool) -> None:
    async def scenario() -> None:
        there = Office()
        history(there.store)  # its kind reaches $200/h
        own(there.store, 1, 2, 3, pays=500, name="train-9")
        await there.offer(burn(pays=paid))
        assert there.sender.told == [("train-9", "firing")] * is_told

    run(scenario())


def test_where_a_record_says_that_nothing_is_usual_the_days_before_are_not_either() -> None:
    async def scenario() -> None:
        there = Office()
        own(there.store, 1, 2, 3)
        put(there.store, CONTROLS, rule("off", 1, 0))
        await there.offer(burn("serve", pays=240))
        assert there.sender.told == [("serve", "firing")]

    run(scenario())


def test_the_real_store_says_what_a_job_reached_before(server: ClickHouseStore) -> None:
    own(server, 1, 2, 3, 6, name="own")
    for _ in range(2):
        of_own, other = KindFigures(server).own_days([burn("own"), burn("other")])
        assert of_own is not None
        assert (of_own.usual, of_own.lasted_ms, of_own.days) == (240 * 10**9, 4 * HOUR_MS, 4)
        assert other is None
