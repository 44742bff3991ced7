"""A burn that a price explains waits until it is judged whether that price jumped, and is sent if it did not."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from schemas.tables import PRICES
from streams.engine.alerts.alert import Alert
from streams.engine.rules.shared_cause import cause_text
from streams.notify.incident_hold import PRICE_SURE_MS
from tests.notify.scripted_sender import NOW_MS, Office, an_alert, run
from tests.notify.test_incident_hold import EPOCH, NEVER_SENT, WAIT_MS, office
from tests.sinks.rows import rows


def priced(there: Office, usd: int, ago_ms: int = 20_000) -> None:
    """A price of $1 that went to another one."""
    about = {"sku": "h100", "component": "gpu", "per": "gpu_hour", "version": 1}
    revisions = ((NOW_MS - 10**9, 1), (NOW_MS - ago_ms, usd))
    found = [
        {**about, "effective": EPOCH + timedelta(milliseconds=from_ms), "usd": Decimal(each)}
        for from_ms, each in revisions
    ]
    there.store.insert(PRICES, rows(PRICES, *found), "prices")


def burns(**other: Any) -> Alert:
    return an_alert("a", shared_cause=cause_text("price", "h100"), started_ms=NOW_MS, **other)


def test_a_burn_waits_until_the_price_that_jumped_is_judged() -> None:
    """A price of a hundred times opens a burn in seconds, and `price_jump` at the end of its minute, once that is stored."""

    async def scenario() -> None:
        there = office()
        priced(there, 100)
        await there.offer(burns())
        await there.work(3 * WAIT_MS)
        about: dict[str, Any] = {"subject_kind": "sku", "rule": "price_jump", "alert_id": "al_jump"}
        there.keep(an_alert("h100", shared_cause=burns().shared_cause, started_ms=NOW_MS + 40_000, **about))
        await there.work(PRICE_SURE_MS)
        assert there.sender.told == []
        assert there.rows("outcome", "detail") == [(NEVER_SENT, "al_jump tells of its cause")]

    run(scenario())


@pytest.mark.parametrize(
    ("usd", "ago_ms", "names_prices", "waits_ms"),
    [
        (100, 0, True, PRICE_SURE_MS),
        (3, 0, True, 0),
        (100, 25 * 3_600_000, True, 0),
        (100, -1, True, 0),
        (100, 0, False, 0),
    ],
    ids=["nothing tells of it", "no jump", "long ago", "not in force", "the rule is off"],
)
def test_a_burn_of_which_no_price_jump_tells_is_sent(
    usd: int, ago_ms: int, names_prices: bool, waits_ms: int
) -> None:
    async def scenario() -> None:
        there = office(names_prices=names_prices)
        priced(there, usd, ago_ms)
        await there.offer(burns())
        for wait_ms in (3 * WAIT_MS, waits_ms):
            if wait_ms:
                await there.work(wait_ms - 1)
                assert there.sender.told == []
                await there.work(1)
        assert there.sender.told == [("a", "firing")]

    run(scenario())
