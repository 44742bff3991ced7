"""`trainfare alerts list`, `ack` and `silence`: over a directory, and through the worker that takes the record."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from schemas.control_table import CONTROLS
from schemas.tables import ALERTS, DELIVERIES
from sinks.clickhouse import ClickHouseStore, Embedded
from streams.cli.alerts_list import _until
from streams.cli.output import minute_text
from streams.keys import OutgoingRecord
from tests.cli.command import trainfare
from tests.new_store import begun
from tests.sinks.rows import rows
from tests.web.live import alert, at, delivery, put
from tests.web.log import AS_OF_MS, T0_MS
from tests.web.serving import LOCAL_TOKEN, Client, served

FAR_MS = 4_102_444_800_000
FAR = at(FAR_MS)
CAUSE = '["sweep","burn_fast","speech","lr"]'
PAGE = "al_00000000000000000000000a"
CEILING = "al_00000000000000000000000c"
HEAD = "al_00000000000000000000000d"
SKU = "al_00000000000000000000000e"


class KeptLog:
    """Takes records."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []

    async def append(self, records: Any) -> None:
        (record,) = records
        assert isinstance(record, OutgoingRecord)
        assert record.value is not None
        self.records.append(json.loads(record.value))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    root = tmp_path_factory.mktemp("list") / "meter"
    store = ClickHouseStore(Embedded(data_dir=begun(root)))
    member = {"shared_cause": CAUSE, "team": "language", "started": at(T0_MS), "changed": at(T0_MS)}
    stored = [
        alert(PAGE, subject_name="train-1", summary="it burns \x1b[31m"),
        alert(CEILING, rule="ceiling", subject_name="train-2", status="resolved", resolved=at(T0_MS + 500_000)),
        alert(HEAD, rule="incident", subject_kind="sweep", subject_name="speech/lr", **member),
        alert(SKU, rule="price_jump", subject_kind="sku", subject_name="h100", owner="", team="", started=at(T0_MS + 1)),
        *(alert(f"al_00000000000000000000000{number}", subject_name=f"lr-{number}", **member) for number in range(3)),
    ]  # fmt: skip
    put(store, ALERTS, stored, "a list")
    put(store, DELIVERIES, [delivery(PAGE, 1, "delivered")], "its messages")
    store.close()
    yield root
    shutil.rmtree(root.parent)


def listed(data: Path, *words: object) -> dict[str, Any]:
    done = trainfare("alerts", "list", *words, "--data", data, "--format", "json")
    assert (done.code, done.err) == (0, ""), done.err
    found: dict[str, Any] = json.loads(done.out)
    return found


def ids(found: dict[str, Any]) -> list[str]:
    return [each["alert_id"] for each in found["alerts"]]


def test_an_incident_is_one_row_unless_all_are_asked_for(data: Path) -> None:
    found = listed(data)
    assert (set(ids(found)), found["count"]) == ({PAGE, CEILING, HEAD, SKU}, 4)
    head = next(each for each in found["alerts"] if each["alert_id"] == HEAD)
    assert (head["members"]["alerts"], head["members"]["jobs"]) == (3, 3)
    assert listed(data, "--all")["count"] == 7


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--firing", "--rule", "burn_fast"), [PAGE, HEAD]),
        (("--job", "train-*"), [PAGE, CEILING]),
        (("--message", "sent"), [PAGE]),
        (("--owner", "nobody"), []),
        (("--since", "1h"), [PAGE, SKU, HEAD]),
    ],
)
def test_filters(data: Path, words: tuple[str, ...], expected: list[str]) -> None:
    assert sorted(ids(listed(data, *words))) == sorted(expected)


def test_the_table_is_for_people(data: Path) -> None:
    done = trainfare("alerts", "list", "--limit", 1, "--data", data)
    assert done.code == 0
    assert done.out.splitlines()[-1] == "3 older rows are not shown: a larger --limit shows more"
    whole = trainfare("alerts", "list", "--data", data).out
    assert "\x1b" not in whole
    assert "(3 alerts of 3 jobs)" in whole
    assert trainfare("alerts", "list", "--owner", "nobody", "--data", data).out.endswith(
        "no alert is like that\n"
    )


