"""`trainfare sources`: from a collector's poll, over Kafka and a meter, to the table, the alert and what mends it."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message

from schemas.decode import decode
from schemas.events import ControlEvent
from streams.accounts.causes import FREE_RULES, REMEDIES
from tests.cli.command import trainfare
from tests.cli.test_on_kafka import records
from tests.kafka.broker import shared_broker
from tests.prices.test_accounts import aws

T0: int = 1_780_308_000_000
MINUTE_MS = 60_000
HOSTILE = "job 7\x1b[31m\u202e holds gres/npu"


def reported(
    name: str, minute: int, standing: list[str], entries: dict[str, int], **more: Any
) -> dict[str, Any]:
    value = {
        "id": f"{name}{minute}", "source": "t", "time_ms": T0 + minute * MINUTE_MS, "kind": "source", "name": name,
        "polls": 4, "entries": entries, "standing": standing, **more,
    }  # fmt: skip
    return {"topic": "controls", "value": value, "log_time_ms": value["time_ms"]}


def job(type_: str, minute: int) -> dict[str, Any]:
    at_ms = T0 + minute * MINUTE_MS
    value = {"id": type_, "source": "t", "time_ms": at_ms, "job_id": "a", "type": type_, "gpu_count": 1}
    return {"topic": "jobs", "value": value, "log_time_ms": at_ms}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A replayed log of one job, in which two sources say what they have read."""
    folder = tmp_path_factory.mktemp("sources")
    lines = [
        job("started", 0),
        reported("slurm", 5, ["no_end", "unknown_gres"], {"metered": 1, "not_understood/no_end": 3}),
        reported(
            "slurm",
            90,
            ["unknown_gres"],
            {"metered": 9, "free/no_gpu": 4, "not_understood/unknown_gres": 2, "not_understood/no_end": 1},
            examples={"unknown_gres": HOSTILE, "no_end": "job 8"},
        ),
        reported("prices/aws", 100, [], {"metered": 96, "free/other_system": 3}),
        reported("gone", 110, ["malformed"], {"metered": 0, "not_understood/malformed": 1}),
        job("completed", 180),
    ]
    (folder / "log.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    done = trainfare("replay", folder / "log.jsonl", "--data", folder / "data")
    assert done.code == 0, done.err
    return folder / "data"


def test_the_table_has_each_source_with_its_causes_and_what_mends_them(data: Path) -> None:
    done = trainfare("sources", "--data", data)
    assert done.code == 0, done.err
    head, gone, prices, slurm, *said = done.out.splitlines()
    assert head.split() == [
        "source",
        "polled",
        "polls",
        "read",
        "metered",
        "free",
        "not_understood",
        "causes",
    ]
    assert gone.split()[:1] + gone.split()[3:8] == ["gone", "4", "1", "0", "0", "1"]
    assert prices.split()[:1] + prices.split()[3:8] == ["prices/aws", "4", "99", "96", "3", "0"]
    assert slurm.split()[:1] + slurm.split()[3:] == [
        *("slurm", "4", "16", "9", "4", "3"),
        *("unknown_gres", "2,", "no_end", "1"),
    ]
    assert said == [
        f"gone: 1 malformed; {REMEDIES['malformed']}",
        f"slurm: 2 unknown_gres; first: job 7\\x1b[31m\\u202e holds gres/npu; {REMEDIES['unknown_gres']}",
        f"slurm: 1 no_end (no more); first: job 8; {REMEDIES['no_end']}",
    ]


def test_programs_get_all_classes(data: Path) -> None:
    done = trainfare("sources", "--data", data, "--json")
    assert done.out == trainfare("sources", "--data", data, "--format", "json").out
    found = {each["name"]: each for each in json.loads(done.out)}
    slurm = found["slurm"]
    assert slurm["polled"] == "2026-06-01T11:30:00Z"
    assert slurm["read"] == slurm["metered"] + slurm["free"] + slurm["not_understood"] == 16
    assert slurm["causes"] == ["unknown_gres"]
    assert slurm["entries"][-1] == {
        "entry_class": "free", "reason": "no_gpu", "entries": 4, "example": "", "standing": False,
        "says": FREE_RULES["no_gpu"],
    }  # fmt: skip
    table = trainfare("sources", "--data", data, "--format", "csv", "--limit", "1")
    assert [line.split(",")[0] for line in table.out.splitlines()] == ["source", "gone"]
    cut = trainfare("sources", "--data", data, "--format", "table", "--limit", "1")
    assert cut.err.startswith("trainfare: the first 1 row is shown, and there may be more")


def test_each_cause_is_one_alert(data: Path) -> None:
    sql = (
        "SELECT subject_name, status, toUnixTimestamp64Milli(started), toUnixTimestamp64Milli(resolved)"
        " FROM alerts FINAL WHERE rule = 'not_understood' ORDER BY subject_name"
    )
    done = trainfare("sql", sql, "--data", data, "--format", "json")
    found = [(*each.values(),) for each in json.loads(done.out)]
    assert [(name, status) for name, status, *_ in found] == [
        ("gone/malformed", "firing"),
        ("slurm/no_end", "resolved"),
        ("slurm/unknown_gres", "firing"),
    ]
    assert [(each[2] - T0) // MINUTE_MS for each in found] == [111, 6, 6]
    assert (found[1][3] - T0) // MINUTE_MS == 91


def test_a_store_without_sources_says_who_would_say_it(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text(json.dumps(job("started", 0)) + "\n")
    assert trainfare("replay", tmp_path / "log.jsonl", "--data", tmp_path / "data").code == 0
    done = trainfare("sources", "--data", tmp_path / "data")
    assert "no source has said what it read" in done.out


def test_a_log_of_which_nothing_is_metered_has_its_alerts(tmp_path: Path) -> None:
    lines = [
        reported("slurm", 5, ["no_end"], {"not_understood/no_end": 3}),
        reported("slurm", 90, [], {"metered": 0}),
        reported("slurm", 150, [], {"metered": 0}),
    ]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    done = trainfare("replay", tmp_path / "log.jsonl", "--data", tmp_path / "data")
    assert done.code == 0, done.err
    sql = "SELECT subject_name, status FROM alerts FINAL"
    done = trainfare("sql", sql, "--data", tmp_path / "data", "--format", "json")
    assert json.loads(done.out) == [{"subject_name": "slurm/no_end", "status": "resolved"}]


# -- over a real broker -------------------------------------------------------------------------------------


@pytest.fixture
def env() -> dict[str, str]:
    found = {
        "TRAINFARE_KAFKA_BOOTSTRAP_SERVERS": shared_broker().bootstrap_servers,
        "TRAINFARE_KAFKA_TOPIC_PREFIX": f"s{uuid.uuid4().hex[:8]}.",
        "TRAINFARE_KAFKA_PARTITIONS": "1",
    }
    assert trainfare("topics", "create", env=found).code == 0
    return found


def controls(env: dict[str, str]) -> list[tuple[bytes, ControlEvent | None]]:
    def one(message: Message) -> tuple[bytes, ControlEvent | None]:
        event = None if message.value() is None else decode("controls", message.value(), (), 2**42)
        assert event is None or isinstance(event, ControlEvent)
        return message.key() or b"", event

    return [one(message) for message in records(env, "controls")]


@pytest.mark.kafka
def test_a_collector_says_on_kafka_what_it_printed(env: dict[str, str], tmp_path: Path) -> None:
    flow = "2 1 eni-1 10.0.1.5 8.8.8.8 1 2 6 10 840 1780308000 1780308060 ACCEPT OK"
    (tmp_path / "flows.log").write_text(f"{flow}\nnonsense\n")
    (tmp_path / "collect.toml").write_text("[aws-flow-logs]\nfiles = []\n")
    command = ("collect", "aws-flow-logs", "--files", "flows.log", "--once")
    done = trainfare(*command, env=env, cwd=tmp_path)
    assert done.code == 0, done.err
    assert done.err.startswith("read 2: 0 metered, 0 free, 2 not understood\n")
    assert done.err.count("1 fields, expected 14") == 1  # not in the log, too
    ((key, event),) = controls(env)
    assert event is not None
    assert (key, event.value["standing"]) == (b"source/aws-flow-logs", ["malformed", "no_allocations"])
    assert event.value["entries"] == {"not_understood/malformed": 1, "not_understood/no_allocations": 1}
    again = trainfare(*command, env=env, cwd=tmp_path)
    assert again.err.startswith("read 0: ")
    repeated = controls(env)[-1][1]  # the lines come once: an empty poll leaves their account as it is
    assert repeated is not None
    told = ("entries", "standing", "examples", "polls")
    assert [repeated.value[each] for each in told] == [event.value[each] for each in told]
    forgotten = trainfare("sources", "--forget", "aws-flow-logs", env=env)
    assert "aws-flow-logs: forgotten" in forgotten.out
    assert controls(env)[-1] == (b"source/aws-flow-logs", None)


@pytest.mark.kafka
def test_a_list_of_prices_says_which_gpus_it_did_not_take(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "p.json").write_bytes(aws({"marketoption": "CapacityBlock", "regionCode": "eu-north-1"}))
    done = trainfare("prices", "load", tmp_path / "p.json", env=env)
    assert done.code == 0, done.err
    # Beside the account it is on record who has published.
    ((key, event),) = [each for each in controls(env) if each[0].startswith(b"source/")]
    assert event is not None
    assert (key, event.value["entries"]) == (
        b"source/prices/aws",
        {"metered": 1, "not_understood/no_plain_price": 1},
    )
    examples = event.value["examples"]
    assert isinstance(examples, dict)
    assert examples["no_plain_price"].startswith("p5.48xlarge in eu-north-1: a capacity block")
