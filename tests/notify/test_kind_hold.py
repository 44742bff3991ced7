"""What is usual for a job's kind is sent to nobody until it is beyond that; all else is sent at once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from schemas.control_table import CONTROLS
from schemas.tables import ALERTS, BURN_RATES, JOB_HOURS, JOB_MINUTES, JOBS
from sinks.clickhouse import ClickHouseStore
from sinks.errors import QueryFailed
from sinks.rows import Condition, Rows
from streams.engine.alerts.alert import Alert
from streams.engine.alerts.rows import alerts_table
from streams.notify.incident_hold import IncidentSettings
from streams.notify.kind_figures import KindFigures
from streams.notify.kind_hold import LOOK_MS
from tests.memory_store import MemoryStore
from tests.notify.scripted_sender import BUSY, HOOK, NOW_MS, OK, Office, Watched, an_alert, run
from tests.sinks.rows import rows
from tests.sinks.stores import empty
from tests.worker.ledger_lab import at, opened

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
MINUTE_MS = 60_000
EARLIER = 6
#: For how long alerts wait for others of their cause.
WAIT_MS = 10_000


def put(store: Rows, table: str, *values: dict[str, Any]) -> None:
    found = rows(table, *({"version": 1, **each} for each in values))
    store.insert(table, found, f"{table}{len(str(values))}{values[0]}")


def history(store: Rows, **hour: Any) -> None:
    """Six completed jobs of the kind, one a day, each of an hour of $80 and one of $200; and the job that runs."""
    jobs = [{"job_id": "train-9", "team": "vision", "state": "running", "started": at(NOW_MS - HOUR_MS)}]
    hours, alerts = [], []
    for number in range(EARLIER):
        job_id, ended_ms = f"train-{number}", NOW_MS - (number + 2) * DAY_MS
        jobs.append({"job_id": job_id, "team": "vision", "state": "completed", "ended": at(ended_ms)})
        for ago, gpu in ((2, 80), (1, 200)):
            cost = {"gpu_cost_usd": Decimal(gpu), "network_cost_usd": Decimal(140), **hour}
            begin = ended_ms // HOUR_MS * HOUR_MS - ago * HOUR_MS
            hours.append({"job_id": job_id, "hour": at(begin), "wall_clock_ms": HOUR_MS, **cost})
        alerts.append(
            an_alert(job_id, "resolved", ended_ms, rule="idle_gpus", alert_id=f"al_{number}",
                     started_ms=ended_ms - 30 * MINUTE_MS)
        )  # fmt: skip
    put(store, JOBS, *jobs)
    put(store, JOB_HOURS, *hours)
    store.insert(ALERTS, alerts_table(alerts, 0, 1), "idle")


def burn(name: str = "train-9", pays: int = 200, **other: Any) -> Alert:
    rates: dict[str, Any] = {"opened_nano_per_hour": pays * 10**9, "expected_nano_per_hour": 80 * 10**9}
    return an_alert(name, **(rates | other))


def ends(of: Alert, after_ms: int) -> Alert:
    over: dict[str, Any] = {"status": "resolved", "changed_ms": NOW_MS + after_ms}
    fields = {name: getattr(of, name) for name in of.__struct_fields__}
    return Alert(**(fields | over | {"resolved_ms": NOW_MS + after_ms}))


def traffic(pays: int = 140) -> Alert:
    return an_alert("train-9", rule="traffic", cost_nano=pays * 10**9, alert_id="al_traffic")


def idles() -> Alert:
    return an_alert("train-9", rule="idle_gpus", alert_id="al_idles")


def pays(store: Rows, after_ms: int, amount: int) -> None:
    """A stored tick of the job."""
    put(
        store,
        BURN_RATES,
        {"job_id": "train-9", "time": at(NOW_MS + after_ms), "usd_per_hour_now": Decimal(amount)},
    )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseStore]:
    with opened(Path(tmp_path_factory.mktemp("kinds"))) as store:
        history(store)
        yield store


@pytest.mark.parametrize(
    ("alert", "usual", "of"),
    [
        (burn(), 200 * 10**9, "rate"),
        (traffic(), 140 * 10**9, "traffic"),
        (idles(), 30 * MINUTE_MS, "length"),
    ],
    ids=["burn", "traffic", "idle"],
)
def test_the_real_store_says_what_the_kind_reached(
    server: ClickHouseStore, alert: Alert, usual: int, of: str
) -> None:
    (found,) = KindFigures(server).usual([alert])
    assert found is not None
    assert (found.usual, found.kind, len(found.reached)) == (usual, of, EARLIER)


def test_lengths_are_those_of_the_same_rule(server: ClickHouseStore) -> None:
    slow = an_alert("train-9", rule="slow_progress", alert_id="al_slow")
    idle, other = KindFigures(server).usual([idles(), slow])
    assert idle is not None
    assert idle.usual == 30 * MINUTE_MS
    assert other is None, "no job of its kind was ever slow"


def rule(
    name: str, minute: int, ratio: float | None, rule: str = "burn_fast", **match: str
) -> dict[str, Any]:
    """A row of a record that sets what is usual; the offset is the minute."""
    thresholds = {} if ratio is None else {"usual_ratio": ratio}
    value = {"rule": rule, "thresholds": thresholds, "match": match}
    about = {"kind": "rule", "name": name, "value": json.dumps(value)}
    return {**about, "offset": minute, "time": at(NOW_MS - HOUR_MS + minute * MINUTE_MS)}


STAGE = {"label.stage": "eval"}


@pytest.mark.parametrize(
    ("records", "limit"),
    [
        ([rule("off", 1, 0, team="vision")], -1),
        ([rule("wide", 1, 2.5)], 500),
        ([rule("other", 1, 0, team="nlp"), rule("idle", 2, 0, "idle_gpus")], 240),
        ([rule("all", 1, 0), rule("stage", 2, 3, **STAGE)], 600),
        ([rule("again", 1, 0), rule("again", 2, None)], 240),
        ([rule("gone", 1, 0), rule("gone", 2, None) | {"value": "", "removed": True}], 240),
        ([rule("late", 61, 0)], 240),  # it opened before
        ([rule("wrong", 1, 200)], 240),  # has no effect
    ],
    ids=["off", "wide", "others", "narrower", "replaced", "removed", "later", "refused"],
)
def test_records_of_rules_say_up_to_where_a_figure_is_usual(
    server: ClickHouseStore, records: list[dict[str, Any]], limit: int
) -> None:
    empty(server.target)
    history(server)
    put(server, JOBS, {"job_id": "train-9", "team": "vision", "labels": [("stage", "eval")], "version": 2})
    put(server, CONTROLS, *records)
    (found,) = KindFigures(server).usual([burn()])
    assert found is not None
    assert found.limit == limit * 10**9 if limit > 0 else found.limit == -1


def test_a_rule_that_says_that_nothing_is_usual_is_sent_at_once() -> None:
    async def scenario() -> None:
        there = Office()
        history(there.store)
        put(there.store, CONTROLS, rule("off", 1, 0, team="vision"))
        await there.offer(burn(), idles())
        await there.work()
        assert there.rows("alert_id", "outcome") == [("al_idles", "usual"), (burn().alert_id, "delivered")]

    run(scenario())


@pytest.mark.parametrize("alert", [burn(), traffic(), idles()], ids=["burn", "traffic", "idle"])
def test_what_is_usual_is_sent_to_nobody_and_neither_is_its_end(alert: Alert) -> None:
    async def scenario() -> None:
        there = Office()
        history(there.store)
        await there.offer(alert)
        pays(there.store, 5 * MINUTE_MS, 200)
        await there.work(5 * MINUTE_MS)
        await there.offer(ends(alert, 10 * MINUTE_MS))
        assert there.sender.told == []
        assert there.rows("status", "outcome") == [("firing", "usual"), ("resolved", "usual")]
        assert all("usual for jobs named train: 6 of the last 6" in said for (said,) in there.rows("detail"))
        assert there.notifier.waiting == 0

    run(scenario())


@pytest.mark.parametrize(
    ("alert", "said"),
    [(burn(pays=241), "burn"), (traffic(pays=169), "traffic"), (burn("other-1"), "another kind")],
    ids=["a burn", "traffic", "another kind"],
)
def test_what_is_beyond_is_sent_at_once(alert: Alert, said: str) -> None:
    async def scenario() -> None:
        there = Office()
        history(there.store)
        await there.offer(alert)
        assert there.sender.told == [(alert.subject_name, "firing")], said

    run(scenario())


def test_a_job_that_began_at_another_rate_is_of_another_size() -> None:
    async def scenario() -> None:
        there = Office()
        history(there.store)
        await there.offer(burn(expected_nano_per_hour=39 * 10**9))
        assert there.sender.told == [("train-9", "firing")]

    run(scenario())


def test_it_is_sent_once_it_goes_beyond_and_so_is_its_end() -> None:
    async def scenario() -> None:
        there = Office()
        history(there.store)
        await there.offer(burn())
        pays(there.store, 5 * MINUTE_MS, 240)
        await there.work(LOOK_MS)
        assert there.sender.told == []
        pays(there.store, 6 * MINUTE_MS, 241)
        await there.work(LOOK_MS - 1)
        assert there.sender.told == [], "it is looked at again after a while"
        await there.work(1)
        assert there.sender.told == [("train-9", "firing")]
        await there.work(10 * LOOK_MS)
        await there.offer(ends(burn(), 10 * MINUTE_MS))
        assert there.sender.told[1:] == [("train-9", "resolved")]

    run(scenario())


def test_an_idle_that_lasts_far_longer_is_sent() -> None:
    async def scenario() -> None:
        there = Office()
        history(there.store)
        await there.offer(idles())
        for minute in (45, 46, 47):  # 1.2 x 30 min, and 10 min
            pays(there.store, minute * MINUTE_MS, 80)
            await there.work(LOOK_MS)
            await there.work(WAIT_MS)  # a `straggler` may tell of its cause
            assert bool(there.sender.told) == (minute > 46)

    run(scenario())


def test_traffic_of_the_hour_before_goes_beyond() -> None:
    async def scenario() -> None:
        there = Office()
        history(there.store)
        await there.offer(traffic())
        flow = {"job_id": "train-9", "component": "network", "unit": "bytes", "quantity": 1}
        minutes = [
            {**flow, "minute": at(NOW_MS + minute * MINUTE_MS), "cost_usd": Decimal(3)}
            for minute in range(-60, 60)
        ]
        put(there.store, JOB_MINUTES, *minutes)
        pays(there.store, 0, 1)
        await there.work(LOOK_MS)
        assert there.sender.told == []
        pays(there.store, MINUTE_MS, 1)
        await there.work(LOOK_MS)
        assert there.sender.told == [("train-9", "firing")]

    run(scenario())


def test_the_next_process_looks_on_and_sends_nothing_twice() -> None:
    async def scenario() -> None:
        first = Office()
        history(first.store)
        await first.offer(burn())
        await first.notifier.stop()
        there = Office(store=first.store, clock=first.clock)
        there.notifier.resume([3])
        await there.work(LOOK_MS)
        assert there.sender.told == []
        pays(there.store, MINUTE_MS, 300)
        await there.work(LOOK_MS)
        assert there.sender.told == [("train-9", "firing")]
        await there.notifier.stop()
        last = Office(store=first.store, clock=first.clock)
        last.notifier.resume([3])
        await last.work(LOOK_MS)
        assert last.sender.told == []

    run(scenario())


def test_a_silence_covers_what_goes_beyond_while_it_lasts() -> None:
    async def scenario() -> None:
        there = Office()
        history(there.store)
        silenced = {True}
        there.notifier.look_up_silenced(lambda _: True in silenced)
        await there.offer(burn())
        pays(there.store, MINUTE_MS, 300)
        await there.work(LOOK_MS)
        assert there.sender.told == []
        silenced.clear()
        pays(there.store, 2 * MINUTE_MS, 300)
        await there.work(LOOK_MS)
        assert there.sender.told == [("train-9", "firing")]

    run(scenario())


def test_a_store_that_does_not_answer_withholds_nothing() -> None:
    async def scenario() -> None:
        def look(table: str, columns: Sequence[str] | None) -> None:
            if table == JOBS:
                raise QueryFailed("not now")

        there = Office(store=Watched(look))
        await there.offer(burn())
        assert there.sender.told == [("train-9", "firing")]
        assert there.notifier.faults.counts["read_alerts"]

    run(scenario())


def test_what_was_withheld_waits_for_a_store_that_does_not_answer_for_a_while() -> None:
    async def scenario() -> None:
        refused = set[str]()

        def look(table: str, columns: Sequence[str] | None) -> None:
            if table in refused:
                raise QueryFailed("not now")

        there = Office(store=Watched(look))
        history(there.store)
        await there.offer(burn())
        refused.add(BURN_RATES)
        await there.work(LOOK_MS)
        assert there.sender.told == []
        refused.clear()
        pays(there.store, MINUTE_MS, 300)
        await there.work(LOOK_MS)
        assert there.sender.told == [("train-9", "firing")]

    run(scenario())


def test_a_shard_that_is_released_takes_what_is_withheld_with_it() -> None:
    async def scenario() -> None:
        there = Office()
        history(there.store)
        await there.offer(burn())
        there.notifier.release([3])
        pays(there.store, MINUTE_MS, 300)
        await there.work(LOOK_MS)
        assert there.sender.told == []

    run(scenario())


@pytest.mark.parametrize(
    "change",
    [
        {"state": "failed"},
        {"state": "cancelled"},
        {"team": "nlp"},
        {"ended": at(NOW_MS - 91 * DAY_MS)},
        {"ended": at(NOW_MS)},
    ],
    ids=["failed", "cancelled", "another team", "long ago", "of the same day"],
)
def test_other_jobs_are_no_history(change: dict[str, Any]) -> None:
    store = MemoryStore()
    history(store)
    put(store, JOBS, *(
        {"job_id": f"train-{number}", "team": "vision", "state": "completed", "ended": at(NOW_MS - 2 * DAY_MS),
         "version": 2, **change}
        for number in range(2)
    ))  # fmt: skip
    assert KindFigures(store).usual([burn(), traffic(), idles()]) == [None, None, None]


class Watching(MemoryStore):
    """Remembers which jobs' hours were asked for, and how often completed jobs were."""

    def __init__(self) -> None:
        super().__init__()
        self.hours: list[str] = []
        self.looks = 0

    def select(
        self,
        table: str,
        where: Sequence[Condition] = (),
        columns: Sequence[str] | None = None,
        *,
        limit: int | None = None,
    ) -> pa.Table:
        if table == JOB_HOURS:
            self.hours += cast("Sequence[str]", where[0].value)
        self.looks += table == JOBS and where[0].column == "state"
        return super().select(table, where, columns, limit=limit)


