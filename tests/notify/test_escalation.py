"""A page that nobody acknowledges goes on to the next one in `escalate`; alerts of a team go to its addresses, too."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from schemas.events import ControlEvent
from streams.clock import ManualClock, SystemClock
from streams.engine.alerts.alert import Alert
from streams.engine.alerts.controls import Controls
from streams.engine.pricing.book import PriceBook
from streams.engine.reference_log import ReferenceLog
from streams.notify.channels.channels import Channels
from streams.notify.webhooks.receiver import Received, WebhookReceiver
from streams.notify.webhooks.sender import SendResult
from streams.worker.newest_controls import NewestControls
from tests.notify.scripted_sender import NOW_MS, SECRET, SLACK, Office, an_alert, resolved, run

MINUTE_MS = 60_000
ADA, GRACE, LEAD, TEAM = (f"https://hooks.example/{name}" for name in ("ada", "grace", "lead", "team"))
AFTER = {"escalate": ["grace", "lead"], "escalate_after_min": 15}
GONE = SendResult("failed", 404, "answered 404")
BUSY = SendResult("retry", 503, "answered 503")


def control(kind: str, name: str, **value: object) -> ControlEvent:
    return ControlEvent("t", f"{kind} {name}", 0, kind, name, value)


OWNERS = [
    control("owner", "ada", webhook=ADA, **AFTER),
    control("owner", "grace", webhook=GRACE),
    control("owner", "lead", webhook=LEAD),
]


def office(controls: Sequence[ControlEvent] = OWNERS, **other: Any) -> Office:
    """Whose addresses and escalations are those of the controls, which a test may replace."""
    there = Office(**other)
    follow(there, controls)
    return there


def follow(there: Office, controls: Sequence[ControlEvent]) -> None:
    known = {f"{each.kind}/{each.name}".encode(): each for each in controls}
    newest = NewestControls(ReferenceLog(PriceBook.empty(), known), there.clock.now_ms)
    there.notifier._receivers._addresses = newest.of
    there.notifier.look_up_teams(newest.of_team)
    there.notifier.look_up_acknowledged(newest.is_acknowledged)
    there.notifier.look_up_silenced(newest.is_silenced)
    there.notifier.look_up_escalations(newest.escalation_of)


def real_channels(there: Office) -> Channels:
    """Those of a notifier that nothing stands in for."""
    return Channels(there.options, there.clock, there.notifier._firing)


def told(there: Office) -> list[tuple[str, str]]:
    """Whom, and what status."""
    return [(sent.url.rpartition("/")[2], sent.body["data"]["status"]) for sent in there.sender.sent]


def ack(alert: Alert, until_ms: int | None = None) -> ControlEvent:
    until = {} if until_ms is None else {"until_ms": until_ms}
    return control("ack", alert.alert_id, alert_id=alert.alert_id, **until)


def test_a_page_goes_on_step_by_step_and_everybody_is_told_its_end() -> None:
    async def go() -> None:
        there = office()
        await there.offer(an_alert())
        await there.work(15 * MINUTE_MS - 1)
        assert told(there) == [("ada", "firing")]
        await there.work(10_000)
        assert told(there) == [("ada", "firing"), ("grace", "firing")]
        await there.work(14 * MINUTE_MS)
        assert len(told(there)) == 2
        await there.work(MINUTE_MS)
        await there.work(10 * 60 * MINUTE_MS)
        assert told(there) == [("ada", "firing"), ("grace", "firing"), ("lead", "firing")]
        await there.offer(resolved(after_ms=40_000_000))
        assert sorted(told(there)[3:]) == [("ada", "resolved"), ("grace", "resolved"), ("lead", "resolved")]
        ids = [sent.headers["webhook-id"] for sent in there.sender.sent]
        assert len(set(ids)) == len(ids) == 6
        assert [row for row in there.rows("receiver", "status") if "lead" in row[0]] == [
            ("https://hooks.example #for lead", "firing"),
            ("https://hooks.example #for lead", "resolved"),
        ]

    run(go())


def test_one_that_is_over_or_a_ticket_goes_on_to_nobody() -> None:
    async def go() -> None:
        there = office()
        await there.offer(an_alert("a", severity="ticket"), an_alert("b"))
        await there.offer(resolved("b"))
        await there.work(60 * MINUTE_MS)
        assert {name for name, _ in told(there)} == {"ada"}

    run(go())


def test_an_acknowledgement_stops_it_and_when_that_ends_the_time_begins_anew() -> None:
    async def go() -> None:
        there = office()
        page = an_alert()
        await there.offer(page)
        await there.work(15 * MINUTE_MS)
        follow(there, [*OWNERS, ack(page, NOW_MS + 120 * MINUTE_MS)])
        await there.work(104 * MINUTE_MS)
        assert told(there) == [("ada", "firing"), ("grace", "firing")]
        await there.work(15 * MINUTE_MS)
        assert len(told(there)) == 2
        await there.work(MINUTE_MS)
        assert told(there)[2:] == [("lead", "firing")]

    run(go())


def test_each_step_after_an_acknowledgement_waits_its_time() -> None:
    async def go() -> None:
        there = office()
        page = an_alert()
        await there.offer(page)
        follow(there, [*OWNERS, ack(page, NOW_MS + 10 * MINUTE_MS)])
        await there.work(25 * MINUTE_MS)
        assert told(there) == [("ada", "firing"), ("grace", "firing")]
        await there.work(14 * MINUTE_MS)
        assert len(told(there)) == 2
        await there.work(MINUTE_MS)
        assert told(there)[2:] == [("lead", "firing")]

    run(go())


def test_one_that_is_acknowledged_for_good_goes_on_no_more() -> None:
    async def go() -> None:
        there = office()
        page = an_alert()
        await there.offer(page)
        follow(there, [*OWNERS, ack(page)])
        await there.work(24 * 60 * MINUTE_MS)
        assert told(there) == [("ada", "firing")]

    run(go())


def test_a_silence_stops_it() -> None:
    async def go() -> None:
        there = office()
        await there.offer(an_alert())
        follow(there, [*OWNERS, control("silence", "s", team="vision")])
        await there.work(24 * 60 * MINUTE_MS)
        assert told(there) == [("ada", "firing")]

    run(go())


def test_what_a_silence_held_up_is_made_up_for_when_it_ends() -> None:
    async def go() -> None:
        there = office()
        await there.offer(an_alert())
        until_ms = NOW_MS + 40 * MINUTE_MS
        follow(there, [*OWNERS, control("silence", "s", team="vision", until_ms=until_ms)])
        await there.work(40 * MINUTE_MS - 1)
        assert told(there) == [("ada", "firing")]
        await there.work(10_000)
        assert told(there)[1:] == [("grace", "firing"), ("lead", "firing")]

    run(go())


def test_the_next_process_forgets_no_step_and_takes_none_twice() -> None:
    async def go() -> None:
        first = office()
        await first.offer(an_alert())
        await first.work(15 * MINUTE_MS)
        assert told(first) == [("ada", "firing"), ("grace", "firing")]
        second = office(store=first.store, clock=first.clock)
        second.notifier.resume([3])
        await second.work(MINUTE_MS)
        assert told(second) == []
        second.clock.advance(14 * MINUTE_MS)
        third = office(store=first.store, clock=first.clock)
        third.notifier.resume([3])
        await third.work()
        await third.work(MINUTE_MS)
        assert told(third) == [("lead", "firing")]
        fourth = office(store=first.store, clock=first.clock)
        fourth.notifier.resume([3])
        await fourth.work(MINUTE_MS)
        await fourth.offer(resolved(after_ms=40 * MINUTE_MS))
        assert sorted(told(fourth)) == [("ada", "resolved"), ("grace", "resolved"), ("lead", "resolved")]

    run(go())


def test_a_step_that_a_killed_process_was_retrying_is_taken_by_the_next_one() -> None:
    async def go() -> None:
        first = office(script={GRACE: [BUSY]})
        await first.offer(an_alert())
        await first.work(15 * MINUTE_MS)
        assert told(first)[1:] == [("grace", "firing")]
        second = office(store=first.store, clock=first.clock)
        second.notifier.resume([3])
        await second.work(MINUTE_MS)
        await second.work(MINUTE_MS)
        assert told(second) == [("grace", "firing")]

    run(go())


def test_a_receiver_of_the_owner_that_got_nothing_yet_is_owed_though_it_went_on() -> None:
    """The steps of the others do not stand for those of the owner."""

    async def go() -> None:
        first = office(script={ADA: [BUSY]})
        await first.offer(an_alert())
        await first.work(15 * MINUTE_MS)
        second = office(store=first.store, clock=first.clock)
        second.notifier.resume([3])
        await second.work(30 * MINUTE_MS)
        await second.work(30 * MINUTE_MS)
        assert ("ada", "firing") in told(second)
        assert told(second).count(("grace", "firing")) == 0

    run(go())


def test_each_recipient_is_told_whose_page_it_is_and_that_nobody_acknowledged_it() -> None:
    async def go() -> None:
        there = office()
        await there.offer(an_alert())
        await there.work(15 * MINUTE_MS)
        await there.work(15 * MINUTE_MS)
        await there.offer(resolved(after_ms=31 * MINUTE_MS))
        said = [
            (
                data["recipient"],
                data.get("escalated_from"),
                data["status"],
                data["summary"].partition(": ")[0],
            )
            for data in (sent.body["data"] for sent in there.sender.sent)
        ]
        assert said[:3] == [
            ("ada", None, "firing", "job-1 burns $786.56/h"),
            ("grace", "ada", "firing", "ada has not acknowledged for 15 min"),
            ("lead", "grace", "firing", "ada and grace have not acknowledged for 30 min"),
        ]
        assert sorted(said[3:], key=str) == [
            ("ada", None, "resolved", "job-1 burns $786.56/h"),
            ("grace", "ada", "resolved", "job-1 burns $786.56/h"),
            ("lead", "grace", "resolved", "job-1 burns $786.56/h"),
        ]

    run(go())


def test_an_escalation_has_the_figures_of_now() -> None:
    async def go() -> None:
        there = office()
        await there.offer(an_alert())
        newest = an_alert(held_ms=NOW_MS + 14 * MINUTE_MS, summary="job-1 burns $900/h", firings=1)
        there.keep(newest)
        await there.work(15 * MINUTE_MS)
        assert there.sender.sent[-1].body["data"]["summary"] == (
            "ada has not acknowledged for 15 min: job-1 burns $900/h"
        )

    run(go())


def test_an_escalation_after_an_acknowledgement_says_when_that_ended() -> None:
    async def go() -> None:
        page = an_alert()
        there = office([*OWNERS, ack(page, NOW_MS + 5 * MINUTE_MS)])
        await there.offer(page)
        await there.work(20 * MINUTE_MS)
        assert told(there)[1:] == [("grace", "firing")]
        said = there.sender.sent[-1].body["data"]["summary"]
        assert said.startswith("not acknowledged since 08:05 UTC: job-1 burns $786.56/h; firing for 20 min")

    run(go())


def test_a_retried_escalation_keeps_its_id_in_the_next_process_too() -> None:
    async def go() -> None:
        first = office(script={GRACE: [BUSY, BUSY]})
        await first.offer(an_alert())
        await first.work(15 * MINUTE_MS)
        await first.work(MINUTE_MS)
        second = office(store=first.store, clock=first.clock)
        second.notifier.resume([3])
        await second.work(MINUTE_MS)
        await second.work(MINUTE_MS)
        sent = [each for each in (*first.sender.sent, *second.sender.sent) if each.url == GRACE]
        assert len(sent) == 3
        assert len({each.headers["webhook-id"] for each in sent}) == 1
        assert {each.body["data"]["escalated_from"] for each in sent} == {"ada"}
        assert all(
            each.body["data"]["summary"].startswith("ada has not acknowledged for 15 min: ") for each in sent
        )

    run(go())


def test_people_are_told_that_it_went_on_to_them() -> None:
    async def go() -> None:
        there = office([OWNERS[0], control("owner", "grace", slack=SLACK)])
        await there.offer(an_alert())
        await there.work(15 * MINUTE_MS)
        await there.work(MINUTE_MS)
        text = json.dumps(there.sender.sent[-1].body)
        assert there.sender.sent[-1].url == SLACK
        assert "Escalated to grace" in text
        assert "ada has not acknowledged for 15 min: job-1 burns" in text

    run(go())


def test_one_relay_of_several_owners_gets_a_message_for_each() -> None:
    async def go() -> None:
        same = [OWNERS[0], control("owner", "grace", webhook=ADA), OWNERS[2]]
        there = office(same)
        await there.offer(an_alert())
        await there.work(15 * MINUTE_MS)
        assert [(sent.url, sent.body["data"]["recipient"]) for sent in there.sender.sent] == [
            (ADA, "ada"),
            (ADA, "grace"),
        ]
        first, second = (sent.headers["webhook-id"] for sent in there.sender.sent)
        assert second.startswith(f"{first}_")

    run(go())


def test_a_person_who_has_it_is_not_told_again_and_an_address_that_is_gone_holds_up_nobody() -> None:
    async def go() -> None:
        same = [control("owner", "ada", slack=SLACK, **AFTER), control("owner", "grace", slack=SLACK)]
        there = office([*same, OWNERS[2]])
        await there.offer(an_alert())
        await there.work(30 * MINUTE_MS)
        assert [sent.url for sent in there.sender.sent] == [SLACK, LEAD]
        assert there.sender.sent[-1].body["data"]["escalated_from"] == "grace"
        gone = office(script={ADA: [GONE], GRACE: [GONE]})
        await gone.offer(an_alert())
        await gone.work(15 * MINUTE_MS)
        await gone.work(15 * MINUTE_MS)
        assert told(gone) == [("ada", "firing"), ("grace", "firing"), ("lead", "firing")]

    run(go())


def test_an_owner_without_an_address_is_passed_over() -> None:
    async def go() -> None:
        there = office([OWNERS[0], OWNERS[2]], options={"default_webhook": TEAM})
        await there.offer(an_alert())
        await there.work(15 * MINUTE_MS)
        assert told(there) == [("ada", "firing")]
        await there.work(15 * MINUTE_MS)
        assert told(there) == [("ada", "firing"), ("lead", "firing")]

    run(go())


def test_when_it_fires_again_it_begins_anew_with_the_owner() -> None:
    async def go() -> None:
        there = office()
        await there.offer(an_alert())
        await there.work(15 * MINUTE_MS)
        await there.offer(resolved(after_ms=16 * MINUTE_MS))
        sent = len(told(there))
        await there.offer(an_alert(changed_ms=NOW_MS + 20 * MINUTE_MS, firings=2))
        await there.work(10 * MINUTE_MS)
        assert told(there)[sent:] == [("ada", "firing")]
        await there.work(10 * MINUTE_MS)
        assert told(there)[sent:] == [("ada", "firing"), ("grace", "firing")]

    run(go())


def test_a_team_has_receivers_and_an_escalation_of_its_own() -> None:
    async def go() -> None:
        team = control("team", "vision", webhook=TEAM, escalate=["lead"], escalate_after_min=5)
        there = office([team, control("owner", "ada", webhook=ADA), *OWNERS[1:]])
        await there.offer(an_alert())
        assert sorted(told(there)) == [("ada", "firing"), ("team", "firing")]
        await there.work(5 * MINUTE_MS)
        assert told(there)[2:] == [("lead", "firing")]
        await there.offer(resolved(after_ms=6 * MINUTE_MS))
        assert sorted(told(there)[3:]) == [("ada", "resolved"), ("lead", "resolved"), ("team", "resolved")]
        # Of a job whose owner has no address the team is told; the default stands in for nobody.
        other = office([team], options={"default_webhook": LEAD})
        await other.offer(an_alert(owner="nobody"))
        assert told(other) == [("team", "firing")]

    run(go())


def test_pages_beyond_what_is_kept_are_sent_and_go_on_to_nobody() -> None:
    async def go() -> None:
        there = office()
        there.notifier._escalations._at_most = 2
        await there.offer(*(an_alert(f"j{number}") for number in range(5)))
        await there.work(15 * MINUTE_MS)
        assert told(there).count(("ada", "firing")) == 5
        assert told(there).count(("grace", "firing")) == 2

    run(go())


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"escalate": "grace"}, 'escalate: got "grace", expected a list of 1 to 10 names of owner records'),
        ({"escalate": []}, "escalate: got [], expected a list"),
        ({"escalate": [f"o{k}" for k in range(11)]}, "expected a list of 1 to 10"),
        ({"escalate": ["grace", "grace"]}, 'escalate: "grace" is in it twice'),
        ({"escalate": [""]}, "expected the name of an owner record"),
        ({"escalate": [["grace"]]}, "expected the name of an owner record"),
        (
            {"escalate": ["grace"], "escalate_after_min": 0},
            "escalate_after_min: got 0, expected whole minutes from 1 to 1440",
        ),
        ({"escalate": ["grace"], "escalate_after_min": 1.5}, "escalate_after_min: got 1.5"),
        ({"escalate": ["grace"], "escalate_after_min": True}, "escalate_after_min: got true"),
        ({"escalate_after_min": 5}, "escalate_after_min: it is that of `escalate`"),
        ({"escalat": ["grace"]}, "did you mean escalate?"),
        ({"webhook": 5}, "webhook: expected a string that is not empty"),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["owner", "team"])
def test_what_has_no_effect_is_said(kind: str, fields: dict[str, Any], words: str) -> None:
    (fault,) = Controls.from_events([control(kind, "x", **fields)]).faults
    assert words in fault.detail


def test_over_real_http_each_step_is_signed_for_its_owner() -> None:
    async def go() -> tuple[list[str], list[Received]]:
        names: list[str] = []
        got: list[Received] = []

        def receiver(name: str) -> WebhookReceiver:
            def take(message: Received) -> None:
                names.append(name)
                got.append(message)

            return WebhookReceiver(SECRET, take)

        receivers = {name: receiver(name) for name in ("ada", "grace", "team")}
        for each in receivers.values():
            await each.start()
        controls = [
            control("owner", "ada", webhook=receivers["ada"].url, escalate=["grace"], escalate_after_min=1),
            control("owner", "grace", webhook=receivers["grace"].url),
            control("team", "vision", webhook=receivers["team"].url),
        ]
        hosts = ",".join(each.host_port for each in receivers.values())
        now_ms = SystemClock().now_ms()  # receivers look at the clock of the machine
        there = office(controls, options={"allow_hosts": hosts}, clock=ManualClock(now_ms))
        there.notifier._channels = real_channels(there)
        await there.offer(an_alert(changed_ms=now_ms))
        await there.work(MINUTE_MS)
        await there.offer(an_alert(status="resolved", changed_ms=now_ms + 2 * MINUTE_MS))
        for each in receivers.values():
            await each.stop()
            assert each.refused == 0
        return names, got

    names, got = asyncio.run(go())
    assert (sorted(names[:2]), names[2]) == (["ada", "team"], "grace")
    assert sorted(names[3:]) == ["ada", "grace", "team"]
    assert [each.type for each in got] == ["alert.firing"] * 3 + ["alert.resolved"] * 3
