"""Rounds of devices through the example map: they cost the sums by hand, in any order, late, and delivered twice."""

from __future__ import annotations

import json
import random
import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from streams.accounts.causes import REMEDIES
from streams.collect.collector import CollectedEvent
from streams.collect.json_files.options import LINE, Options
from streams.collect.kafka.mapping import RecordMap
from streams.collect.kafka.options import Options as KafkaOptions
from streams.engine.settings import FUTURE_MS, ShardSettings
from tests.cli.command import trainfare
from tests.collect.json_files.hand_sums import DEVICES, FROM_MS, HOUR_MS, cost_nano, lines
from tests.collect.kafka.world import MAPS
from tests.harness import FAR_FUTURE_MS, meter
from tests.oracle.compute import compute
from tests.oracle.model import Line, Tables

MAP = MAPS / "edge.toml"
SAMPLE = MAPS / "edge.sample.jsonl"
AMORTIZE = (
    "prices", "amortize", "--usd", "99600", "--gpus", "400", "--years", "4", "--use", "0.2", "--sku", "edge.orin",
    "--match", "gpu_type=Jetson Orin Nano", "--match", "purchase=on_prem",
)  # fmt: skip


def table() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads(MAP.read_text())["json-files"]
    return found


def events(log: Sequence[str]) -> list[CollectedEvent]:
    rules = RecordMap(Options.model_validate(table()))
    mapped = [rules.of_record(LINE, line.encode()) for line in log]
    assert not [fault for each in mapped for fault in each.faults]
    return [event for each in mapped for event in each.events]


