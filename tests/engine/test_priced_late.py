"""What prices and controls that come late say of jobs that cost nothing, or that have left all windows.

An alert of them must not depend on a restart: a restored shard looks at each job anew.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from schemas.events import Component, ControlEvent, PriceEvent
from schemas.tables import ALERTS
from schemas.units import Per
from streams.engine.pricing.book import PriceBook
from streams.engine.reference_log import ReferenceLog
from streams.engine.settings import ShardSettings
from streams.engine.shard.sequencer import TICK_MS
from streams.engine.shard.shard import Shard
from tests.engine.alerts.scene import UNPRICED_ON
from tests.engine.test_burn_tracker import HOUR_MS, MINUTE_MS, T0, Log

#: (topic, event time, fields).
Event = tuple[str, int, dict[str, Any]]
News = PriceEvent | ControlEvent
PAGED: Final = [("traffic", "firing")]
NO_PRICE: Final = [("unpriced", "firing")]


def price(sku: str, nano: int, told_ms: int = 0, component: str = "gpu", per: str = "gpu_hour", **match: str) -> PriceEvent:  # fmt: skip
    return PriceEvent("s", f"{sku}{told_ms}", told_ms, sku, Component(component), nano, Per(per), 1, 0, match)


def egress(nano: int, told_ms: int = 0) -> PriceEvent:
    return price("egress", nano, told_ms, "network", "gib")


def requests(nano: int, told_ms: int = 0) -> PriceEvent:
    return price("requests", nano, told_ms, "storage", "thousand_requests")


GPUS: Final = price("h100", 2 * 10**9)
BYTES: Final[Event] = (
    "network",
    T0 + MINUTE_MS,
    {"interval_ms": 1000, "bytes": 2**33, "path": "cross_zone", "direction": "egress"},
)
ASKED: Final[Event] = ("storage", T0 + MINUTE_MS, {"interval_ms": 1000, "requests": 10**6, "op": "read"})
RAN: Final[list[Event]] = [
    ("jobs", T0, {"type": "started", "gpu_count": 8, "attempt": 1}),
    ("jobs", T0 + HOUR_MS, {"type": "completed", "attempt": 1}),
]
NEVER_STARTED: Final[list[Event]] = [
    ("jobs", T0 + k * MINUTE_MS + seconds * 1000, {"type": kind, "attempt": k + 1, **fields})
    for k in range(2)
    for seconds, kind, fields in ((0, "queued", {"gpu_count": 8}), (1, "failed", {}))
]
TWO_ARE_MANY: Final = ControlEvent(
    "t", "two", 0, "rule", "z", {"rule": "retry_loop", "thresholds": {"failures": 2}}
)


def changed(log: Log) -> list[tuple[str, str]]:
    """(rule, status) of the alerts since the last call."""
    log.versions += 1
    rows = log.shard.checkpoint(T0, log.versions, open_attempts=False).tables.get(ALERTS)
    return [] if rows is None else [(row["rule"], row["status"]) for row in rows.to_pylist()]


def alerts(
    before: list[News], events: list[Event], told_ms: int, news: News, *, restored: bool
) -> list[tuple[str, str]]:
    """The alerts after the news of jobs that had none; a shard may be restored just before it."""
    prices = [each for each in before if isinstance(each, PriceEvent)]
    controls = {each.name.encode(): each for each in before if isinstance(each, ControlEvent)}
    book = PriceBook.empty().with_events(prices)
    reference = ReferenceLog(book, controls=controls)
    if isinstance(news, PriceEvent):
        reference.extend([(told_ms, news)], [], book.with_events([news]), {})
    else:
        key = news.name.encode()
        reference.extend([], [(told_ms, key, news)], book, {key: news})
    log = Log(Shard(0, ShardSettings(), book))
    log.view = reference.view()
    for topic, at_ms, fields in events:
        log.add(topic, at_ms, **fields)
    assert log.shard.books.dead_lettered == 0
    log.judge(T0, told_ms - TICK_MS)
    log.versions += 1
    point = log.shard.checkpoint(T0, log.versions, open_attempts=False)
    assert ALERTS not in point.tables
    if restored:
        log = Log(Shard.restore(0, ShardSettings(), book, [point.snapshot]))
        log.view = reference.view()
    log.judge(told_ms, told_ms + MINUTE_MS)
    return changed(log)


@pytest.mark.parametrize("restored", [False, True])
@pytest.mark.parametrize(
    ("before", "events", "told_ms", "news", "expected"),
    [
        pytest.param([egress(0)], [BYTES], T0 + 20 * MINUTE_MS, egress(10**11, 1), PAGED, id="free bytes"),
        pytest.param(
            [requests(0)], [ASKED], T0 + 20 * MINUTE_MS, requests(10**9, 1), PAGED, id="free requests"
        ),
        pytest.param(
            [requests(1)], [(*ASKED[:2], ASKED[2] | {"requests": 400})], T0 + 20 * MINUTE_MS, requests(10**12, 1),
            PAGED, id="requests that round to nothing",
        ),
        pytest.param(
            [GPUS, UNPRICED_ON], RAN, T0 + 9 * HOUR_MS, price("h100", 2 * 10**9, 1, zone="other"),
            NO_PRICE, id="a revision takes the price of old GPU-time",
        ),
        pytest.param([], RAN, T0 + 9 * HOUR_MS, UNPRICED_ON, NO_PRICE, id="unpriced is switched on"),
        pytest.param(
            [], NEVER_STARTED, T0 + 20 * MINUTE_MS, TWO_ARE_MANY, [("retry_loop", "firing")],
            id="fewer attempts that never began are a loop",
        ),
    ],
)  # fmt: skip
def test_late_news_of_a_job_opens_the_alert_with_and_without_a_restart(
    before: list[News], events: list[Event], told_ms: int, news: News, expected: list[Any], restored: bool
) -> None:
    assert alerts(before, events, told_ms, news, restored=restored) == expected
