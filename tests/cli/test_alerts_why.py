"""`trainfare alerts why` on a replayed log: distances, what kept a message back, unknown ids and instants."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from schemas.control_table import CONTROLS
from schemas.tables import DELIVERIES
from sinks.clickhouse import ClickHouseStore, Embedded
from streams.explain.why.judged import JudgedJob, judged
from tests.cli.command import trainfare
from tests.web.live import at, delivery, put
from tests.web.serving import Client, served

T0_MS = 1_772_323_200_000  # 2026-03-01 00:00:00 UTC
MINUTE_MS = 60_000
_ids = iter(range(10**6))


def event(topic: str, minute: float, **value: object) -> str:
    body = {"source": "t", "id": str(next(_ids)), "time_ms": T0_MS + round(minute * MINUTE_MS), **value}
    return json.dumps({"topic": topic, "value": body}) + "\n"


#: Ten dollars an hour are expected of each job. From minute 60 on `hot` costs eighty, `quiet` as well, but it is silenced,
#: and `calm` costs twelve. `hot` is acknowledged at minute 80. `late` has cost eighty since minute 0, which nobody knew before.
LINES = [
    event("prices", 0, sku="g", component="gpu", usd="10", per="gpu_hour", effective_ms=0),
    event(
        "controls",
        0,
        kind="rule",
        name="long",
        rule="runaway_length",
        job_id="calm",
        thresholds={"hours": 100},
    ),
    event("controls", 0, kind="owner", name="ada", webhook="https://hooks.example/a", escalate=["grace"]),
    event("controls", 0, kind="silence", name="night", job_id="quiet", by="web.token", comment="\x1b[31m"),
    *(
        event("jobs", 0, job_id=job, type="started", gpu_count=1, owner="ada", expected_usd_per_hour="10")
        for job in ("hot", "quiet", "calm")
    ),
    event("jobs", 60, job_id="hot", type="scaled", gpu_count=8),
    event("jobs", 60, job_id="quiet", type="scaled", gpu_count=8),
    event("jobs", 60, job_id="calm", type="scaled", gpu_count=1.2),
    event("jobs", 0, job_id="late", type="started", gpu_count=8, owner="ada", expected_usd_per_hour="10"),
    *(event("jobs", minute, job_id="hot", type="heartbeat") for minute in range(61, 79)),
    event(
        "controls",
        80,
        kind="rule",
        name="long",
        rule="runaway_length",
        job_id="calm",
        thresholds={"hours": 120},
    ),
    event("jobs", 90, job_id="calm", type="heartbeat"),
]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("why")
    (root / "events.jsonl").write_text("".join(LINES))
    done = trainfare("replay", root / "events.jsonl", "--data", root / "meter", "--partitions", 2)
    assert done.code == 0, done.err
    return root / "meter"


def why(data: Path, *words: object) -> dict[str, Any]:
    done = trainfare("alerts", "why", *words, "--data", data, "--format", "json")
    assert (done.code, done.err) == (0, ""), done.err
    found: dict[str, Any] = json.loads(done.out)
    return found


def rule(found: dict[str, Any], name: str, place: int = 0) -> dict[str, Any]:
    rows = [each for each in found["rules"] if each["rule"] == name]
    return dict(rows[place])


def test_a_job_that_burns_is_past_its_threshold_and_one_that_does_not_is_short_of_it(data: Path) -> None:
    hot = why(data, "hot", "--at", "2026-03-01T01:15:00")
    short = rule(hot, "burn_fast", 1)
    assert short["holds"] is True
    assert short["value"] == pytest.approx(8, rel=0.01)
    assert (short["threshold"], short["share"]) == (6, pytest.approx(8 / 6, rel=0.01))
    assert rule(hot, "burn_fast")["value"] == pytest.approx(8, rel=0.02)
    extra = rule(hot, "burn_fast", 2)
    assert extra["value"] == pytest.approx(17.5, rel=0.05)
    calm = why(data, "calm", "--at", T0_MS + 75 * MINUTE_MS)
    assert calm["at_ms"] == T0_MS + 75 * MINUTE_MS
    assert rule(calm, "burn_fast", 1)["share"] == pytest.approx(0.2, rel=0.01)
    assert not any(each["holds"] for each in calm["rules"])
    assert calm["messages"] == []


def test_dollars_of_the_time_before_anybody_knew_of_the_job_count(data: Path) -> None:
    late = why(data, "late", "--at", "2026-03-01T01:15:00")
    assert rule(late, "burn_sustained", 2)["value"] == pytest.approx(
        70, rel=0.01
    )  # of the hour, not of 15 min
    assert rule(late, "burn_drift", 2)["value"] == pytest.approx(70 * 1.25, rel=0.01)


def test_a_silence_is_named_and_so_is_a_rule_that_comes_first(data: Path) -> None:
    found = why(data, "quiet", "--at", "2026-03-01T01:25:00")
    fast = next(each for each in found["messages"] if each["rule"] == "burn_fast")
    assert (fast["status"], fast["message"]) == ("firing", "silenced")
    assert fast["because"] == "silence/night by web.token"
    sustained = next(each for each in found["messages"] if each["rule"] == "burn_sustained")
    assert sustained["status"] == "not opened"
    assert sustained["because"].startswith("burn_fast (al_")


def test_an_alert_is_asked_for_by_its_id_and_says_what_receivers_did(data: Path) -> None:
    (fast,) = (
        each for each in why(data, "hot", "--at", "2026-03-01T01:20:00")["messages"] if each["alert_id"]
    )
    assert fast["message"] == "not sent so far"
    assert fast["because"].endswith("a replay sends nothing")
    rows = [
        delivery(fast["alert_id"], 1, "retrying", detail="answered 503: try later"),
        delivery(fast["alert_id"], 1, "delivered", receiver="https://other.example"),
    ]
    later = {
        "time": at(T0_MS + 10**4 * MINUTE_MS)
    }  # what catches up delivers long after the alert's own time
    store = ClickHouseStore(Embedded(data_dir=data))
    try:
        put(store, DELIVERIES, [{**row, **later} for row in rows], "why")
        server_rows = served(store, lambda client: _through(client, fast["alert_id"]))
    finally:
        store.close()
    (told,) = (each for each in why(data, fast["alert_id"])["messages"] if each["alert_id"])
    assert told["message"] == "the receiver does not take it; delivered"
    assert "answered 503: try later (503), attempt 1" in told["because"]
    assert told["delivered"] == "https://other.example at 2026-03-07 22:40:00 UTC"
    assert told["next"] == "", "a ticket goes on to nobody"
    shown = trainfare("alerts", "why", fast["alert_id"], "--data", data).out
    assert "https://other.example at 2026-03-07 22:40:00 UTC; " in shown
    asked = "SELECT value FROM controls FINAL WHERE kind = 'owner'"
    (row,) = json.loads(trainfare("sql", asked, "--data", data, "--format", "json").out)
    assert json.loads(row["value"]) == {"escalate": ["grace"]}, "and no address"
    assert server_rows


async def _through(client: Client, alert_id: str) -> bool:
    """Every statement is one that the worker answers, too."""
    from streams.explain import acts
    from streams.explain.why import next_recipient, sql

    values: dict[str, object] = {
        "alert": alert_id,
        "alerts": [alert_id],
        "jobs": ["hot"],
        "job": "hot",
        "kind": "job",
        "name": "hot",
        "at_ms": T0_MS + 75 * MINUTE_MS,
        "names": ["ada"],
        "kinds": ["owner"],
    }
    statements = [
        text
        for module in (sql, acts, next_recipient)
        for name, text in vars(module).items()
        if name.isupper()
    ]
    for statement in (each for each in statements if isinstance(each, str) and "SELECT" in each):
        if ("\nFROM" not in statement and " FROM " not in statement) or statement.startswith(
            "\n       alert_id"
        ):
            continue
        used = {name: value for name, value in values.items() if f"{{{name}:" in statement}
        await client.ask({"sql": statement, "parameters": used})
    return True


def test_a_table_says_the_same_and_shows_no_control_characters(data: Path) -> None:
    done = trainfare("alerts", "why", "quiet", "--at", "2026-03-01T01:25:00", "--data", data)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("job quiet at 2026-03-01 01:25:00 UTC\n")
    assert "burn_fast" in done.out
    assert "silence/night by web.token" in done.out
    assert done.out.index("\nMessages\n") < done.out.index("\nRules: ")
    lines = done.out.splitlines()
    assert sum(line.startswith("retry_loop ") for line in lines) == 1
    assert sum(line.startswith("  or ") for line in lines) > 5
    assert "\x1b" not in done.out


def test_the_report_of_a_burn_has_the_change_of_size_and_no_part_of_a_minute(data: Path) -> None:
    (fast,) = (
        each for each in why(data, "hot", "--at", "2026-03-01T01:20:00")["messages"] if each["alert_id"]
    )
    report = trainfare("incident", fast["alert_id"], "--data", data).out
    timeline = report.partition("## Timeline")[2].partition("\n## ")[0]
    started, scaled = (line for line in timeline.splitlines() if "attempt 1 s" in line)
    assert "attempt 1 started" in started
    assert "1 GPU" in started
    assert scaled.startswith("| 2026-03-01 01:00:00 | attempt 1 scaled |")
    assert "from 1 GPU to 8 GPUs" in scaled
    evidence = report.partition("## Evidence")[2].partition("\nAs `trainfare")[0]
    rates = [float(line.split("|")[2]) for line in evidence.splitlines() if line.startswith("| 2026")]
    assert rates[-1] == 80
    assert rates == sorted(rates)


def test_of_an_alert_the_other_rules_are_shown_if_asked_for(data: Path) -> None:
    (fast,) = (
        each for each in why(data, "hot", "--at", "2026-03-01T01:20:00")["messages"] if each["alert_id"]
    )
    done = trainfare("alerts", "why", fast["alert_id"], "--data", data)
    assert "silent_job" not in done.out
    assert done.out.splitlines()[-1].endswith(" more rules about it: --all")
    whole = trainfare("alerts", "why", fast["alert_id"], "--all", "--data", data)
    assert "silent_job" in whole.out
    assert "--all" not in whole.out


@pytest.mark.parametrize(
    "subject_id",
    ["nobody", "al_0123456789abcdef01234567", "", "x" * 5_000, "'; DROP TABLE alerts; --", "\x1b[31m"],
)
def test_an_unknown_id_is_one_line(data: Path, subject_id: str) -> None:
    done = trainfare("alerts", "why", "--data", data, "--", subject_id)
    assert done.code == 1
    line = done.one_line()
    assert "neither a job nor an alert of this store" in line
    assert "\x1b" not in line
    assert len(line) < 300


@pytest.mark.parametrize(
    "instant", ["yesterday", "-1", "99999999999999999999", "2300-01-01", "2026-13-01", "\u0663"]
)
def test_an_instant_that_is_none_is_wrong_use(data: Path, instant: str) -> None:
    done = trainfare("alerts", "why", "hot", f"--at={instant}", "--data", data)
    assert done.code == 2
    assert "expected an instant such as 2026-10-01T06:00:10" in done.one_line()


def test_before_the_job_began_nothing_is_known(data: Path) -> None:
    found = why(data, "hot", "--at", "2026-02-01T00:00:00")
    assert found["rules"] == []
    assert found["messages"] == []


def test_what_mends_a_missing_price_is_a_command(tmp_path: Path) -> None:
    lines = [
        event(
            "prices",
            0,
            sku="eu",
            component="gpu",
            usd="3",
            per="gpu_hour",
            effective_ms=0,
            gpu_type="H100",
            region="eu",
        ),
        event("jobs", 0, job_id="run", type="started", gpu_count=8, gpu_type="H100", region="us"),
        event("jobs", 30, job_id="other", type="queued"),
    ]
    (tmp_path / "log.jsonl").write_text("".join(lines))
    data = tmp_path / "meter"
    assert trainfare("replay", tmp_path / "log.jsonl", "--data", data).code == 0
    of_job = trainfare("alerts", "why", "run", "--data", data)
    assert "switched off" in of_job.out
    asked = "SELECT alert_id FROM alerts FINAL WHERE rule = 'missing_price'"
    (row,) = json.loads(trainfare("sql", asked, "--data", data, "--format", "json").out)
    done = trainfare("alerts", "why", row["alert_id"], "--data", data)
    assert (done.code, done.err) == (0, "")
    command = done.out.splitlines()[-1]
    assert (
        command
        == "printf 'sku,gpu_type,usd,per,from\\nh100,H100,3,gpu_hour,\\n' > price.csv && trainfare prices load price.csv"
    )


def test_thresholds_are_those_in_force_for_the_job_at_that_instant(data: Path) -> None:
    assert rule(why(data, "calm", "--at", "2026-03-01T01:15:00"), "runaway_length")["threshold"] == 100
    assert rule(why(data, "calm"), "runaway_length")["threshold"] == 120
    assert rule(why(data, "hot"), "runaway_length")["threshold"] == 168


def test_a_job_that_is_silent_by_its_heartbeats_says_for_how_long(data: Path) -> None:
    silent = rule(why(data, "hot", "--at", "2026-03-01T01:30:00"), "silent_job")
    assert silent["value"] == pytest.approx(12)
    assert silent["holds"] is True
    assert silent["share"] == pytest.approx(1.2)
    before = rule(why(data, "hot", "--at", "2026-03-01T01:15:00"), "silent_job")
    assert (before["value"], before["holds"]) == (None, False)  # when it was heard by then is not stored


def test_through_a_worker_the_same_is_said_and_a_wrong_instant_is_refused(data: Path) -> None:
    store = ClickHouseStore(Embedded(data_dir=data))
    try:
        direct = judged(store, "hot", T0_MS + 75 * MINUTE_MS)
        answers = served(store, _asked)
    finally:
        store.close()
    assert [status for status, _ in answers] == [200, 404, 400, 400]
    assert msgspec.convert(answers[0][1], JudgedJob) == direct
    assert direct.rules


STATEMENT = """SELECT 'team' AS subject_kind, team AS subject_name, sum(cost_usd) AS usd_per_hour, -- of an hour
       concat(team, ' costs too much; look at it') AS summary
