"""The example price file: every record is one the contract accepts, and every figure is explained beside it."""

import json
import re
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.price_records import price_records

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ALLOWED_PER = {
    "gpu": {"gpu_hour", "instance_hour"},
    "compute": {"instance_hour", "vcpu_hour", "memory_gib_hour", "job_hour"},
    "license": {"gpu_hour", "instance_hour", "job_hour"},
    "labor": {"gpu_hour", "instance_hour", "job_hour"},
    "overhead": {"gpu_hour", "instance_hour", "job_hour"},
    "network": {"gib", "gb"},
    "storage": {"gib", "gb", "thousand_requests", "gib_month"},
}
Record = dict[str, Any]


@pytest.fixture(scope="module")
def prices() -> list[Record]:
    lines = [json.loads(line) for line in (EXAMPLES / "prices.jsonl").read_text().splitlines()]
    assert {line["topic"] for line in lines} == {"prices"}
    return [line["value"] for line in lines]


def test_each_price_is_a_decimal_string_in_its_range(prices: list[Record]) -> None:
    for price in prices:
        assert re.fullmatch(r"\d+(\.\d{1,9})?", price["usd"]), price
        assert 0 <= Decimal(price["usd"]) < 100_000


def test_each_component_is_priced_per_a_quantity_it_may_have(prices: list[Record]) -> None:
    for price in prices:
        assert price["per"] in ALLOWED_PER[price["component"]], price
        assert (price["per"] == "instance_hour") == ("gpus" in price), price


def test_a_sku_has_one_record_for_each_date_and_ids_are_unique(prices: list[Record]) -> None:
    keys = Counter((price["sku"], price["effective_ms"]) for price in prices)
    assert set(keys.values()) == {1}
    assert len({price["id"] for price in prices}) == len(prices)


def test_no_two_skus_of_one_component_match_the_same_fields(prices: list[Record]) -> None:
    plain = {"id", "source", "time_ms", "sku", "component", "usd", "per", "gpus", "effective_ms"}
    owners: dict[Any, str] = {}
    for price in prices:
        match = tuple(sorted((name, value) for name, value in price.items() if name not in plain))
        key = (price["component"], price["per"], match)
        assert owners.setdefault(key, price["sku"]) == price["sku"], price


def test_prices_do_not_move_the_clock_of_a_replay(prices: list[Record]) -> None:
    begin_ms = datetime(2020, 1, 1, tzinfo=UTC).timestamp() * 1000
    assert {price["time_ms"] for price in prices} == {begin_ms}
    assert min(price["effective_ms"] for price in prices) == begin_ms


def test_the_load_command_takes_the_file(prices: list[Record]) -> None:
    records = price_records(EXAMPLES / "prices.jsonl", now_ms=1_800_000_000_000)
    assert [json.loads(record.value) for record in records] == prices


def test_a_revision_falls_inside_the_example(prices: list[Record]) -> None:
    dates = sorted(price["id"].partition("@")[2] for price in prices if price["sku"] == "venus.v100")
    assert dates == ["2020-01-01", "2020-04-11"]


def test_each_record_has_its_row_with_the_same_figure(prices: list[Record]) -> None:
    rows = re.findall(
        r"^\| (\S+) \| (\d{4}-\d\d-\d\d) \| (\S+) \| ([^|]+?) \| (\w+) \|", _page(), re.MULTILINE
    )
    documented = {(sku, date): (usd, per) for sku, date, usd, per, _ in rows}
    assert {kind for *_, kind in rows} == {"list", "derived", "assumption"}
    for price in prices:
        date = datetime.fromtimestamp(price["effective_ms"] / 1000, UTC).date().isoformat()
        per = price["per"] + (f" / {price['gpus']} GPUs" if "gpus" in price else "")
        assert price["id"] == f"{price['sku']}@{date}"
        assert documented.pop((price["sku"], date)) == (price["usd"], per)
    assert documented == {}


def _page() -> str:
    return (EXAMPLES / "prices.md").read_text()
