"""GET /api/v1/meter: what is wrong with what mends it, the same sources and dead letters as the commands show."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from schemas.durations import MINUTE_MS
from sinks.clickhouse import ClickHouseStore
from streams.app import shown_settings
from streams.config.settings import Settings
from streams.selfcheck.audit.verdict import AuditFinding, Verdict
from streams.web.meter_faults import faults, stored_faults
from streams.worker.health.worker_status import CanaryStatus, Check, ShardStanding, WorkerStatus
from tests.cli.command import trainfare
from tests.web.serving import BEARER, TOKEN, Client, served

ROOT = Path(__file__).resolve().parents[2]
GOOD = WorkerStatus(
    checks=(Check("kafka", True, "Kafka at kafka-1:9092"),),
    lag_records={"gpu": 3, "jobs": 0},
    lag_ms={"gpu": 1_500},
    shard_lag=(ShardStanding(1, {"gpu": 3, "jobs": 0}, {"gpu": 1_500, "jobs": 0}, 0),),
    checkpoint_age_ms=900,
    canary_enabled=True,
    canary=CanaryStatus(runs=4, wrong=0, late=0, right_age_ms=20_000, latency_ms=900),
)

#: What changes a sound status into one with a fault, and what the fault is called.
WRONG: list[tuple[str, dict[str, Any]]] = [
    ("lag gpu", {"lag_ms": {"gpu": 2 * MINUTE_MS}}),
    ("progress", {"no_progress_ms": 2 * MINUTE_MS}),
    ("checkpoint", {"checkpoint_age_ms": 3 * MINUTE_MS}),
    ("ledger_rules", {"ledger_rules_lag_ms": 4 * MINUTE_MS}),
    ("backlog", {"backlog_bytes": 90, "max_backlog_bytes": 100}),
    ("backlog", {"reading_paused": True}),
    ("reference", {"reference_lag_records": {"prices": 2}}),
    ("reference refused", {"reference_refused": 1}),
    ("audit", {"audit_age_ms": 6 * MINUTE_MS}),
    ("canary", {"canary": CanaryStatus(runs=4, wrong=1, late=0)}),
    ("canary", {"canary": CanaryStatus(runs=4, wrong=0, late=1, right_age_ms=11 * MINUTE_MS)}),
    ("stuck", {"stuck": "shard 3 stands still"}),
    ("owners", {"shards_unowned": 1}),
    ("capped", {"costs_capped": 1}),
    ("own rules", {"own_rules_failed": 1}),
    ("deliveries read_alerts", {"delivery_faults": {"read_alerts": 2}}),
]


def changed(changes: dict[str, Any]) -> WorkerStatus:
    return WorkerStatus(**{name: getattr(GOOD, name) for name in GOOD.__struct_fields__} | changes)


def anchor_exists(place: str) -> bool:
    page, _, section = place.partition("#")
    headings = re.findall(r"^#+ (.*)$", (ROOT / page).read_text(), re.MULTILINE)
    return section in {re.sub(r"[^a-z0-9 -]", "", each.lower()).replace(" ", "-") for each in headings}


def test_a_sound_meter_has_no_fault() -> None:
    assert faults(GOOD, GOOD.checks, None) == []


@pytest.mark.parametrize(("what", "changes"), WRONG)
def test_each_fault_comes_with_what_mends_it(what: str, changes: dict[str, Any]) -> None:
    (fault,) = faults(changed(changes), GOOD.checks, None)
    assert fault.what == what
    assert fault.said
    assert fault.mends
    assert anchor_exists(fault.docs), fault.docs


def test_a_check_and_a_finding_that_do_not_hold() -> None:
    finding = AuditFinding("books", "gpu/0", "2", "1", ok=False, detail="one is lost")
    checks = (Check("clickhouse", False, "ClickHouse at ch:8123 does not answer"), Check("new", False, "x"))
    found = faults(GOOD, checks, Verdict(0, (finding,)))
    assert [each.what for each in found] == ["check clickhouse", "check new", "audit books"]
    assert found[0].said == "ClickHouse at ch:8123 does not answer"
    assert "--recount" in found[2].mends


def test_what_the_store_knows_is_that_of_the_commands(store: ClickHouseStore, replayed: Path) -> None:
    report = served(store, lambda client: client.get("/api/v1/meter"), status=lambda: GOOD)
    (letter,) = report["dead_letters"]
    listed = json.loads(trainfare("dead-letters", "list", "--data", replayed, "--format", "json").out)
    assert {name: letter[name] for name in ("topic", "reason", "records", "example")} == {
        name: listed[0][name] for name in ("topic", "reason", "records", "example")
    }
    assert "replay all files into a new directory" in letter["advice"]
    assert letter["command"] == "trainfare dead-letters list --topic jobs --reason unknown_type --each"
    (unpriced,) = (each for each in report["unpriced"] if each["component"] == "gpu")
    assert (unpriced["gpu_type"], unpriced["amount"], unpriced["jobs"]) == ("A100", "0.033 GPU-h", 1)
    assert [each["what"] for each in report["wrong"]] == [
        "dead letters jobs unknown_type",
        "unpriced gpu",
    ]
    assert report["partitions"] == [{"shard": 1, "records": 3, "age_ms": 1_500, "idle_ms": 0}]
    assert report["sources"] == []
    assert report["audit"] is None
    assert report["store_fault"] is None
    assert trainfare("sources", "--json", "--data", replayed).out == "[]\n"


def test_sources_and_deliveries_that_need_mending() -> None:
    entry = {"entry_class": "not_understood", "standing": True, "reason": "unknown_instance", "entries": 7, "says": "name its GPUs in instance_gpus"}  # fmt: skip
    over = {**entry, "standing": False}
    free = {**entry, "entry_class": "free"}
    found = stored_faults(
        {
            "sources": [{"name": "slurm", "entries": [entry, over, free]}],
            "deliveries": {"delivered": 4, "failed": 1, "no_receiver": 2},
            "deliveries_lately": {"delivered": 4, "failed": 1, "no_receiver": 0},
        }
    )
    assert [each.what for each in found] == ["deliveries failed", "source slurm"]
    assert found[1].mends == "name its GPUs in instance_gpus"
    assert found[0].mends == "try the address of an owner: trainfare alerts test NAME"
    (nobody,) = stored_faults({"deliveries": {"no_receiver": 2}, "deliveries_lately": {"no_receiver": 2}})
    assert "alerts.default_webhook" in nobody.mends  # the owner has no address that could be tried


def test_what_was_refused_long_ago_is_listed_and_nothing_to_mend() -> None:
    letter = {"topic": "jobs", "reason": "unknown_type", "records": 3, "replayed": 1, "advice": "mend it"}
    (found,) = stored_faults({"dead_letters": [{**letter, "is_recent": True}]})
    assert found.said == "2 records of jobs refused: unknown_type"
    assert stored_faults({"dead_letters": [{**letter, "is_recent": False}]}) == []
    assert stored_faults({"dead_letters": [{**letter, "replayed": 3, "is_recent": True}]}) == []


def test_a_store_that_is_not_open_leaves_what_the_worker_knows() -> None:
    report = served(None, lambda client: client.get("/api/v1/meter"), status=lambda: GOOD)
    assert "not open yet" in report["store_fault"]
    assert report["dead_letters"] is None
    assert report["topics"][0] == {"topic": "gpu", "records": 3, "age_ms": 1_500, "in_transaction": 0}


def test_the_address_of_the_documentation_is_that_of_the_settings() -> None:
    for docs_url, wanted in (("", None), ("https://docs.example.com", "https://docs.example.com")):
        report = served(None, lambda client: client.get("/api/v1/meter"), docs_url=docs_url)
        assert report["docs_url"] == wanted


def test_addresses_are_shown_to_whoever_may_read() -> None:
    async def work(client: Client) -> None:
        assert (await client.get("/api/v1/meter", 401))["error"]["code"] == "unauthorized"
        told = await client.get("/api/v1/meter", headers=BEARER)
        assert told["checks"][0]["detail"] == "Kafka at kafka-1:9092"

    served(None, work, status=lambda: GOOD, token=TOKEN)
    told = served(None, lambda client: client.get("/api/v1/meter"), status=lambda: GOOD)
    assert told["checks"][0]["detail"] == "holds"


def test_the_settings_that_are_shown_are_no_secrets() -> None:
    shown = shown_settings(Settings())
    assert shown["meter.job_horizon_ms"] == 86_400_000
    assert not [name for name in shown if "token" in name or "secret" in name or "password" in name]
    json.dumps(shown)


def test_nothing_in_the_store_is_nothing_to_mend() -> None:
    assert stored_faults({"sources": [], "dead_letters": [], "unpriced": [], "deliveries": {}}) == []
    assert stored_faults(dict.fromkeys(("sources", "dead_letters", "unpriced", "deliveries"))) == []


def test_records_of_a_simulated_log_have_no_age() -> None:
    """The demo's log began yesterday and passes at 60 times real time: nothing of it is late for that."""
    old = changed({"lag_ms": {"gpu": 86_400_000}, "watermark_age_ms": 86_400_000})
    report = served(None, lambda client: client.get("/api/v1/meter"), status=lambda: old, speed=60)
    assert (report["wrong"], report["watermark_age_ms"], report["topics"][0]["age_ms"]) == ([], None, 0)
    late = served(None, lambda client: client.get("/api/v1/meter"), status=lambda: old)
    assert [each["what"] for each in late["wrong"]] == ["lag gpu"]