def test_alerts_of_many_days_read_each_job_once() -> None:
    store = Watching()
    history(store)
    days = [
        burn(alert_id=f"al_{day}", started_ms=NOW_MS + day * DAY_MS, changed_ms=NOW_MS + day * DAY_MS)
        for day in (0, 1, 30, 88, 89, 95)
    ]
    each = [KindFigures(store).usual([alert])[0] for alert in days]
    assert [None if found is None else len(found.reached) for found in each] != [EARLIER] * len(days)
    store.hours, store.looks = [], 0
    assert KindFigures(store).usual(days) == each
    assert len(store.hours) == len(set(store.hours)) == EARLIER
    assert store.looks == 1


def test_an_experiment_is_narrower_than_a_name() -> None:
    store = MemoryStore()
    history(store)
    about = {"team": "vision", "experiment": "llama", "version": 3}
    put(store, JOBS, {**about, "job_id": "train-9", "state": "running"}, *(
        {**about, "job_id": f"sft-{number}", "state": "completed", "ended": at(NOW_MS - (number + 2) * DAY_MS)}
        for number in range(5)
    ))  # fmt: skip
    assert KindFigures(store).usual([traffic()]) == [None], "five of its experiment had no traffic"


def trials(there: Office, count: int, **other: Any) -> list[Alert]:
    """Alerts of one cause about jobs of the kind, at one time; the first one may be other than the rest."""
    about = {"team": "vision", "state": "running", "started": at(NOW_MS - HOUR_MS)}
    put(there.store, JOBS, *({**about, "job_id": f"train-{10 + number}"} for number in range(count)))
    there.notifier.look_up_incidents(lambda _: IncidentSettings(3, "ada"))
    found = []
    for number in range(count):
        more: dict[str, Any] = {"shared_cause": '["sweep","x"]', "alert_id": f"al_trial_{number}"}
        found.append(burn(f"train-{10 + number}", **(more | (other if number == 0 else {}))))
    return found