@pytest.fixture(scope="module")
def prices(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The example's prices, those of owned devices amortised, as the commands of the page write them."""
    folder = tmp_path_factory.mktemp("prices")
    listed, owned = folder / "listed.jsonl", folder / "owned.jsonl"
    for command in (
        ("prices", "load", MAPS / "edge-prices.csv", "--out", listed),
        (*AMORTIZE, "--out", owned),
    ):
        done = trainfare(*command)
        assert done.code == 0, done.err
    return [listed, owned]


def costs(tables: Tables, job: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for key, row in tables.ledger.items():
        if key.job_id == job:
            found[key.component] += row.cost_nano
    return found


def metered(prices: list[Path], *logs: Sequence[str], dedupe_ms: int = 24 * HOUR_MS) -> Tables:
    book = [json.loads(line) for path in prices for line in path.read_text().splitlines()]
    log = [Line(each["topic"], each["value"]) for each in book]
    log += [Line(topic, dict(value)) for each in logs for topic, value in events(each)]
    settings = ShardSettings(run_start_ms=FAR_FUTURE_MS - FUTURE_MS, dedupe_horizon_ms=dedupe_ms)
    return meter(log, settings=settings)


@pytest.mark.parametrize(
    "energy",
    [{"joules": 465}, {"energy": "465 J"}, {"energy": 465_000, "energy_unit": "mJ"}, {"energy": "0.465 kJ"}],
)
def test_energy_is_read_in_any_unit_that_a_line_says(energy: dict[str, Any]) -> None:
    line = json.loads(SAMPLE.read_text().splitlines()[0])
    del line["joules"]
    (mean_watts,) = [
        e.value["instance_count"] for e in events([json.dumps(line | energy)]) if e.value["type"] == "updated"
    ]
    assert mean_watts == 12


def test_energy_without_a_unit_is_not_understood_and_the_stay_is_metered() -> None:
    line = json.loads(SAMPLE.read_text().splitlines()[0])
    line["energy"] = line.pop("joules")
    made, faults = RecordMap(Options.model_validate(table())).of_record(LINE, json.dumps(line).encode())
    assert [each.value["type"] for each in made] == ["started", "completed"]
    assert [each.reason for each in faults] == ["unit"]
    assert "the energy 465 has no unit" in str(faults[0])


@pytest.mark.parametrize("seed", [1, 2])
def test_a_round_costs_the_sums_by_hand_out_of_order_late_and_twice(seed: int, prices: list[Path]) -> None:
    first = lines("kitchen/17", 150, seed)
    # Another round comes five hours later, and then all of the first one again.
    other = lines("kitchen/18", 20, seed + 100, begin_ms=FROM_MS + 11 * HOUR_MS, hours=1)
    again = random.Random(seed).sample(first, len(first))
    tables = metered(prices, first, other, again)
    assert not tables.dead
    assert costs(tables, "kitchen/17") == cost_nano(first)
    assert costs(tables, "kitchen/18") == cost_nano(other)


def test_amounts_that_come_again_after_the_dedupe_horizon_may_count_twice(prices: list[Path]) -> None:
    """What docs/edge.md warns of: the setting must be longer than the hours by which lines come again."""
    first = lines("kitchen/17", 20, 3)
    other = lines("kitchen/18", 5, 4, begin_ms=FROM_MS + 11 * HOUR_MS, hours=1)
    found = costs(metered(prices, first, other, first, dedupe_ms=HOUR_MS), "kitchen/17")
    wanted = cost_nano(first)
    assert wanted["network"] < found["network"] <= 2 * wanted["network"]
    assert (found["gpu"], found["compute"]) == (wanted["gpu"], wanted["compute"])


def test_the_prices_are_those_of_the_sums(prices: list[Path]) -> None:
    book = [json.loads(line)["value"] for path in prices for line in path.read_text().splitlines()]
    gpu = {each["gpu_type"]: each["usd"] for each in book if each["component"] == "gpu"}
    assert gpu == {model: str(float(usd)) for model, (_, usd) in DEVICES.items()}


def test_files_through_the_commands_cost_the_sums_by_hand(tmp_path: Path, prices: list[Path]) -> None:
    log = lines("kitchen/17", 60, 5)
    files = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    files[0].write_text("\n".join(log[:70]))
    files[1].write_text("\n".join(log[40:]))  # thirty lines are in both
    options = [part for file in files for part in ("--files", file)]
    done = trainfare("collect", "json-files", "--config", MAP, *options, "--dry-run")
    assert (done.code, done.err) == (
        0,
        f"read {len(log[:70]) + len(log[40:])}: 150 metered, 0 free, 0 not understood\n",
    )
    made = tmp_path / "events.jsonl"
    made.write_text(done.out)
    replayed = trainfare("replay", *prices, made, "--data", tmp_path / "meter", "--format", "json")
    assert replayed.code == 0, replayed.err
    result = json.loads(replayed.out)
    total_nano = sum(cost_nano(log).values())
    assert result["usd"] == f"{total_nano // 10**9}.{total_nano % 10**9:09d}"
    assert (result["jobs"], result["dead_lettered"], result["unpriced_gpu_hours"]) == (1, 0, "0.000000")


def test_energy_without_a_price_is_unpriced_and_said_with_the_command_that_prices_it(
    tmp_path: Path, prices: list[Path]
) -> None:
    """All else has a price; a round two hours later moves the log on."""
    made = tmp_path / "events.jsonl"
    logs = [
        lines("kitchen/17", 40, 7, hours=1),
        lines("kitchen/18", 1, 8, begin_ms=FROM_MS + 2 * HOUR_MS, hours=1),
    ]
    found = [event for log in logs for event in events(log)]
    made.write_text("\n".join(json.dumps({"topic": t, "value": v}) for t, v in found))
    others = tmp_path / "others.jsonl"
    book = [line for path in prices for line in path.read_text().splitlines()]
    others.write_text("\n".join(line for line in book if json.loads(line)["value"]["sku"] != "edge.power"))
    data = tmp_path / "meter"
    replayed = trainfare("replay", others, made, "--data", data)
    assert replayed.code == 0, replayed.err

    def asked(sql: str) -> list[dict[str, Any]]:
        done = trainfare("sql", sql, "--data", data, "--format", "json")
        assert done.code == 0, done.err
        return list(json.loads(done.out))

    costs_of = "SELECT component, sku, sum(cost_usd) AS usd FROM ledger WHERE job_id = 'kitchen/17'"
    (energy,) = asked(f"{costs_of} AND component = 'compute' GROUP BY ALL")
    assert (energy["sku"], float(energy["usd"])) == ("", 0)
    told = "SELECT subject_kind, subject_name, summary, evidence_sql FROM alerts"
    (alert,) = asked(f"{told} WHERE rule = 'missing_price'")
    assert (alert["subject_kind"], alert["subject_name"]) == ("instance_type", "watt")
    assert " Wh): no price for energy (instance_type watt), 0 if it is free" in alert["summary"]
    assert "watt,compute,watt,USD,instance_hour," in alert["evidence_sql"]
    listed = trainfare("jobs", "--data", data)
    assert "part unpriced" in listed.out


def test_the_oracle_says_the_same_of_energy_without_a_price(prices: list[Path]) -> None:
    said = [json.loads(line)["value"] for path in prices for line in path.read_text().splitlines()]
    log = [Line("prices", value) for value in said if value["sku"] != "edge.power"]
    log += [Line(topic, dict(value)) for topic, value in events(lines("kitchen/17", 20, 9, hours=1))]
    found = meter(log).ledger
    assert found == compute(log).ledger
    assert sum(row.quantity for key, row in found.items() if key.component == "compute" and not key.sku) > 0


def test_the_check_prints_the_sample() -> None:
    done = trainfare("collect", "json-files", "--check", SAMPLE, "--config", MAP)
    assert (done.code, done.err) == (0, "")
    printed = [json.loads(line) for line in done.out.splitlines()]
    wanted = events(SAMPLE.read_text().splitlines())
    assert printed == [{"topic": topic, "value": value} for topic, value in wanted]
    watts = [value["instance_count"] for _, value in wanted if value.get("type") == "updated"]
    assert watts == [12, 3.657, 11.989]  # 465 J / 38.75 s, 81.7 / 22.34, 110.9 / 9.25


def test_the_same_rules_read_kafka() -> None:
    rules = [{**rule, "topic": "edge.log"} for rule in table()["rules"]]
    relay = RecordMap(KafkaOptions.model_validate({**table(), "rules": rules}))
    log = SAMPLE.read_text().splitlines()
    assert [event for line in log for event in relay.of_record("edge.log", line.encode()).events] == events(
        log
    )


def test_a_stay_without_its_energy_is_said_and_its_time_metered(tmp_path: Path) -> None:
    record = json.loads(SAMPLE.read_text().splitlines()[0])
    del record["joules"]
    file = tmp_path / "a.jsonl"
    file.write_text(json.dumps(record))
    done = trainfare("collect", "json-files", "--config", MAP, "--files", file, "--dry-run")
    assert [json.loads(line)["value"]["type"] for line in done.out.splitlines()] == ["started", "completed"]
    assert "a.jsonl line 1: rule `power`, field `instance_count`" in done.err


def test_each_cause_has_one_remedy_that_names_this_collector_and_its_map(tmp_path: Path) -> None:
    stay = json.loads(SAMPLE.read_text().splitlines()[0])
    no_unit = {key: value for key, value in stay.items() if key != "joules"} | {"energy": 465}
    (tmp_path / "a.jsonl").write_text(
        "\n".join(["no json", json.dumps(stay | {"ended": "lost"}), json.dumps(no_unit)])
    )
    done = trainfare("collect", "json-files", "--config", MAP, "--files", tmp_path / "a.jsonl", "--dry-run")
    said = {line.split(" ")[3].rstrip(";"): line for line in done.err.splitlines()[1:]}
    assert said.keys() == {"malformed_json", "unit", "value"}
    trial = (
        f"; change the rule of the map; trainfare collect json-files --config {MAP} --check SAMPLE tries it"
    )
    assert said["value"].endswith(trial)
    for reason in ("malformed_json", "unit"):
        assert said[reason].endswith(f"; {REMEDIES[reason]}")
        assert "change the rule" not in said[reason]
    assert said["unit"].count("joules(") == 1
    checked = trainfare("collect", "json-files", "--config", MAP, "--check", tmp_path / "a.jsonl")
    assert f"({REMEDIES['unit']})" in checked.one_line()


@pytest.mark.parametrize(
    "change",
    [{"terms": "leased"}, {"ended": "lost"}, {"from": "soon"}, {"slot": -1}, {"to": "2026-05-31T10:00:00Z"}],
)
def test_of_a_stay_that_cannot_begin_or_end_no_event_is_made(change: dict[str, Any]) -> None:
    line = json.loads(SAMPLE.read_text().splitlines()[0]) | change
    made, faults = RecordMap(Options.model_validate(table())).of_record(LINE, json.dumps(line).encode())
    assert (made, bool(faults)) == ([], True)


def test_without_files_it_says_what_to_name() -> None:
    done = trainfare("collect", "json-files", "--config", MAP, "--dry-run")
    assert (done.code, done.out) == (2, "")
    assert "--files" in done.one_line()


@pytest.mark.long
def test_ten_thousand_devices_a_round(prices: list[Path]) -> None:
    log = lines("kitchen/17", 10_000, 6)
    tables = metered(prices, log, random.Random(6).sample(log, len(log)))
    assert not tables.dead
    assert costs(tables, "kitchen/17") == cost_nano(log)