FROM cost_hours WHERE hour >= {from} AND hour < {to} AND team != '' GROUP BY team HAVING sum(cost_usd) > 5"""


def test_plans_of_a_job_and_rules_by_sql_are_said(tmp_path: Path) -> None:
    hours = {"weekdays": ["sun"], "hours": "02:00-04:00", "time_zone": "UTC"}
    within = {"from_ms": T0_MS - 1, "until_ms": T0_MS + 10**9}
    lines = [
        event("prices", 0, sku="g", component="gpu", usd="10", per="gpu_hour", effective_ms=0),
        event("controls", 0, kind="rule", name="dear", every="1h", sql=STATEMENT),
        event(
            "controls",
            0,
            kind="planned",
            name="nightly",
            team="v",
            usd_per_hour="80",
            by="web.token",
            **hours,
            **within,
        ),
        event("controls", 0, kind="planned", name="always", job_id="run-1", usd_per_hour="20"),
        event(
            "controls", 0, kind="planned", name="over", job_id="run-1", usd_per_hour="9", until_ms=T0_MS + 1
        ),
        event("controls", 0, kind="planned", name="others", team="w", usd_per_hour="9"),
        event("jobs", 0, job_id="run-1", type="started", gpu_count=1, owner="ada", team="v"),
        event("controls", 150, kind="rule", name="dear", every="1h", sql=STATEMENT, enabled=False),
        event("jobs", 300, job_id="run-1", type="heartbeat"),
    ]
    (tmp_path / "log.jsonl").write_text("".join(lines))
    data = tmp_path / "meter"
    assert trainfare("replay", tmp_path / "log.jsonl", "--data", data).code == 0

    def plans(at: str) -> list[tuple[str, str, str, bool]]:
        found = why(data, "run-1", "--at", at)["plans"]
        return sorted((each["name"], each["by"], each["recurs"], each["covers"]) for each in found)

    recurs = "sun 02:00-04:00 UTC"
    assert plans("2026-03-01T01:00:00") == [
        ("always", "t", "", True),
        ("nightly", "web.token", recurs, False),
    ]
    assert plans("2026-03-01T03:00:00") == [("always", "t", "", True), ("nightly", "web.token", recurs, True)]
    shown = trainfare("alerts", "why", "run-1", "--at", "2026-03-01T03:00:00", "--data", data).out
    assert "planned/nightly" in shown
    assert recurs in shown

    store = ClickHouseStore(Embedded(data_dir=data))
    try:
        (alert,) = store.ask("SELECT alert_id FROM alerts FINAL WHERE rule = 'sql/dear'").rows()
    finally:
        store.close()
    of_sql = "rows of its statement about this"
    (fires,) = why(data, alert[0], "--at", "2026-03-01T01:30:00")["rules"]
    assert (fires["rule"], fires["what"], fires["value"], fires["holds"], fires["enabled"]) == (
        "sql/dear", f"{of_sql}, asked every 1h", 1, True, True,
    )  # fmt: skip
    (over,) = why(data, alert[0])["rules"]
    assert (over["what"], over["value"], over["holds"], over["enabled"]) == (of_sql, 0, False, False)
    said = trainfare("alerts", "why", alert[0], "--data", data).out
    command = said.partition("with the instants of its alert\n")[2]
    _, _, statement = shlex.split(command, posix=True)
    assert "-- of an hour\n" in statement
    asked = trainfare("sql", statement, "--data", data, "--format", "json")
    assert asked.code == 0, asked.err
    assert json.loads(asked.out)[0]["subject_name"] == "v"


async def _asked(client: Client) -> list[tuple[int, Any]]:
    paths = (
        f"hot/rules?at_ms={T0_MS + 75 * MINUTE_MS}",
        "nobody/rules",
        "hot/rules?at_ms=-1",
        "hot/rules?at_ms=99999999999999999999",
    )
    found = []
    for path in paths:
        async with client.session.get(f"{client.server.url}/api/v1/jobs/{path}") as answer:
            found.append((answer.status, await answer.json()))
    return found


def test_records_of_an_older_release_are_counted(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text("".join(LINES))
    data = tmp_path / "meter"
    assert trainfare("replay", tmp_path / "log.jsonl", "--data", data).code == 0
    store = ClickHouseStore(Embedded(data_dir=data))
    try:
        rows = store.select(CONTROLS)
        place = rows.schema.names.index("value")
        blank = rows.set_column(place, "value", pa.array([""] * len(rows)))
        store.insert(CONTROLS, blank, "older")
    finally:
        store.close()
    done = trainfare("alerts", "why", "calm", "--data", data)
    assert "1 record of a rule or plan was stored by an older release" in done.out
    assert rule(why(data, "calm"), "runaway_length")["threshold"] == 168
