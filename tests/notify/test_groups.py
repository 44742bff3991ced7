"""Messages to people: which alerts share one, what waits and how long, and what each row says; by a clock moved by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from schemas.tables import DELIVERIES
from streams.engine.alerts.alert import Address, Alert, alert_id
from streams.engine.rules.formatting import instant
from streams.notify.channels.slack import SlackChannel
from streams.notify.delivery import Receiver
from streams.notify.group_dispatch import INHIBITED
from streams.notify.groups import GroupKey, Groups, GroupTimes
from streams.notify.inhibition import Inhibition
from streams.notify.webhooks.sender import SendResult
from tests.memory_store import MemoryStore
from tests.notify.scripted_sender import (
    BUSY,
    HOOK,
    NOW_MS,
    OK,
    SHARD,
    SLACK,
    Office,
    Watched,
    an_alert,
    resolved,
    run,
)

WAIT_MS, INTERVAL_MS, REPEAT_MS = 10_000, 300_000, 4 * 3_600_000
MINUTE_MS = 60_000
GONE = SendResult("failed", 404, "answered 404: the receiver does not accept the message")


def office(
    script: Mapping[str, list[SendResult]] | None = None,
    *,
    addresses: tuple[Address, ...] = (Address("slack", SLACK),),
    options: Mapping[str, Any] | None = None,
    **other: Any,
) -> Office:
    times = {"group_wait_ms": WAIT_MS, "group_interval_ms": INTERVAL_MS, "repeat_interval_ms": REPEAT_MS}
    return Office(script, addresses=addresses, options={**times, **(options or {})}, **other)


def _moved(alert: Alert, other: Mapping[str, Any]) -> Alert:
    values = {name: getattr(alert, name) for name in alert.__struct_fields__}
    return Alert(**{**values, **other})


def ticket(name: str = "t", **other: Any) -> Alert:
    fields: dict[str, Any] = {"severity": "ticket", "rule": "burn_drift"}
    return an_alert(name, alert_id=alert_id("burn_drift", "job", name, NOW_MS), **(fields | other))


def team_page(status: str = "firing", **other: Any) -> Alert:
    key = alert_id("team_burn", "team", "vision", NOW_MS)
    fields: dict[str, Any] = {"rule": "team_burn", "subject_kind": "team", "alert_id": key, "owner": ""}
    return an_alert("vision", status, **(fields | other))


def texts(there: Office) -> list[str]:
    """Titles of the messages to Slack."""
    return [
        sent.body["blocks"][0]["text"]["text"][2:].strip() for sent in there.sender.sent if sent.url == SLACK
    ]


def test_alerts_of_one_owner_and_project_share_a_message_after_the_wait() -> None:
    async def go() -> None:
        there = office()
        await there.offer(an_alert("a"), an_alert("b"), ticket("c"), an_alert("d", project="q"))
        await there.work(WAIT_MS - 1)
        assert there.sender.sent == []
        assert there.notifier.waiting == 4
        await there.work(1)
        assert sorted(texts(there)) == [
            "3 firing: owner ada, project p",
            "d: Runaway burn (page)",
        ]
        assert sorted(there.rows("outcome", "attempt", "detail")) == [
            ("delivered", 1, ""),
            *[("delivered", 1, "one message with 2 others")] * 3,
        ]
        assert there.notifier.waiting == 0

    run(go())


def test_a_webhook_gets_each_alert_at_once() -> None:
    there = office(addresses=(Address("webhook", HOOK), Address("slack", SLACK)))
    run(there.offer(an_alert("a"), an_alert("b")))
    assert there.sender.told == [("a", "firing"), ("b", "firing")]


def test_what_comes_later_waits_for_the_interval_and_a_page_for_a_minute() -> None:
    async def go() -> None:
        there = office()
        await there.offer(an_alert("a"))
        await there.work(WAIT_MS)
        await there.offer(ticket("b"), resolved("a"))
        await there.work(INTERVAL_MS - 1)
        assert len(there.sender.sent) == 1
        await there.work(1)
        assert texts(there)[1:] == ["1 firing, 1 resolved: owner ada, project p"]
        await there.offer(an_alert("c"))
        await there.work(MINUTE_MS - 1)
        assert len(there.sender.sent) == 2
        await there.work(1)
        assert texts(there)[2:] == ["c: Runaway burn (page)"]
        assert there.sender.sent[-1].body["blocks"][1]["elements"][0]["text"] == "1 more of them still fire"

    run(go())


def test_what_still_fires_is_said_again_and_what_resolved_is_not() -> None:
    async def go() -> None:
        there = office()
        await there.offer(an_alert("a"), an_alert("b"))
        await there.work(WAIT_MS)
        await there.offer(resolved("a"))
        await there.work(INTERVAL_MS)
        await there.work(REPEAT_MS - 1)
        assert len(there.sender.sent) == 2
        await there.work(1)
        assert texts(there)[2:] == ["b: Runaway burn (page)"]
        assert there.sender.sent[-1].body["blocks"][1]["elements"][0]["text"] == "Still firing, said again"
        await there.work(REPEAT_MS)
        b = alert_id("burn_fast", "job", "b", NOW_MS)
        rows = [row[1:] for row in there.rows("alert_id", "attempt", "outcome") if row[0] == b]
        assert rows == [(1, "delivered"), (2, "repeated"), (3, "repeated")]
        await there.offer(resolved("b"))
        await there.work(INTERVAL_MS)
        await there.work(10 * REPEAT_MS)
        assert len(there.sender.sent) == 5

    run(go())


def test_repetitions_can_be_off() -> None:
    async def go() -> None:
        there = office(options={"repeat_interval_ms": 0})
        await there.offer(an_alert("a"))
        await there.work(WAIT_MS)
        await there.work(100 * REPEAT_MS)
        assert len(there.sender.sent) == 1

    run(go())


@pytest.mark.parametrize("other", [{"silenced": True}, {"owner": "bob"}, {"project": "q"}])
def test_what_ended_in_another_way_is_not_said_to_fire_still(other: dict[str, Any]) -> None:
    async def go() -> None:
        there = office()
        await there.offer(an_alert("a"))
        await there.work(WAIT_MS)
        await there.offer(resolved("a", after_ms=WAIT_MS, **other))
        await there.work(INTERVAL_MS)
        sent = len(there.sender.sent)
        assert sent == 2  # whoever was told that it fires is told that it is over
        await there.work(10 * REPEAT_MS)
        assert len(there.sender.sent) == sent

    run(go())


def test_what_is_silenced_while_it_waits_is_not_sent() -> None:
    async def go() -> None:
        there = office()
        await there.offer(an_alert("a"))
        await there.offer(resolved("a", silenced=True))
        await there.work(INTERVAL_MS)
        assert there.sender.sent == []
        assert there.notifier.waiting == 0
        assert there.rows("status", "outcome") == [("resolved", "silenced"), ("firing", "superseded")]

    run(go())


def test_an_alert_that_resolves_while_it_waits_is_one_message() -> None:
    async def go() -> None:
        there = office()
        await there.offer(an_alert("a"))
        await there.offer(resolved("a"))
        await there.work(WAIT_MS)
        assert texts(there) == ["a: Runaway burn resolved"]
        assert there.rows("status", "attempt", "outcome") == [
            ("firing", 0, "superseded"),
            ("resolved", 1, "delivered"),
        ]

    run(go())


def test_a_page_about_a_team_mutes_tickets_of_its_jobs_until_it_is_over() -> None:
    async def go() -> None:
        there = office()
        there.keep(team_page())
        await there.offer(ticket("mine"), ticket("other", team="speech"), an_alert("page"))
        await there.work(WAIT_MS)
        assert texts(there) == ["2 firing: owner ada, project p"]
        assert ("inhibited", 0, INHIBITED) in there.rows("outcome", "attempt", "detail")
        assert there.notifier.waiting == 0, "what is muted waits for nothing"
        await there.work(INTERVAL_MS)
        assert len(there.sender.sent) == 1
        there.keep(team_page("resolved", changed_ms=there.clock.now_ms(), held_ms=there.clock.now_ms()))
        await there.work(INTERVAL_MS)
        assert texts(there)[1:] == ["mine: Slow drift above plan (ticket)"]
        mine = ticket("mine").alert_id
        assert [row[1] for row in there.rows("alert_id", "outcome") if row[0] == mine] == [
            "inhibited",
            "delivered",
        ]

    run(go())


def test_what_resolves_while_it_is_muted_is_no_message() -> None:
    async def go() -> None:
        there = office()
        there.keep(team_page())
        await there.offer(ticket("mine"))
        await there.work(WAIT_MS)
        over = {"status": "resolved", "changed_ms": NOW_MS + WAIT_MS, "resolved_ms": NOW_MS + WAIT_MS}
        await there.offer(_moved(ticket("mine"), over))
        await there.work(10 * INTERVAL_MS)
        assert there.sender.sent == []
        assert there.rows("status", "outcome") == [("firing", "inhibited"), ("resolved", "superseded")]

    run(go())


@pytest.mark.parametrize(
    "other",
    [{"silenced": True}, {"severity": "ticket"}, {"status": "resolved"}, {"rule": "budget_used"}],
)
def test_only_a_burn_page_that_fires_and_is_not_silenced_mutes(other: dict[str, Any]) -> None:
    async def go() -> None:
        there = office()
        there.keep(team_page(**other))
        await there.offer(ticket("mine"))
        await there.work(WAIT_MS)
        assert len(there.sender.sent) == 1

    run(go())


def test_a_webhook_is_not_muted() -> None:
    there = office(addresses=(Address("webhook", HOOK),))
    there.keep(team_page())
    run(there.offer(ticket("mine")))
    assert there.sender.told == [("mine", "firing")]


def test_a_store_that_does_not_answer_mutes_nothing() -> None:
    def fail(table: str, columns: object) -> None:
        if columns == ("subject_name", "silenced"):
            raise OSError("away")

    async def go() -> None:
        there = office(store=Watched(fail))
        there.keep(team_page())
        await there.offer(ticket("mine"))
        await there.work(WAIT_MS)
        assert len(there.sender.sent) == 1
        assert there.notifier.faults.counts["read_alerts"] == 1

    run(go())


def test_attempts_of_a_group_follow_the_schedule_and_each_alert_has_its_rows() -> None:
    async def go() -> None:
        there = office({SLACK: [BUSY, BUSY, OK]})
        await there.offer(an_alert("a"), an_alert("b"))
        for wait_ms in (WAIT_MS, 1_000, 5_000):
            await there.work(wait_ms)
        assert sorted(there.rows("attempt", "outcome")) == [
            *[(1, "retrying")] * 2,
            *[(2, "retrying")] * 2,
            *[(3, "delivered")] * 2,
        ]

    run(go())


def test_what_comes_while_a_message_is_retried_is_in_the_next_one() -> None:
    async def go() -> None:
        there = office({SLACK: [BUSY, OK]})
        await there.offer(an_alert("a"))
        await there.work(WAIT_MS)
        await there.offer(resolved("a"), an_alert("b"))
        await there.work(1_000)
        assert texts(there)[1] == "a: Runaway burn (page)"
        await there.work(INTERVAL_MS)
        assert texts(there)[2:] == ["1 firing, 1 resolved: owner ada, project p"]

    run(go())


def test_a_message_that_fails_for_good_is_not_sent_again() -> None:
    async def go() -> None:
        there = office({SLACK: [GONE]}, options={"repeat_interval_ms": 0})
        await there.offer(an_alert("a"))
        await there.work(WAIT_MS)
        await there.work(100 * REPEAT_MS)
        assert there.rows("outcome") == [("failed",)]

    run(go())


def test_a_dead_channel_parks_and_delays_neither_webhooks_nor_memory() -> None:
    async def go() -> None:
        there = office(
            {SLACK: [BUSY]},
            addresses=(Address("slack", SLACK), Address("webhook", HOOK)),
            options={"waiting_at_most": 50},
        )
        for number in range(200):
            await there.offer(an_alert(f"job-{number}", project=f"p{number % 3}"))
        await there.work(WAIT_MS)
        assert sum(sent.url == HOOK for sent in there.sender.sent) == 200
        assert there.notifier.in_flight == 0

    run(go())


def test_a_restart_sends_what_waited_and_not_what_was_sent() -> None:
    async def go() -> None:
        first = office()
        await first.offer(an_alert("sent"))
        await first.work(WAIT_MS)
        await first.offer(ticket("waits"))
        second = office(store=first.store, clock=first.clock)
        second.notifier.resume([SHARD])
        await second.work()
        assert second.sender.sent == []
        await second.work(INTERVAL_MS)
        assert texts(second) == ["waits: Slow drift above plan (ticket)"], "the interval goes on"
        await second.work(REPEAT_MS)
        assert texts(second)[1:] == ["2 firing: owner ada, project p"]

    run(go())


def test_back_off_goes_on_after_a_restart() -> None:
    async def go() -> None:
        first = office({SLACK: [BUSY]})
        await first.offer(an_alert("a"))
        await first.work(WAIT_MS)
        second = office(store=first.store, clock=first.clock)
        second.notifier.resume([SHARD])
        await second.work()
        await second.work(WAIT_MS)
        assert second.sender.sent == []
        await second.work(1_000)
        assert second.rows("attempt", "outcome") == [(1, "retrying"), (2, "delivered")]

    run(go())


def test_a_released_shard_takes_its_alerts_out_of_waiting_messages() -> None:
    async def go() -> None:
        there = office({SLACK: [BUSY, OK]})
        await there.offer(an_alert("a"), shard=1)
        await there.offer(an_alert("b"), shard=2)
        await there.work(WAIT_MS)
        there.notifier.release([1])
        await there.work(1_000)
        assert texts(there) == ["2 firing: owner ada, project p", "b: Runaway burn (page)"]
        there.notifier.release([2])
        await there.work(10 * REPEAT_MS)
        assert len(there.sender.sent) == 2

    run(go())


def test_a_released_shard_ends_a_message_of_its_own() -> None:
    async def go() -> None:
        there = office({SLACK: [BUSY, OK]})
        await there.offer(an_alert("a"), shard=1)
        await there.work(WAIT_MS)
        there.notifier.release([1])
        assert there.notifier.waiting == 0
        await there.offer(an_alert("b"), shard=2)
        await there.work(WAIT_MS)
        assert texts(there)[1:] == ["b: Runaway burn (page)"]

    run(go())


def test_a_drain_waits_for_no_interval() -> None:
    async def go() -> None:
        there = office()
        await there.offer(an_alert("a"), an_alert("b"))
        running = asyncio.create_task(there.notifier.run())
        assert await there.notifier.drain(10_000) == 0
        await there.notifier.stop()
        await running
        assert texts(there) == ["2 firing: owner ada, project p"]

    run(go())


def test_each_message_of_a_group_has_its_own_id_and_each_attempt_the_same() -> None:
    groups = Groups(GroupTimes(0, 0, REPEAT_MS))
    key = GroupKey("r", ("ada", "p"))
    receiver = Receiver(SlackChannel.traits, SLACK)
    ids = []
    for now_ms in (0, REPEAT_MS, 2 * REPEAT_MS):
        if not now_ms:
            groups.add(key, receiver, an_alert(), 0, 0, 0)
        assert groups.due(now_ms) == [key]
        delivery, _ = groups.flush(key, now_ms, lambda _: False)
        assert delivery is not None
        delivery.begin()
        ids.append(delivery.webhook_id)
        assert delivery.webhook_id == ids[-1]
        groups.finish(delivery, now_ms)
    assert len(set(ids)) == 3


def test_more_than_there_is_room_for_stays_in_the_tables() -> None:
    groups = Groups(GroupTimes(0, 0, 0), at_most=2)
    for name in ("a", "b"):
        assert not groups.is_full
        groups.add(
            GroupKey("r", ("ada", name)), Receiver(SlackChannel.traits, SLACK), an_alert(name), 0, 0, 0
        )
    assert groups.is_full
    groups.release([0])
    assert not groups.is_full
    assert groups.next_due_ms() is None


def test_ten_thousand_alerts_of_one_group_are_one_message() -> None:
    async def go() -> None:
        store = MemoryStore()
        there = office(store=store)
        there.notifier.offer([an_alert(f"job-{number}") for number in range(9_000)], SHARD)
        await there.work()
        await there.work(WAIT_MS)
        assert texts(there) == ["9000 firing: owner ada, project p"]
        assert store.select(DELIVERIES).num_rows == 9_000

    run(go())


def test_a_shard_that_is_released_while_a_group_waits_for_the_tables_is_left_to_its_new_owner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def go() -> None:
        there = office()

        async def refresh(_inhibition: Inhibition) -> None:
            there.notifier.release({SHARD})

        monkeypatch.setattr(Inhibition, "refresh", refresh)
        await there.offer(an_alert())
        await there.work(WAIT_MS)
        assert there.sender.sent == []
        assert there.notifier.waiting == 0

    run(go())


def test_what_waits_for_the_next_message_of_its_group_says_until_when() -> None:
    async def scenario() -> None:
        there = office()
        await there.offer(ticket("a"))
        assert there.rows("outcome") == [], "ten seconds need no word"
        await there.work(WAIT_MS)
        sent_ms = there.clock.now_ms()
        await there.work(MINUTE_MS)
        await there.offer(ticket("b"))
        said = (
            f"waits for the next message of its group, until {instant(sent_ms + INTERVAL_MS)} at the latest"
        )
        assert ("waiting", said) in there.rows("outcome", "detail")
        await there.work(INTERVAL_MS)
        assert len(there.sender.sent) == 2

    run(scenario())
