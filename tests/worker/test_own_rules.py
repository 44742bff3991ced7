"""Rules of one's own by SQL: what they find, what they may not do, and what becomes of one that fails."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from schemas.events import ControlEvent
from schemas.tables import ALERTS, JOB_HOURS, JOB_MINUTES, JOBS
from sinks.clickhouse import ClickHouseStore
from sinks.errors import QueryFailed
from streams.controls.file import read_controls_file
from streams.engine.alerts.alert import Alert
from streams.engine.alerts.controls import Controls
from streams.engine.alerts.own_rule_records import AT_MOST
from streams.engine.alerts.rows import alerts_table
from streams.engine.ledger_rules.own_rule_findings import SUBJECTS_AT_MOST
from streams.worker.ledger_judges.fleet_judge import FleetJudge
from streams.worker.ledger_judges.known_alerts import KnownAlerts
from streams.worker.ledger_judges.own_rules_judge import LIMITS, Ask, ConfinedQueries, OwnRulesJudge
from tests.cli.command import ROOT
from tests.docs.sections import section
from tests.logged import events, logged
from tests.sinks.rows import rows
from tests.sinks.stores import empty
from tests.worker.ledger_lab import HOUR_MS, MINUTE_MS, T0, at, opened

PLAIN = (
    "SELECT 'team' AS subject_kind, 'vision' AS subject_name, 5 AS usd_per_hour, 'x; do y' AS summary"
    " WHERE {from} < {to}"
)
Answer = Mapping[str, Sequence[object]]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseStore]:
    with opened(Path(tmp_path_factory.mktemp("own"))) as store:
        yield store


@pytest.fixture(scope="module")
def queries(shared: ClickHouseStore) -> Iterator[ConfinedQueries]:
    found = ConfinedQueries(shared)
    yield found
    found.close()


@pytest.fixture
def store(shared: ClickHouseStore) -> ClickHouseStore:
    empty(shared.target)
    return shared


class World:
    """One worker's memory, and what its rules by SQL find."""

    def __init__(self, store: ClickHouseStore, ask: Ask) -> None:
        self.store = store
        self.memory = KnownAlerts(store)
        self.own = OwnRulesJudge(store, self.memory, ask)
        self.judge = FleetJudge(store, self.memory)
        self.since_ms = T0
        self.version = 0

    def look(self, minutes: int, *controls: ControlEvent) -> list[Alert]:
        found = Controls.from_events(controls)
        assert found.faults == ()
        until_ms = self.since_ms + minutes * MINUTE_MS
        changes = self.judge.judge_own(self.own, found, self.since_ms, until_ms)
        self.memory.stored(changes)
        for alert in changes:
            self.version += 1
            self.store.insert(
                ALERTS, alerts_table([alert], 0, self.version), f"own:{id(self)}:{self.version}"
            )
        self.since_ms = until_ms
        return changes


def rule(name: str = "mine", sql: str = PLAIN, every: str = "5m", **more: Any) -> ControlEvent:
    return ControlEvent("t", name, 1, "rule", name, {"sql": sql, "every": every, **more})