def test_who_acted_and_until_when_is_shown_before_any_tick_has_judged_it(data: Path) -> None:
    """No rate is stored after the records, which is what a tick would leave."""
    said = {"source": "t", "by": "ada", "version": 1, "time": at(T0_MS + 10**8)}
    given = [
        {**said, "offset": 1, "kind": "silence", "name": "s", "match": [("job_id", "train-1"), ("rule", "burn_fast")], "until": FAR},
        {**said, "offset": 2, "kind": "ack", "name": PAGE, "alert_id": PAGE, "until": FAR, "comment": "known"},
        {**said, "offset": 3, "kind": "silence", "name": "over", "match": [("job_id", "train-2")], "until": at(T0_MS + 10**8 + 1)},
    ]  # fmt: skip
    store = ClickHouseStore(Embedded(data_dir=data))
    try:
        store.insert(CONTROLS, rows(CONTROLS, *given), "acts")
    finally:
        store.close()
    by_id = {each["alert_id"]: each for each in listed(data)["alerts"]}
    page, ceiling = by_id[PAGE], by_id[CEILING]
    assert page["message"] == "sent"
    assert page["silenced_by"].items() >= {"name": "s", "by": "ada", "until_ms": FAR_MS}.items()
    assert page["acknowledged"]["comment"] == "known"
    assert (ceiling["silenced_by"], ceiling["acknowledged"]) == (None, None), "it has ended"
    acts = "acknowledged until 2100-01-01 00:00 UTC by ada, silenced until 2100-01-01 00:00 UTC by ada"
    shown = next(
        line for line in trainfare("alerts", "list", "--data", data).out.splitlines() if PAGE in line
    )
    assert f"sent, {acts}" in shown
    csv = trainfare("alerts", "list", "--data", data, "--format", "csv").out.splitlines()
    assert csv[0].endswith(",message,sentence,acts")
    assert next(line for line in csv if PAGE in line).endswith(f',"{acts}"')
    why = json.loads(trainfare("alerts", "why", PAGE, "--data", data, "--format", "json").out)
    (because,) = {each["because"] for each in why["messages"]}
    assert " by ada until 2100-01-01 00:00:00 UTC, silence/s" in because


def test_a_silence_of_today_is_shown_by_its_minute() -> None:
    control = {"until_ms": T0_MS + 3_600_000, "recurs": ""}
    assert _until(control, T0_MS) == f"until {at(T0_MS + 3_600_000):%H:%M} UTC"
    assert _until({"until_ms": None, "recurs": "mon 22:00-06:00"}, T0_MS) == "mon 22:00-06:00"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("list", "--since", "yesterday"), "--since yesterday: expected a length of time such as 90m"),
        (("list", "--message", "maybe"), "message: got 'maybe', expected one of sent"),
        (("ack", "train-1"), "train-1: expected the id of an alert"),
        (("ack", PAGE), "no worker has"),
    ],
)
def test_what_is_wrong_is_one_line(data: Path, words: tuple[str, ...], said: str) -> None:
    done = trainfare("alerts", *words, "--data", data)
    assert done.code != 0
    assert said in done.one_line()


