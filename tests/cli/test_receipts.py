"""`trainfare receipts`: what was sent, with its figures and what became of it; and the record that asks for it."""

from __future__ import annotations

import json
import re
import uuid
from contextlib import closing
from pathlib import Path

import pytest

from schemas.change_tables import CHANGES
from schemas.tables import DELIVERIES
from sinks.clickhouse import ClickHouseStore
from sinks.target import Embedded
from streams.cli import receipts
from streams.config.load import load_settings
from streams.engine.alerts.controls import Controls
from streams.transport.controls_log import read_controls
from tests.cli.command import trainfare
from tests.kafka.broker import shared_broker
from tests.notify.notices import CHEAPER, a_receipt, keep
from tests.notify.scripted_sender import NOW_MS
from tests.sinks.rows import instant, rows

HOSTILE = "run\x1b[31m\u202egnp"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("receipts") / "data"
    with closing(ClickHouseStore(Embedded(data_dir=data, database="trainfare"))) as store:
        first = a_receipt(CHEAPER)
        keep(store, first, a_receipt(job_id=HOSTILE, owner="bob", ended_ms=NOW_MS - 1000))
        for attempt, outcome in enumerate(("retrying", "delivered"), 1):
            row = {
                "alert_id": first.receipt_id, "receiver": "https://hooks.example.com", "outcome": outcome, "attempt": attempt,
                "status": "issued", "time": instant(f"2026-03-01 10:0{attempt}"),
            }  # fmt: skip
            store.insert(DELIVERIES, rows(DELIVERIES, row), f"d{attempt}")
    return data


def test_the_newest_come_first_with_what_became_of_their_messages(data: Path) -> None:
    done = trainfare("receipts", "show", "--data", data)
    assert done.code == 0, done.err
    head, first, second = done.out.splitlines()
    assert head.split() == ["ended", "receipt", "of", "owner", "cost_usd", "lost_usd", "messages"]
    assert "job run-8" in first
    assert "412.07" in first
    assert "delivered" in first
    assert r"run\x1b[31m\u202egnp" in second
    assert second.endswith("none")
    only = trainfare("receipts", "show", "--data", data, "--owner", "bob", "--format", "json")
    assert [row["owner"] for row in json.loads(only.out)] == ["bob"]
    cut = trainfare("receipts", "show", "--data", data, "--limit", "1", "--format", "table")
    assert cut.err.startswith("trainfare: the first 1 row is shown, and there may be more")


@pytest.mark.parametrize("name", ["run-8", a_receipt(CHEAPER).receipt_id])
def test_one_is_shown_as_it_was_sent(data: Path, name: str) -> None:
    done = trainfare("receipts", "show", name, "--data", data)
    assert done.out.splitlines()[0].startswith("run-8 completed: $412.07 in 6.2 h ($66.46/h)")
    shown = dict(re.split(r" {2,}", line, maxsplit=1) for line in done.out.splitlines() if "  " in line)
    assert (shown["Lost"], shown["On spot"], shown["Messages"]) == ("$28.84 (7 %)", "$300.00", "delivered")
    found = json.loads(trainfare("receipts", "show", name, "--data", data, "--format", "json").out)
    assert found == json.loads(a_receipt(CHEAPER).message)
    assert found["data"]["command"] == f"trainfare receipts show {found['data']['receipt_id']}"


def test_what_there_is_not_is_said_in_one_line(data: Path) -> None:
    done = trainfare("receipts", "show", "rc_\x1b", "--data", data)
    assert done.code == 1
    assert r"'rc_\x1b': neither a receipt nor a job of this store" in done.one_line()


def test_no_receipts_yet_says_who_asked(tmp_path: Path) -> None:
    def shown(*asked: tuple[str, bool]) -> list[str]:
        with closing(ClickHouseStore(Embedded(data_dir=tmp_path / "data", database="trainfare"))) as store:
            for offset, (name, on) in enumerate(asked):
                row = {"offset": offset, "kind": "receipt", "name": name, "after": json.dumps({"on": on})}
                store.insert(CHANGES, rows(CHANGES, row), f"{name}{offset}")
        return trainfare("receipts", "show", "--data", tmp_path / "data").out.splitlines()[1:]

    assert shown() == ["no receipts yet; `trainfare receipts ask OWNER` asks for them"]
    first, more = shown(("ada", True), ("bob", True), ("bob", False))
    assert first == "no receipts yet; asked for: ada. A receipt comes 20 to 90 s after a job of theirs ends"
    assert "receipts show JOB" in more


class Answering:
    """A worker that takes the record, and knows no receiver."""

    def __init__(self, *_: object) -> None:
        pass

    def control(self, record: dict[str, object], comment: str) -> dict[str, object]:
        return {"by": "web.token", "not_sent": f"owner {record['owner']} has no address"}


def test_who_asks_is_told_that_nothing_can_be_sent_and_what_mends_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(receipts, "ActingWorker", Answering)
    receipts.ask(
        "ada", team="", off=False, comment="", data=None, url="http://meter.example.com", dry_run=False
    )
    _, why, address, secret, test, until = capsys.readouterr().out.splitlines()
    assert why == "but nothing can be sent: owner ada has no address"
    assert ("alerts.default_webhook" in address, "alerts.webhook_secret" in secret) == (True, True)
    assert (test, "not sent later" in until) == ("then: trainfare alerts test ada", True)


def test_a_dry_run_shows_the_record_and_needs_no_kafka() -> None:
    done = trainfare("receipts", "ask", "ada", "--team", "vision", "--off", "--dry-run")
    record, nothing = done.out.splitlines()
    assert nothing == "nothing was published"
    found = json.loads(record)
    assert (found["kind"], found["name"], found["on"]) == ("receipt", "vision/ada", False)


@pytest.mark.kafka
def test_who_asks_is_in_force_until_they_ask_for_no_more() -> None:
    env = {
        "TRAINFARE_KAFKA_BOOTSTRAP_SERVERS": shared_broker().bootstrap_servers,
        "TRAINFARE_KAFKA_TOPIC_PREFIX": f"t{uuid.uuid4().hex[:8]}.",
        "TRAINFARE_KAFKA_PARTITIONS": "1",
    }
    assert trainfare("topics", "create", env=env).code == 0
    for words, on in ((("ada",), True), (("ada", "--off"), False)):
        done = trainfare("receipts", "ask", *words, env=env)
        assert done.code == 0, done.err
        assert done.out.startswith("ada gets receipts" if on else "ada no longer gets receipts")
        controls = Controls.from_events(read_controls(load_settings(env, None).kafka))
        assert [(each.owner, each.on) for each in controls.receipts] == [("ada", on)]
