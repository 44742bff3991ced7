"""What is acknowledged is not said again to people while the acknowledgement lasts."""

from __future__ import annotations

from schemas.events import ControlEvent
from streams.engine.alerts.alert import Address
from streams.engine.pricing.book import PriceBook
from streams.engine.reference_log import ReferenceLog
from streams.worker.newest_controls import NewestControls
from tests.notify.scripted_sender import NOW_MS, SLACK, Office, an_alert, resolved, run

REPEAT_MS = 4 * 3_600_000


def test_an_acknowledged_alert_is_not_repeated_and_others_of_its_group_are() -> None:
    async def go() -> None:
        there = Office(addresses=[Address("slack", SLACK)], options={"repeat_interval_ms": REPEAT_MS})
        first, second = an_alert("a"), an_alert("b")
        acknowledged = {first.alert_id}
        there.notifier.look_up_acknowledged(acknowledged.__contains__)
        await there.offer(first)
        await there.offer(second)
        sent = len(there.sender.sent)
        await there.work(REPEAT_MS)
        repeated = [row[0] for row in there.rows("alert_id", "outcome") if row[1] == "repeated"]
        assert repeated == [second.alert_id]
        acknowledged.add(second.alert_id)
        await there.work(REPEAT_MS)
        await there.work(REPEAT_MS)
        assert len(there.sender.sent) == sent + 1
        # It is over: what still fires is said again, and that it cleared is said in any case.
        acknowledged.clear()
        await there.work(REPEAT_MS)
        assert len(there.sender.sent) == sent + 2
        acknowledged.add(first.alert_id)
        await there.offer(resolved("a"))
        assert there.rows("status", "outcome").count(("resolved", "delivered")) == 1

    run(go())


def test_the_newest_acknowledgements_count_until_they_end() -> None:
    def ack(name: str, alert_id: str, **until: int) -> ControlEvent:
        return ControlEvent("web", name, 1, "ack", name, {"alert_id": alert_id, **until})

    now_ms = [NOW_MS]
    events = [
        ack("x", "al_1", until_ms=NOW_MS + 10),
        ack("y", "al_1", until_ms=NOW_MS + 5),
        ack("z", "al_2"),
        ack("v", "al_3", until_ms=NOW_MS),
    ]
    log = ReferenceLog(PriceBook.empty(), {each.name.encode(): each for each in events})
    controls = NewestControls(log, lambda: now_ms[0])
    assert [controls.is_acknowledged(f"al_{at}") for at in range(1, 5)] == [True, True, False, False]
    now_ms[0] += 10
    assert [controls.is_acknowledged(f"al_{at}") for at in range(1, 5)] == [False, True, False, False]