def test_acts_go_through_the_worker(data: Path) -> None:
    """The record is the one that the page would write."""
    log = KeptLog()
    store = ClickHouseStore(Embedded(data_dir=data))

    async def work(client: Client) -> list[Any]:
        env = {"TRAINFARE_WEB_TOKEN": LOCAL_TOKEN}
        commands = (
            ("ack", PAGE, "--comment", "known"),
            ("ack", CEILING, "--for", "30m"),
            ("silence", PAGE),
            ("silence", SKU, "--for", "2d"),
            ("planned", PAGE, "--for", "8h"),
            ("planned", PAGE, "--usd-per-hour", "160", "--comment", "wide"),
            ("planned", SKU),
            ("silence", PAGE, "--for", "0m"),
            ("ack", SKU, "--end"),
            ("ack", "al_ffffffffffffffffffffffff"),
        )
        return [
            await asyncio.to_thread(trainfare, "alerts", *words, "--url", client.server.url, env=env)
            for words in commands
        ]

    try:
        done = served(store, work, controls=log, wall_ms=AS_OF_MS)
    finally:
        store.close()
    assert [each.code for each in done] == [0, 0, 0, 0, 0, 0, 1, 2, 1, 1], [each.err for each in done]
    assert done[0].out.startswith("acknowledged Runaway burn of train-1 until ")
    assert done[0].out.endswith(f": ack/{PAGE}\n"), "the control that is in force"
    said, reach = done[2].out.splitlines()
    assert said.startswith("silenced Runaway burn of train-1 until ")
    assert reach.startswith(
        "it covers Runaway burn (burn_fast) of job train-1 alone; for all rules of job train-1, `trainfare publish`"
    )
    assert done[3].out.splitlines()[1].endswith(" (price_jump), and no other rule")
    since = minute_text(T0_MS + 400_000 - 900_000)
    assert done[4].out.startswith(f"planned 32.5 USD/h of train-1 from {since} until ")
    assert "no planned rate can quiet it" in done[6].one_line()
    assert "--for 0m: expected more than 0; --end ends what is in force" in done[7].one_line()
    assert "no ack is in force for it" in done[8].one_line()
    assert "has no alert of this id" in done[9].one_line()
    ack, ceiling, silence, sku, plan, given = log.records
    assert plan.items() >= {"kind": "planned", "job_id": "train-1", "usd_per_hour": "32.5"}.items()
    assert plan["from_ms"] == T0_MS + 400_000 - 900_000
    assert given.items() >= {"usd_per_hour": "160", "comment": "wide"}.items()
    assert ack.items() >= {"kind": "ack", "alert_id": PAGE, "comment": "known"}.items()
    assert ceiling.items() >= {"job_id": "train-2", "usd_per_hour": "32.500000000"}.items()
    assert silence.items() >= {"kind": "silence", "job_id": "train-1", "rule": "burn_fast"}.items()
    assert sku.items() >= {"kind": "silence", "rule": "price_jump"}.items()
    assert not {"owner", "team", "job_id"} & sku.keys(), "it has none, and its rule knows none"


def test_what_is_in_force_is_ended_by_its_name_and_what_is_for_more_is_not(data: Path) -> None:
    said = {"source": "t", "by": "ada", "version": 1, "time": at(T0_MS + 10**8), "until": FAR}
    plan = {
        "kind": "planned",
        "name": "wide",
        "match": [("job_id", "train-1")],
        "planned_usd_per_hour": Decimal(160),
    }
    given = [
        {**said, "offset": 11, "kind": "ack", "name": HEAD, "alert_id": HEAD},
        {**said, **plan, "offset": 12, "begins": at(T0_MS)},
        {**said, "offset": 13, "kind": "silence", "name": "night", "match": [("team", "language")]},
    ]  # fmt: skip
    log = KeptLog()
    store = ClickHouseStore(Embedded(data_dir=data))
    store.insert(CONTROLS, rows(CONTROLS, *given), "to be ended")

    async def work(client: Client) -> list[Any]:
        env = {"TRAINFARE_WEB_TOKEN": LOCAL_TOKEN}
        commands = (("ack", HEAD, "--end"), ("planned", PAGE, "--end"), ("silence", HEAD, "--end"))
        return [
            await asyncio.to_thread(trainfare, "alerts", *words, "--url", client.server.url, env=env)
            for words in commands
        ]

    try:
        done = served(store, work, controls=log, wall_ms=T0_MS + 10**9)
    finally:
        store.close()
    assert [each.code for each in done] == [0, 0, 1], [each.err for each in done]
    assert done[0].out.endswith(f": ack/{HEAD}\n")
    assert done[1].out.startswith("ended, by ")
    assert done[1].out.endswith(": planned/wide\n")
    assert "silence/night: is for more than this alert" in done[2].one_line()
    ack, ended = log.records
    assert ack["alert_id"] == HEAD
    assert ended.items() >= {"name": "wide", "from_ms": T0_MS}.items()
    assert float(ended["usd_per_hour"]) == 160
