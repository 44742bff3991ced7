"""What is sent after the instant of a firing alert says nothing of what was to come then; what is sent at once says it."""

from __future__ import annotations

from typing import Any

import pytest

from streams.engine.alerts.alert import Address, Alert
from streams.engine.alerts.controls import Controls, Silence
from streams.engine.alerts.outlook import CURRENT_MS, AlertSentence, used_up
from streams.engine.rules.formatting import unheeded
from streams.engine.rules.registry import NAMES
from streams.notify.incident_hold import inhibitors_of
from streams.notify.options import NotifierOptions
from tests.notify.scripted_sender import BUSY, HOOK, NOW_MS, OK, SLACK, Office, an_alert, run

HOUR_MS, MINUTE_MS, USD = 3_600_000, 60_000, 10**9
MORE = unheeded(2 * USD, NOW_MS)
SENTENCES = {
    "idle_gpus": (f"j leaves 8 GPUs idle; stop it, else {MORE}; H100", "j leaves 8 GPUs idle; stop it; H100"),
    "retry_loop": (f"j failed 3 times; stop it, else {MORE}", "j failed 3 times; stop it"),
    "burn_fast": (f"j burns $9.00/h: 64 GPUs; stop it, else {MORE}", "j burns $9.00/h: 64 GPUs; stop it"),
    "price_basis": (f"j pays more since attempt 2, {MORE}; move it", "j pays more since attempt 2; move it"),
    "team_burn": (f"team x spent $9.00; move jobs, else {MORE}", "team x spent $9.00; move jobs"),
    "budget_used": (
        f"team x has used 80.0 %: $80 of $100, $20/h{used_up(HOUR_MS, NOW_MS)}; raise it",
        "team x has used 80.0 %: $80 of $100, $20/h; raise it",
    ),
    "budget_forecast": (
        "team x will use up budget b at 09:00 UTC, 1 h early: $80 of $100, $20/h; raise it",
        "team x was to use up budget b at 09:00 UTC, 1 h early: $80 of $100, $20/h; raise it",
    ),
}  # fmt: skip
EVERY_RULE = pytest.mark.parametrize("rule", SENTENCES)


def firing(rule: str, **other: Any) -> Alert:
    left_ms = HOUR_MS if rule.startswith("budget") else None
    facts: dict[str, Any] = {"usd_nano_per_hour": 20 * USD, "exhausted_in_ms": left_ms, "severity": "ticket"}
    return an_alert(rule=rule, summary=SENTENCES[rule][0], **facts, **other)


def texts(there: Office) -> list[str]:
    """What was said to Slack, in whatever block."""
    return [str(sent.body) for sent in there.sender.sent]


def says(text: str, rule: str) -> str:
    then, past = SENTENCES[rule]
    return "then" if then in text else "past" if past in text else text


def office(**other: Any) -> Office:
    options = {"group_wait_ms": 10_000, "group_interval_ms": 300_000, "repeat_interval_ms": 4 * HOUR_MS}
    return Office(addresses=(Address("slack", SLACK),), options=options, **other)


async def offered(there: Office, rule: str) -> None:
    """Offer an alert of a rule, and wait until nothing of its cause holds it up."""
    await there.offer(firing(rule))
    if inhibitors_of(rule):
        await there.work(3 * NotifierOptions.incident_wait_ms)


@EVERY_RULE
def test_a_repetition(rule: str) -> None:
    async def scenario() -> None:
        there = office()
        await offered(there, rule)
        await there.work(10_000)
        await there.work(4 * HOUR_MS)
        assert [says(text, rule) for text in texts(there)] == ["then", "past"]

    run(scenario())


@EVERY_RULE
def test_a_message_that_is_late(rule: str) -> None:
    """The receiver is away for a while: the first attempt is at once, the last one is not."""

    async def scenario() -> None:
        there = office(script={SLACK: [BUSY, OK]})
        await offered(there, rule)
        await there.work(10_000)
        await there.work(CURRENT_MS)
        assert [says(text, rule) for text in texts(there)] == ["then", "past"]

    run(scenario())


@EVERY_RULE
def test_what_is_sent_to_an_alertmanager_again(rule: str) -> None:
    async def scenario() -> None:
        there = Office(options={"alertmanager_urls": ("http://peer.example.com",)}, addresses=())
        await offered(there, rule)
        await there.work(CURRENT_MS + MINUTE_MS)
        assert [says(text, rule) for text in texts(there)] == ["then", "past"]

    run(scenario())


@pytest.mark.parametrize("rule", [rule for rule in SENTENCES if rule not in NAMES])
def test_the_end_of_a_silence(rule: str) -> None:
    """Of alerts about jobs a row says it, with the figures of then."""
    until_ms = NOW_MS + 2 * HOUR_MS
    controls = Controls({}, [Silence("s", {}, 0, until_ms)], (), ())

    async def scenario() -> None:
        there = Office()
        there.notifier.look_up_silenced(lambda alert: controls.may_silence(alert, there.clock.now_ms()))
        await there.offer(firing(rule, silenced=True))
        await there.work(2 * HOUR_MS + MINUTE_MS)
        (sent,) = there.sender.sent
        assert sent.body["data"]["summary"] == SENTENCES[rule][1]

    run(scenario())


@EVERY_RULE
def test_a_webhook_says_the_instant_of_its_timestamp_in_every_attempt(rule: str) -> None:
    async def scenario() -> None:
        there = Office({HOOK: [BUSY, OK]})
        await offered(there, rule)
        await there.work(HOUR_MS)
        first, second = there.sender.sent
        assert first.body == second.body
        assert first.body["data"]["summary"] == SENTENCES[rule][0]

    run(scenario())


def test_what_pays_no_more_than_expected_is_not_to_be_scaled_back() -> None:
    text = "j burns $80/h, 5.0x the $16/h expected: 80 GPUs since 00:30, 8 before; scale it back or declare it, else $512 more by 08:00 UTC"
    said = AlertSentence("burn_fast", text, 0)
    assert "before; scale it back or declare it, else $511 more by" in said.at(60_000, 64 * 10**9)
    assert said.at(60_000, 0).endswith(
        "80 GPUs since 00:30, 8 before; that is over, declare it if it comes again"
    )
