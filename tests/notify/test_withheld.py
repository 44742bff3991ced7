"""A silence that ends while its alert fires sends it; whoever was told that it fires is told that it is over, and nobody else."""

from __future__ import annotations

from typing import Any

from streams.engine.alerts.alert import Alert
from streams.engine.alerts.controls import Controls, Silence
from tests.notify.scripted_sender import NOW_MS, Office, an_alert, resolved, run

UNTIL_MS = NOW_MS + 7_200_000


def silenced_until(there: Office, until_ms: int, **match: str) -> None:
    """A silence as the notifier looks it up."""
    controls = Controls({}, [Silence("s", match, 0, until_ms)], (), ())
    there.notifier.look_up_silenced(lambda alert: controls.may_silence(alert, there.clock.now_ms()))


def of_ledger(name: str) -> Alert:
    """One that no shard judges: the end of its silence has no row."""
    return an_alert(name, rule="team_burn", silenced=True)


def told(there: Office) -> list[tuple[str, str]]:
    return there.sender.told


def test_it_is_sent_when_the_silence_ends() -> None:
    async def scenario() -> None:
        there = Office()
        silenced_until(there, UNTIL_MS, team="vision")
        await there.offer(of_ledger("a"))
        await there.work(7_100_000)
        assert told(there) == []
        await there.work(130_000)
        assert told(there) == [("a", "firing")]
        await there.work(600_000)
        assert len(told(there)) == 1
        await there.offer(resolved("a", 8_000_000))
        assert told(there) == [("a", "firing"), ("a", "resolved")]

    run(scenario())


def test_one_that_is_over_before_the_silence_is_never_told() -> None:
    async def scenario() -> None:
        there = Office()
        silenced_until(there, UNTIL_MS)
        await there.offer(an_alert("a", silenced=True))
        await there.offer(resolved("a", 10_000))
        await there.work(8_000_000)
        assert told(there) == []

    run(scenario())


def test_what_a_row_does_not_say_may_be_what_the_silence_asks_for() -> None:
    """It is for a GPU type, which an alert's row lacks: it is withheld as long as the silence lasts."""

    async def scenario() -> None:
        there = Office()
        silenced_until(there, UNTIL_MS, gpu_type="H100")
        await there.offer(of_ledger("a"))
        await there.work(7_100_000)
        assert told(there) == []
        await there.work(130_000)
        assert told(there) == [("a", "firing")]

    run(scenario())


def test_the_next_process_sends_it_and_the_one_after_it_does_not_again() -> None:
    async def scenario() -> None:
        first = Office()
        silenced_until(first, UNTIL_MS)
        await first.offer(of_ledger("a"))
        first.clock.advance(7_300_000)
        for number in range(2):
            there = Office(store=first.store, clock=first.clock)
            silenced_until(there, UNTIL_MS)
            there.notifier.resume([3])
            await there.work(60_000)
            assert told(there) == [[("a", "firing")], []][number]

    run(scenario())


def test_of_a_job_the_judge_says_by_a_row_that_a_silence_is_over() -> None:
    """Whose figures are those of then; it has the same episode, and is another message."""

    async def scenario() -> None:
        there = Office()
        silenced_until(there, UNTIL_MS)
        await there.offer(an_alert("a", silenced=True))
        await there.work(8_000_000)
        assert told(there) == []
        await there.offer(an_alert("a", changed_ms=UNTIL_MS, summary="a burns more"))
        await there.work(60_000)
        assert told(there) == [("a", "firing")]
        await there.offer(resolved("a", 9_000_000))
        assert told(there) == [("a", "firing"), ("a", "resolved")]

    run(scenario())


def test_of_a_job_that_is_over_with_its_silence_nobody_is_told() -> None:
    async def scenario() -> None:
        there = Office()
        silenced_until(there, UNTIL_MS)
        await there.offer(an_alert("a", silenced=True))
        await there.work(8_000_000)
        await there.offer(resolved("a", 8_000_000))
        assert told(there) == []

    run(scenario())


def over(there: Office, **other: Any) -> Alert:
    return resolved("a", 20_000, **other)


def test_whoever_was_told_is_told_the_end_though_a_silence_covers_it() -> None:
    async def scenario() -> None:
        there = Office()
        await there.offer(an_alert("a"))
        await there.offer(over(there, silenced=True))
        assert told(there) == [("a", "firing"), ("a", "resolved")]

    run(scenario())


def test_whoever_was_told_is_told_the_end_though_the_job_has_another_owner() -> None:
    async def scenario() -> None:
        there = Office()
        await there.offer(an_alert("a"))
        await there.offer(over(there, owner="bob", project="q"))
        assert told(there) == [("a", "firing"), ("a", "resolved")]

    run(scenario())


def test_that_holds_in_the_next_process_too() -> None:
    async def scenario() -> None:
        first = Office()
        await first.offer(an_alert("a"))
        there = Office(store=first.store, clock=first.clock)
        there.notifier.resume([3])
        await there.work(60_000)
        await there.offer(over(there, owner="bob", silenced=True))
        assert told(there) == [("a", "resolved")]

    run(scenario())
