"""A cluster that hangs: alerts about its jobs are sent to nobody else once an incident tells of it, tickets after a longer wait."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.tables import JOBS
from streams.engine.alerts.alert import Alert
from streams.engine.rules.formatting import instant
from streams.engine.rules.shared_cause import cause_text
from tests.notify.scripted_sender import NOW_MS, SHARD, Office, an_alert, resolved, run
from tests.notify.test_incident_hold import CAUSE, NEVER_SENT, WAIT_MS, office, stalls
from tests.sinks.rows import rows


def in_cluster(there: Office, **clusters: str) -> None:
    """Jobs of these clusters, each of an owner of its own."""
    known = [
        {"job_id": name, "owner": name, "cluster": cluster, "state": "running"}
        for name, cluster in clusters.items()
    ]
    there.store.insert(JOBS, rows(JOBS, *known), "clusters")


def hangs(name: str = "c1", **other: Any) -> Alert:
    values: dict[str, Any] = {"rule": "incident", "subject_kind": "cluster", "started_ms": NOW_MS + 240_000}
    values["stood_ms"] = STOOD_MS
    return an_alert(
        name, **(values | {"alert_id": "al_hangs", "shared_cause": cause_text("standstill", name)} | other)
    )


TICKET_WAITS_MS = 36 * WAIT_MS
STOOD_MS = NOW_MS - 1_200_000


@pytest.mark.parametrize("rule", ["stalled", "idle_gpus"])
@pytest.mark.parametrize("cause", ["", CAUSE], ids=["of no cause", "of a sweep, too"])
def test_a_ticket_about_a_job_waits_for_the_incident_of_its_cluster(rule: str, cause: str) -> None:
    async def scenario() -> None:
        there = office()
        in_cluster(there, a="c1", b="c1", c="c1")
        since: dict[str, Any] = {"stood_ms": STOOD_MS + 299_000, "severity": "ticket", "shared_cause": cause}
        await there.offer(an_alert("a", rule=rule, **since))
        await there.work(TICKET_WAITS_MS - 60_000)
        there.keep(hangs())
        await there.work(60_000)
        await there.offer(resolved("a", rule=rule, **since))
        await there.work(WAIT_MS)
        assert there.sender.told == []
        assert {*there.rows("outcome", "detail")} == {(NEVER_SENT, "al_hangs tells of its cause")}

    run(scenario())


def test_a_long_wait_is_recorded_with_what_for_and_until_when_and_is_no_outcome() -> None:
    async def scenario() -> None:
        there = office()
        in_cluster(there, a="c1", b="c1", c="c1")
        await there.offer(an_alert("a", rule="stalled", stood_ms=STOOD_MS, severity="ticket"))
        until = instant(NOW_MS + TICKET_WAITS_MS)
        said = f"waits for others of its cause, until {until} at the latest"
        for _ in range(3):  # once, however often it is looked at
            assert there.rows("outcome", "detail") == [("waiting", said)]
            await there.work(60_000)
        next_life = office(store=there.store, clock=there.clock)
        next_life.notifier.resume({SHARD})
        await next_life.work()
        await next_life.work(TICKET_WAITS_MS)
        assert next_life.sender.told == [("a", "firing")], "a restart finds that it is owed"
        last_life = office(store=there.store, clock=there.clock)
        last_life.notifier.resume({SHARD})
        await last_life.work()
        await last_life.work(TICKET_WAITS_MS)
        assert last_life.sender.told == [], "and what was sent is settled"

    run(scenario())


def test_a_short_wait_is_recorded_by_nothing() -> None:
    async def scenario() -> None:
        there = office()
        await there.offer(an_alert("a", shared_cause=CAUSE))
        assert there.rows("outcome") == []

    run(scenario())


@pytest.mark.parametrize(
    "others",
    [
        {"b": "c1", "c": "c2"},
        {"b": "c1", "over": "c1"},
        {"b": "c1", "queued": "c1"},
    ],
    ids=["in another cluster", "ended", "not begun"],
)
def test_where_fewer_owners_have_jobs_than_an_incident_needs_it_waits_as_others_do(
    others: dict[str, str],
) -> None:
    async def scenario() -> None:
        there = office()
        in_cluster(
            there, a="c1", **{name: of for name, of in others.items() if name not in {"over", "queued"}}
        )
        for name, state in (("over", "completed"), ("queued", "queued")):
            if name in others:
                job = {"job_id": name, "owner": name, "cluster": others[name], "state": state}
                there.store.insert(JOBS, rows(JOBS, job), name)
        await there.offer(an_alert("a", rule="stalled", severity="ticket"))
        await there.work(WAIT_MS - 1)
        assert there.sender.told == []
        await there.work(1)
        assert there.sender.told == [("a", "firing")]

    run(scenario())


@pytest.mark.parametrize(
    ("incident", "alert"),
    [
        (hangs("c2"), {}),
        (hangs(), {"stood_ms": STOOD_MS + 301_000}),
        (hangs(), {"stood_ms": None}),
        (hangs(status="resolved", started_ms=NOW_MS - 900_000, resolved_ms=NOW_MS - 1), {}),
        (hangs(owner="nobody"), {}),
        (hangs(), {"rule": "straggler"}),
    ],
    ids=[
        "another cluster",
        "since later",
        "since when is not known",
        "over before",
        "nobody is told of it",
        "another rule",
    ],
)
def test_of_no_incident_of_its_cluster_it_is_sent(incident: Alert, alert: dict[str, Any]) -> None:
    async def scenario() -> None:
        there = office()
        in_cluster(there, a="c1", b="c1", c="c1")
        there.keep(incident)
        usual: dict[str, Any] = {"rule": "stalled", "severity": "ticket", "stood_ms": STOOD_MS}
        await there.offer(an_alert("a", **(usual | alert)))
        await there.work(TICKET_WAITS_MS)
        assert there.sender.told == [("a", "firing")]

    run(scenario())


def test_a_page_about_a_job_that_stands_still_waits_for_half_a_minute() -> None:
    async def scenario() -> None:
        there = office()
        in_cluster(there, a="c1", b="c1", c="c1")
        await there.offer(stalls())
        await there.work(3 * WAIT_MS - 1)
        assert there.sender.told == []
        await there.work(1)
        assert there.sender.told == [("a", "firing")]

    run(scenario())