def said(changes: Sequence[Alert]) -> list[tuple[str, str, str, int]]:
    """(rule, subject, status, minutes after T0)."""
    return [
        (each.rule, each.subject_name, each.status, (each.changed_ms - T0) // MINUTE_MS) for each in changes
    ]


def answering(*answers: Answer | Exception) -> Ask:
    left = list(answers)

    def ask(_: str) -> Answer:
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    return ask


def answer(*found: tuple[object, object, object, object], **more: Sequence[object]) -> Answer:
    names = ("subject_kind", "subject_name", "usd_per_hour", "summary")
    columns = list(zip(*found, strict=True)) or [(), (), (), ()]
    return {**dict(zip(names, columns, strict=True)), **more}


NOTHING = answer()
VISION = answer(("team", "vision", Decimal("7.5"), "vision burns; stop it"))


def test_who_waits_hears_how_many_instants_are_judged(store: ClickHouseStore) -> None:
    heard: list[tuple[str, int, int]] = []
    own = OwnRulesJudge(store, KnownAlerts(store), answering(NOTHING), lambda *each: heard.append(each))
    own.judge(Controls.from_events([rule()]), T0, T0 + 15 * MINUTE_MS)
    assert heard == [("sql/mine", 1, 3), ("sql/mine", 2, 3), ("sql/mine", 3, 3)]


def test_an_alert_fires_while_the_answer_has_its_subject(store: ClickHouseStore) -> None:
    there = World(store, answering(NOTHING, VISION, VISION, NOTHING))
    changes = there.look(20, rule(severity="page"))
    assert said(changes) == [("sql/mine", "vision", "firing", 10), ("sql/mine", "vision", "resolved", 20)]
    first, over = changes
    assert (first.severity, first.team, first.usd_nano_per_hour) == ("page", "vision", 7_500_000_000)
    assert first.summary == "vision burns; stop it"
    assert over.summary == "over after 10 min: vision burns"
    assert "toDateTime64('2026-01-01 10:05:00', 3, 'UTC')" in first.evidence_sql
    assert "toDateTime64('2026-01-01 10:10:00', 3, 'UTC')" in first.evidence_sql


def test_any_cut_of_the_minutes_finds_the_same(store: ClickHouseStore) -> None:
    def asked() -> Ask:
        return answering(NOTHING, VISION, VISION, NOTHING, VISION)

    whole = World(store, asked()).look(40, rule())
    empty(store.target)
    there = World(store, asked())
    parts = [change for minutes in (3, 2, 1, 9, 7, 1, 17) for change in there.look(minutes, rule())]
    assert parts == whole


def test_a_rule_that_fails_ends_nothing_and_is_counted_and_logged_once(
    store: ClickHouseStore, caplog: pytest.LogCaptureFixture
) -> None:
    gone = QueryFailed("the query ran longer than 10 s")
    there = World(store, answering(VISION, gone, gone, {"wrong": ()}, NOTHING))
    changes = there.look(25, rule())
    assert said(changes) == [("sql/mine", "vision", "firing", 5), ("sql/mine", "vision", "resolved", 25)]
    assert there.own.failed == {"mine": 3}
    assert [(each.rule, each.times) for each in there.own.failures()] == [("sql/mine", 3)]
    assert there.own.failures()[0].reason.startswith("the answer has no column subject_kind")
    reasons = [fields["reason"] for _, fields in events(caplog.records)]
    assert reasons == [
        str(gone),
        "the answer has no column subject_kind, expected subject_kind, subject_name, usd_per_hour, summary",
    ]


def test_one_that_is_switched_off_or_gone_ends_its_alerts(store: ClickHouseStore) -> None:
    for controls in ((), (rule(enabled=False),), (rule("other"),)):
        empty(store.target)
        there = World(store, answering(VISION))
        there.look(5, rule())
        ended = [each for each in there.look(5, *controls) if each.rule == "sql/mine"]
        assert said(ended) == [("sql/mine", "vision", "resolved", 6)]


def test_the_next_process_knows_what_fires(store: ClickHouseStore) -> None:
    World(store, answering(VISION)).look(5, rule())
    there = World(store, answering(NOTHING))
    there.since_ms = T0 + 5 * MINUTE_MS
    assert said(there.look(5, rule())) == [("sql/mine", "vision", "resolved", 10)]


def test_a_silence_of_it(store: ClickHouseStore) -> None:
    silence = ControlEvent("t", "s", 1, "silence", "s", {"rule": "sql/mine", "team": "vision"})
    (alert,) = World(store, answering(VISION)).look(5, rule(), silence)
    assert alert.silenced


def test_a_job_has_its_owner(store: ClickHouseStore) -> None:
    job = {"job_id": "j", "owner": "ada", "team": "vision", "state": "running", "started": at(T0), "shard": 0}
    store.insert(JOBS, rows(JOBS, {**job, "version": 1}), "own:jobs")
    found = answer(("job", "j", 1, "j is dear"), ("job", "unknown", 1, "x"))
    named, unknown = World(store, answering(found)).look(5, rule())
    assert (named.owner, named.team, unknown.owner) == ("ada", "vision", "")
    asked = World(store, answering({**answer(("job", "j", 1, "x")), "owner": ("eve",)}))
    asked.since_ms = T0 + HOUR_MS
    assert [each.owner for each in asked.look(5, rule("other")) if each.rule == "sql/other"] == ["eve"]


def test_of_ten_thousand_subjects_a_hundred_are_taken_those_with_most_dollars(
    store: ClickHouseStore, caplog: pytest.LogCaptureFixture
) -> None:
    many = answer(*(("node", f"n{number}", number, "x") for number in range(10_000)))
    there = World(store, answering(many))
    changes = there.look(5, rule())
    names = {each.subject_name for each in changes}
    assert names == {f"n{number}" for number in range(10_000 - SUBJECTS_AT_MOST, 10_000)}
    assert "9900 subjects beyond 100" in logged(caplog)


def test_a_sentence_of_somebody_else_is_one_short_line(store: ClickHouseStore) -> None:
    evil = "a\x00b\n\x1b[31mc\u202ed <!channel>" + "e" * 1_000
    (alert,) = World(store, answering(answer(("node", "n\u202e1", 1, evil)))).look(5, rule())
    assert len(alert.summary) <= 200
    assert not re.search(r"[\x00-\x1f\u202e]", alert.summary)


@pytest.mark.parametrize(
    "row",
    [
        ("meter", "m", 1, "x"), ("test", "m", 1, "x"), ("Job", "m", 1, "x"), ("a b", "m", 1, "x"), (1, "m", 1, "x"),
        ("node", "", 1, "x"), ("node", "n" * 257, 1, "x"), ("node", "a\0b", 1, "x"), ("node", None, 1, "x"),
        ("node", "n", float("nan"), "x"), ("node", "n", float("inf"), "x"), ("node", "n", "7", "x"), ("node", "n", True, "x"),
        ("node", "n", 1, " \n"), ("node", "n", 1, None),
    ],
    ids=str,
)  # fmt: skip
def test_a_row_that_says_nothing_is_left_out_and_the_others_stand(
    store: ClickHouseStore, row: tuple[object, object, object, object]
) -> None:
    there = World(store, answering(answer(row, ("node", "good", None, "x"))))
    assert [(each.subject_name, each.usd_nano_per_hour) for each in there.look(5, rule())] == [("good", 0)]
    assert there.own.failed == {"mine": 1}


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM file('/etc/passwd') WHERE {from} < {to}",
        "SELECT * FROM url('http://169.254.169.254/', 'RawBLOB') WHERE {from} < {to}",
        "SELECT name FROM system.users WHERE {from} < {to}",
        "SELECT * FROM remote('127.0.0.1', 'system.one') WHERE {from} < {to}",
        "INSERT INTO alerts SELECT * FROM alerts WHERE {from} < {to}",
        "DROP TABLE alerts -- {from} {to}",
        "SELECT 1; SELECT {from}, {to}",
        (
            "SELECT 'node' AS subject_kind, toString(number) AS subject_name, 1 AS usd_per_hour, 'x' AS summary"
            " FROM numbers(1000000000000) WHERE {from} < {to}"
        ),
        (
            "SELECT 'node' AS subject_kind, repeat('x', 1000000) AS subject_name, 1 AS usd_per_hour, 'x' AS summary"
            " FROM numbers(10000) WHERE {from} < {to}"
        ),
        (
            "SELECT 'node' AS subject_kind, sleepEachRow(3) AS subject_name, 1 AS usd_per_hour, 'x' AS summary"
            " FROM numbers(100) WHERE {from} < {to}"
        ),
        "nonsense {from} {to}",
    ],
    ids=lambda sql: sql[:40],
)
def test_hostile_statements_do_nothing_and_stop_nobody(
    store: ClickHouseStore, queries: ConfinedQueries, sql: str
) -> None:
    there = World(store, queries)
    changes = there.look(5, rule("evil", sql), rule("good"))
    assert said(changes) == [("sql/good", "vision", "firing", 5)]
    assert there.own.failed == {"evil": 1}


