"""One cause, one message: what an incident tells of is sent to nobody else, and everything else is sent after a short wait."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from schemas.tables import JOBS
from streams.engine.alerts.alert import Address, Alert
from streams.engine.rules.incident import operator_of
from streams.engine.rules.shared_cause import cause_text
from streams.notify.incident_hold import SURE_MS, IncidentSettings, wait_of
from tests.notify.scripted_sender import HOOK, NOW_MS, Office, Watched, an_alert, resolved, run
from tests.sinks.rows import rows

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
CAUSE = cause_text("silence", "c1", "p5")
WAIT_MS = 10_000
NEVER_SENT = "in_incident"


def office(jobs: int | None = 3, owner: str = "ada", *, names_prices: bool = True, **other: Any) -> Office:
    there = Office(**other)
    of = None if jobs is None else IncidentSettings(jobs, owner, names_prices)

    def incident_of(alert: Alert) -> IncidentSettings | None:
        operator_of(alert.shared_cause)  # as the worker does: it is asked only of alerts that have a cause
        return of

    there.notifier.look_up_incidents(incident_of)
    return there


def shared(name: str, **other: Any) -> Alert:
    return an_alert(name, shared_cause=CAUSE, **other)


def over(name: str, **other: Any) -> Alert:
    return resolved(name, shared_cause=CAUSE, **other)


def outcomes(there: Office) -> dict[tuple[str, str], str]:
    """The last outcome by subject and status."""
    names = {each.alert_id: each.subject_name for each in KNOWN}
    return {
        (names[alert_id], status): outcome
        for alert_id, status, outcome in there.rows("alert_id", "status", "outcome")
    }


KNOWN = [an_alert(name) for name in "abcd"]


def test_three_of_one_cause_are_sent_to_nobody_and_neither_are_their_ends() -> None:
    async def scenario() -> None:
        there = office()
        await there.offer(shared("a"), shared("b"), shared("c"))
        await there.work(WAIT_MS)
        await there.offer(over("a"))
        await there.work(WAIT_MS)
        assert there.sender.told == []
        assert set(outcomes(there).values()) == {NEVER_SENT}
        assert set(outcomes(there)) == {("a", "firing"), ("b", "firing"), ("c", "firing"), ("a", "resolved")}

    run(scenario())


def test_two_are_sent_when_they_have_waited() -> None:
    async def scenario() -> None:
        there = office()
        await there.offer(shared("a"), shared("b"))
        await there.work(WAIT_MS - 1)
        assert there.sender.told == []
        await there.work(1)
        assert there.sender.told == [("a", "firing"), ("b", "firing")]
        await there.offer(over("a"))
        assert there.sender.told[2:] == [("a", "resolved")], "an end waits for nobody"

    run(scenario())


RUN_CAUSE = cause_text("sweep", "burn_fast", "vision", "ada", "train")


def of_run(name: str, ago_min: int, **other: Any) -> Alert:
    started_ms = NOW_MS - ago_min * 60_000
    values: dict[str, Any] = {"alert_id": f"al_{name}", "shared_cause": RUN_CAUSE, "started_ms": started_ms}
    return an_alert(name, **(values | {"changed_ms": started_ms} | other))


def test_the_fourth_of_a_run_is_sent_to_nobody_as_the_incident_tells_of_it() -> None:
    async def scenario() -> None:
        there = office()
        there.keep(of_run("train-1", 150), of_run("train-2", 100), of_run("train-3", 40))
        await there.offer(of_run("train-4", 0))
        await there.work(WAIT_MS)
        assert there.sender.told == []
        assert there.rows("outcome", "detail") == [(NEVER_SENT, "one of 4 alerts of one run within 3 h")]
        incident = of_run("vision/ada/train", -1, rule="incident", subject_kind="run", alert_id="al_incident")
        there.keep(incident)
        await there.offer(of_run("train-5", -50))
        await there.offer(of_run("train-6", -50, owner="bob"))
        await there.work(WAIT_MS)
        later = there.rows("alert_id", "outcome")
        assert ("al_train-5", NEVER_SENT) in later
        assert ("al_train-6", "no_receiver") in later, "it waits for no incident of somebody else"

    run(scenario())


@pytest.mark.parametrize(
    "others",
    [
        [of_run("train-1", 181), of_run("train-2", 100), of_run("train-3", 40)],
        [of_run("train-2", 100), of_run("train-3", 40)],
        [of_run("train-1", 150, owner="bob"), of_run("train-2", 100), of_run("train-3", 40)],
    ],
)
def test_fewer_of_a_run_and_those_of_several_people_are_sent(others: list[Alert]) -> None:
    async def scenario() -> None:
        there = office()
        there.keep(*others)
        await there.offer(of_run("train-4", 0))
        await there.work(WAIT_MS)
        assert there.sender.told == [("train-4", "firing")]

    run(scenario())


def stalls(**other: Any) -> Alert:
    values: dict[str, Any] = {"rule": "stalled", "usd_nano_per_hour": 160 * 10**9}
    return an_alert("a", **(values | other))


def spins(name: str = "a", ago_ms: int = 3_600_000, over_ms: int | None = None, **other: Any) -> Alert:
    values: dict[str, Any] = {"alert_id": "al_spinning", "rule": "spinning", "started_ms": NOW_MS - ago_ms}
    values["usd_nano_per_hour"] = 79 * 10**9
    status = "firing" if over_ms is None else "resolved"
    return an_alert(name, status, **(values | {"resolved_ms": over_ms} | other))


def test_an_alert_is_inhibited_by_one_of_its_cause_about_the_same_job_and_so_is_its_end() -> None:
    async def scenario() -> None:
        there = office(jobs=None)
        there.keep(spins())
        await there.offer(stalls())
        await there.work(WAIT_MS)
        await there.work(SURE_MS)
        await there.offer(stalls(status="resolved", changed_ms=NOW_MS + 600_000))
        await there.work(WAIT_MS)
        assert there.sender.told == []
        assert set(outcomes(there)) == {("a", "firing"), ("a", "resolved")}
        assert set(outcomes(there).values()) == {NEVER_SENT}
        assert {detail for (detail,) in there.rows("detail")} == {"al_spinning tells of its cause"}

    run(scenario())


@pytest.mark.parametrize(
    "other",
    [
        spins("b"),
        spins(ago_ms=-1),
        spins(over_ms=NOW_MS),
        spins(severity="ticket"),
        spins(rule="inefficient"),
    ],
    ids=["another job", "later", "over before", "less severe", "another cause"],
)
def test_no_other_alert_inhibits_it(other: Alert) -> None:
    async def scenario() -> None:
        there = office(jobs=None)
        there.keep(other)
        await there.offer(stalls())
        await there.work(WAIT_MS)
        assert there.sender.told == [("a", "firing")]

    run(scenario())


def test_a_page_beside_a_ticket_that_names_half_of_its_dollars_is_not_sent() -> None:
    async def scenario() -> None:
        there = office(jobs=None)
        there.keep(spins(rule="straggler", severity="ticket", usd_nano_per_hour=98 * 10**9))
        await there.offer(stalls(rule="slow_progress"))
        await there.work(WAIT_MS)
        await there.work(SURE_MS)
        assert there.sender.told == []

    run(scenario())


@pytest.mark.parametrize(("usd", "is_sent"), [(20, False), (11, False), (9, True)])
def test_nodes_that_are_most_of_what_is_unused_are_not_sent_beside_that(usd: int, is_sent: bool) -> None:
    async def scenario() -> None:
        there = office(jobs=None)
        unused: dict[str, Any] = {"alert_id": "al_unused", "rule": "unallocated", "subject_kind": "fleet"}
        unused |= {"started_ms": NOW_MS - 3_600_000, "usd_nano_per_hour": 20 * 10**9}
        there.keep(an_alert("nodes", **unused))
        about: dict[str, Any] = {"rule": "forgotten_node", "subject_kind": "node_group"}
        await there.offer(an_alert("c1/p5", **about, usd_nano_per_hour=usd * 10**9))
        await there.work(WAIT_MS)
        await there.work(SURE_MS)
        assert there.sender.told == ([("c1/p5", "firing")] if is_sent else [])

    run(scenario())


def retries(**other: Any) -> Alert:
    return an_alert("train-3", rule="retry_loop", usd_nano_per_hour=100 * 10**9, **other)


def resubmits(name: str = "train-2", ago_ms: int = 600_000, **other: Any) -> Alert:
    values: dict[str, Any] = {"alert_id": "al_resubmits", "rule": "resubmit_loop"}
    return an_alert(name, **(values | {"started_ms": NOW_MS - ago_ms} | other))


def of_a_run(there: Office, **jobs: dict[str, Any]) -> None:
    """Jobs of one owner and run, but for what is said otherwise."""
    about = {"owner": "ada", "team": "vision", "run_id": "llama", "version": 1}
    found = [{"job_id": name.replace("_", "-"), **about, **each} for name, each in jobs.items()]
    there.store.insert(JOBS, rows(JOBS, *found), "jobs")


def test_a_retry_loop_of_a_job_whose_run_an_alert_tells_of_is_sent_to_nobody() -> None:
    async def scenario() -> None:
        there = office(jobs=None)
        of_a_run(there, train_2={}, train_3={})
        there.keep(resubmits())
        await there.offer(retries())
        await there.work(3 * WAIT_MS)
        await there.work(SURE_MS)
        assert there.sender.told == []
        assert set(there.rows("outcome", "detail")) == {(NEVER_SENT, "al_resubmits tells of its cause")}

    run(scenario())


@pytest.mark.parametrize(
    ("other", "job"),
    [
        (resubmits(), {"run_id": "gpt"}),
        (resubmits(), {"team": "nlp"}),
        (resubmits(), {"labels": {"slurm_array_job_id": "7"}}),
        (resubmits(ago_ms=-1), {}),
        (resubmits(status="resolved", resolved_ms=NOW_MS - 1), {}),
        (resubmits(severity="ticket", usd_nano_per_hour=10**9), {}),
        (resubmits(owner="eve"), {}),
        (resubmits(rule="burn_fast"), {}),
    ],
    ids=[
        "another run",
        "another team",
        "no run",
        "later",
        "over",
        "less severe",
        "another's",
        "another cause",
    ],
)
def test_of_another_run_or_time_it_is_sent(other: Alert, job: dict[str, Any]) -> None:
    async def scenario() -> None:
        there = office(jobs=None)
        of_a_run(there, train_2={}, train_3=job)
        there.keep(other)
        await there.offer(retries())
        await there.work(3 * WAIT_MS)
        assert there.sender.told == [("train-3", "firing")]

    run(scenario())


def test_an_inhibiting_alert_that_turns_out_to_have_ended_before_inhibits_nothing() -> None:
    """Rules on the ledger are judged later than those of jobs: their ends are stored later, too."""

    async def scenario() -> None:
        there = office(jobs=None)
        there.keep(spins())
        await there.offer(stalls())
        await there.work(WAIT_MS)
        assert there.sender.told == []
        await there.offer(stalls(status="resolved", changed_ms=NOW_MS + 300_000))
        assert there.sender.told == []
        there.keep(spins(over_ms=NOW_MS - 1, changed_ms=NOW_MS + 1))
        await there.work(SURE_MS)
        assert there.sender.told == [("a", "firing"), ("a", "resolved")]

    run(scenario())


@pytest.mark.parametrize(
    ("wait_ms", "waits_ms"), [(0, 0), (5_000, 15_000), (10_000, 30_000), (30_000, 30_000)]
)
def test_what_a_rule_by_the_minute_may_tell_of_waits_until_that_is_judged(
    wait_ms: int, waits_ms: int
) -> None:
    assert wait_of(an_alert(shared_cause=cause_text("price", "h100")), wait_ms) == waits_ms
    assert wait_of(retries(), wait_ms) == waits_ms
    assert (
        wait_of(shared("a"), wait_ms)
        == wait_of(an_alert(), wait_ms)
        == wait_of(stalls(), wait_ms, for_cluster=False)
        == wait_ms
    )
    assert wait_of(stalls(), wait_ms) == waits_ms
    assert wait_of(stalls(severity="ticket"), wait_ms) == 36 * wait_ms


def test_a_retry_loop_waits_for_an_alert_about_its_run_that_is_stored_later() -> None:
    """`resubmit_loop` is judged at whole minutes, once they are stored; `retry_loop` at each tick."""

    async def scenario() -> None:
        there = office(jobs=None)
        of_a_run(there, train_2={}, train_3={})
        await there.offer(retries())
        await there.work(2 * WAIT_MS)
        there.keep(resubmits(ago_ms=20_000))
        await there.work(WAIT_MS)
        await there.work(SURE_MS)
        assert there.sender.told == []

    run(scenario())


def test_an_end_waits_behind_its_beginning() -> None:
    async def scenario() -> None:
        there = office()
        await there.offer(shared("a"))
        await there.offer(over("a", after_ms=5_000))
        assert there.sender.told == []
        await there.work(WAIT_MS)
        assert there.sender.told == [("a", "firing"), ("a", "resolved")]

    run(scenario())


def test_the_third_may_come_while_the_first_wait_and_from_another_worker() -> None:
    async def scenario() -> None:
        there = office()
        await there.offer(shared("a"))
        await there.offer(shared("b"))
        there.keep(shared("c"))
        await there.work(4_000)
        assert set(outcomes(there).values()) == {NEVER_SENT}
        await there.work(WAIT_MS)
        assert there.sender.told == []

    run(scenario())


def test_who_was_told_before_the_third_came_is_told_of_the_end() -> None:
    async def scenario() -> None:
        there = office()
        await there.offer(shared("a"), shared("b"))
        await there.work(WAIT_MS)
        await there.offer(shared("c"))
        await there.work(WAIT_MS)
        assert there.sender.told == [("a", "firing"), ("b", "firing")]
        await there.offer(over("a"), over("b"), over("c"))
        await there.work(WAIT_MS)
        assert there.sender.told[2:] == [("a", "resolved"), ("b", "resolved")]

    run(scenario())


@pytest.mark.parametrize("apart_ms", [0, 119_000, 121_000])
def test_what_opens_at_another_time_is_no_part_of_it(apart_ms: int) -> None:
    """Those of a whole minute and the one before it are of one time: what the rule does not open, must be sent."""

    async def scenario() -> None:
        there = office()
        first_ms = NOW_MS // 60_000 * 60_000 - 300_000
        at = [first_ms, first_ms + 1_000, first_ms + apart_ms]
        await there.offer(*(shared(name, started_ms=ms) for name, ms in zip("abc", at, strict=True)))
        await there.work(WAIT_MS)
        assert len(there.sender.told) == (3 if apart_ms > 119_000 else 0)

    run(scenario())


def test_a_price_that_was_told_of_explains_a_single_burn_for_a_day_and_an_incident_while_it_lasts() -> None:
    async def scenario(rule: str, ago_ms: int, over_ms: int | None) -> list[tuple[str, str]]:
        there = office()
        began_ms = NOW_MS - ago_ms
        there.keep(
            shared(
                "sku",
                rule=rule,
                subject_kind="sku",
                started_ms=began_ms,
                resolved_ms=over_ms,
                held_ms=began_ms,
            )
        )
        await there.offer(shared("a", started_ms=NOW_MS))
        await there.work(WAIT_MS)
        return there.sender.told

    hour_ms = 3_600_000
    assert run(scenario("price_jump", 23 * hour_ms, NOW_MS - 22 * hour_ms)) == []
    assert run(scenario("price_jump", 25 * hour_ms, NOW_MS - 24 * hour_ms)) == [("a", "firing")]
    assert run(scenario("incident", hour_ms, None)) == []
    assert run(scenario("incident", hour_ms, NOW_MS - 1_000)) == [("a", "firing")]


@pytest.mark.parametrize(("jobs", "owner"), [(None, "ada"), (3, "nobody"), (4, "ada")])
def test_where_nobody_is_told_of_the_incident_everybody_is(jobs: int | None, owner: str) -> None:
    """The rule is off, its receiver has no address, or it wants more jobs."""

    async def scenario() -> None:
        there = office(jobs, owner)
        await there.offer(shared("a"), shared("b"), shared("c"))
        await there.work(WAIT_MS)
        assert len(there.sender.told) == 3

    run(scenario())


def test_the_next_process_neither_sends_it_nor_holds_it_again() -> None:
    async def scenario() -> None:
        first = office()
        await first.offer(shared("a"), shared("b"), shared("c"))
        await first.work(WAIT_MS)
        await first.notifier.stop()
        there = office(store=first.store, clock=first.clock)
        there.notifier.resume([3])
        await there.work(60_000)
        assert (there.sender.told, there.notifier.waiting) == ([], 0)
        await there.offer(over("a"))
        await there.work(WAIT_MS)
        assert there.sender.told == []

    run(scenario())


def test_a_process_that_stops_leaves_what_it_holds_to_the_next() -> None:
    async def scenario() -> None:
        first = office()
        await first.offer(shared("a"))
        await first.notifier.stop()
        there = office(store=first.store, clock=first.clock)
        there.notifier.resume([3])
        await there.work()
        await there.work(WAIT_MS)
        assert there.sender.told == [("a", "firing")]

    run(scenario())


def test_a_shard_that_is_released_takes_what_is_held_with_it() -> None:
    async def scenario() -> None:
        there = office()
        await there.offer(shared("a"))
        there.notifier.release([3])
        await there.work(WAIT_MS)
        assert (there.sender.told, there.notifier.waiting) == ([], 0)

    run(scenario())


def test_what_is_looked_up_still_waits_and_may_be_released_meanwhile() -> None:
    """A drain that did not count it would end before it is sent; a former owner must not send it."""

    async def scenario() -> None:
        waited = list[int]()

        def look(table: str, columns: Sequence[str] | None) -> None:
            if columns is not None and "shared_cause" in columns:
                waited.append(there.notifier.waiting)
                if len(waited) == 2:
                    there.notifier.release([3])

        there = office(store=Watched(look))
        await there.offer(shared("a"))
        await there.work(WAIT_MS)
        assert waited == [1, 1]
        assert there.sender.told == []

    run(scenario())


def test_people_read_of_it_alone_as_well() -> None:
    async def scenario() -> None:
        there = office(addresses=[Address("slack", HOOK)])
        await there.offer(shared("a"), shared("b"), shared("c"))
        await there.work(WAIT_MS)
        await there.work(WAIT_MS)
        assert there.sender.sent == []

    run(scenario())