def test_alerts_of_one_cause_that_are_usual_are_withheld_each_by_itself() -> None:
    async def scenario() -> None:
        there = Office()
        history(there.store)
        await there.offer(*trials(there, 3))
        await there.work(WAIT_MS)
        assert there.sender.told == []
        assert there.rows("outcome") == [("usual",)] * 3

    run(scenario())


def test_the_incident_tells_of_one_that_is_beyond_at_once_or_later() -> None:
    """It is raised from one for the digest to one that is sent."""

    async def scenario() -> None:
        there = Office()
        history(there.store)
        await there.offer(*trials(there, 3, opened_nano_per_hour=300 * 10**9))
        await there.work(WAIT_MS)
        assert sorted(there.rows("outcome")) == [("in_incident",), ("usual",), ("usual",)]
        tick = {"job_id": "train-11", "time": at(NOW_MS + MINUTE_MS), "usd_per_hour_now": Decimal(300)}
        put(there.store, BURN_RATES, tick)
        await there.work(LOOK_MS)
        await there.work(WAIT_MS)
        assert there.sender.told == []
        assert sorted(there.rows("outcome")) == [("in_incident",), ("in_incident",), ("usual",)]

    run(scenario())


def test_an_end_follows_its_beginning_whatever_is_usual_of_the_end() -> None:
    """What is expected of a job as it ends may be other than when it began."""

    async def scenario() -> None:
        there = Office(script={HOOK: [BUSY, OK]})
        history(there.store)
        beyond = burn(pays=300)
        await there.offer(beyond)
        over = ends(burn(pays=200), 10_000)
        await there.offer(over)
        await there.work(60_000)
        assert ("train-9", "resolved") in there.sender.told

    run(scenario())