def test_one_that_takes_too_long_is_ended(store: ClickHouseStore) -> None:
    slow = ConfinedQueries(store, LIMITS.__class__(time_ms=1_000))
    forever = PLAIN.replace(
        "5 AS", "(SELECT count() FROM numbers(1000000000000) WHERE NOT ignore(number)) AS"
    )
    try:
        there = World(store, slow)
        assert there.look(5, rule(sql=forever)) == []
        assert there.own.failed == {"mine": 1}
    finally:
        slow.close()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"sql": "SELECT 1"}, "sql: {from} is not in it"),
        ({"sql": "SELECT {from}"}, "sql: {to} is not in it"),
        ({"sql": ""}, "sql: expected one statement"),
        ({"sql": "x" * 9_000}, "sql: longer than 8192 bytes"),
        ({"every": "1m"}, 'every: got "1m", expected a part of a day from 5m on'),
        ({"every": "7h"}, 'every: got "7h"'),
        ({"every": "2d"}, 'every: got "2d"'),
        ({"every": 5}, "every: got 5"),
        ({"severity": "loud"}, 'severity: got "loud"'),
        ({"enabled": "no"}, 'enabled: got "no"'),
        ({"thresholds": {}}, "thresholds: no such field"),
        ({"team": "vision"}, "team: no such field"),
    ],
    ids=str,
)
def test_a_record_without_effect_is_refused(fields: dict[str, Any], words: str) -> None:
    record = rule()
    value = {**record.value, **fields}
    faults = Controls.from_events([ControlEvent("t", "mine", 1, "rule", "mine", value)]).faults
    assert words in faults[0].detail


def test_names_and_numbers_of_rules_are_limited() -> None:
    (fault,) = Controls.from_events([rule("a/b")]).faults
    assert fault.detail.startswith('name: got "a/b"')
    many = Controls.from_events([rule(f"r{number:02}") for number in range(AT_MOST + 2)])
    assert len(many.own_rules) == AT_MOST
    assert [fault.name for fault in many.faults] == [f"r{AT_MOST}", f"r{AT_MOST + 1}"]


def examples() -> dict[str, ControlEvent]:
    """The rules of the page, as `trainfare apply` takes them."""
    page = section((ROOT / "docs/own_rules.md").read_text(), "Rules by SQL")
    (text,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    found = read_controls_file("page", text, "t", T0)
    assert found.faults == []
    return {record.event.name: record.event for record in found.records}


def test_the_examples_of_the_page_find_what_they_say(
    store: ClickHouseStore, queries: ConfinedQueries
) -> None:
    """Each has a subject, and one beside it that just fails to be one."""
    assert sorted(examples()) == ["dear-idle-gpus", "one-region", "team-day"]
    jobs = {"idle": "vision", "busy": "vision", "cheap": "nlp", "mover": "nlp"}
    found = [
        {"job_id": job, "team": team, "project": f"p-{job}", "owner": "ada", "state": "running", "started": at(T0), "shard": 0}
        for job, team in jobs.items()
    ]  # fmt: skip
    store.insert(JOBS, rows(JOBS, *({**row, "version": 1} for row in found)), "own:example-jobs")
    hours = [("idle", 101, 9), ("busy", 5_000, 90), ("cheap", 99, 0), ("mover", 1, 100)]
    put = [
        {
            "job_id": job, "attempt": 1, "hour": at(T0), "gpu_cost_usd": Decimal(usd), "shard": 0, "version": 1,
            "sampled_gpu_ms": 100, "productive_gpu_ms": productive,
        }
        for job, usd, productive in hours
    ]  # fmt: skip
    store.insert(JOB_HOURS, rows(JOB_HOURS, *put), "own:example-hours")
    minutes = [
        {
            "job_id": job, "attempt": 1, "minute": at(T0 + MINUTE_MS), "component": "network", "cost_usd": usd,
            "quantity": 1, "shard": 0, "version": 1, "sku": "x",
        }
        for job, usd in (("mover", Decimal("20.5")), ("cheap", Decimal("19.5")))
    ]  # fmt: skip
    store.insert(JOB_MINUTES, rows(JOB_MINUTES, *minutes), "own:example-minutes")
    there = World(store, queries)
    changes = there.look(14 * 60, *examples().values())
    assert there.own.failed == {}
    opened = [(each.rule, each.severity, each.subject_kind, each.subject_name, each.owner) for each in changes if each.status == "firing"]  # fmt: skip
    assert sorted(opened) == [
        ("sql/dear-idle-gpus", "ticket", "job", "idle", "ada"),
        ("sql/one-region", "ticket", "project", "p-mover", ""),
        ("sql/team-day", "page", "team", "vision", ""),
    ]
    sentences = {each.rule: each.summary for each in changes if each.status == "firing"}
    assert sentences == {
        "sql/dear-idle-gpus": "idle cost $101 in an hour, and used a tenth of its GPUs or less; shrink it",
        "sql/one-region": "project p-mover moved data for $20.5 in 15 min; keep it in one region",
        "sql/team-day": "team vision cost $5101 in a day; look at its largest jobs",
    }
    ended = {each.rule for each in changes if each.status == "resolved"}
    assert ended == {"sql/dear-idle-gpus", "sql/one-region"}
