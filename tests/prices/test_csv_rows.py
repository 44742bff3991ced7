"""Price lists in CSV: headers as people write them, dates, components by quantity; faults by line and column."""

from __future__ import annotations

import json

import pytest

from streams.errors import WrongUseError
from streams.prices.records import format_of, records_of
from streams.prices.source import PriceList
from tests.prices.given import read

DAY_MS = 86_400_000


def test_a_list_as_people_write_it() -> None:
    text = "\ufeff SKU , GPU Type,USD,Per,From,note\r\nh100, H100 ,2.50,gpu_hour,2026-10-01,from the offer\r\n\r\nh100,H100,3,gpu_hour,,\r\n"
    first, second = read(text)
    assert first.line == 2
    assert json.loads(first.value) == {
        "sku": "h100", "gpu_type": "H100", "usd": "2.50", "per": "gpu_hour", "component": "gpu",
        "effective_ms": 1_790_812_800_000, "id": "h100@1790812800000", "source": "trainfare prices load",
        "time_ms": 1_800_000_000_000,
    }  # fmt: skip
    assert second.line == 4
    assert second.event.effective_ms == 0, "since ever"


@pytest.mark.parametrize(
    ("text", "effective_ms"),
    [
        ("", 0),
        ("1970-01-02", DAY_MS),
        ("2026-10-01", 1_790_812_800_000),
        ("2026-10-01T00:00Z", 1_790_812_800_000),
        ("2026-10-01 00:00:00", 1_790_812_800_000),
        ("2026-10-01T02:00:00.250+02:00", 1_790_812_800_250),
    ],
)
def test_from(text: str, effective_ms: int) -> None:
    (record,) = read(f"sku,usd,per,from\nh,1,gpu_hour,{text}\n")
    assert record.event.effective_ms == effective_ms


@pytest.mark.parametrize(
    ("per", "more", "component"),
    [
        ("gpu_hour", {}, "gpu"),
        ("instance_hour", {"gpus": "8"}, "gpu"),
        ("instance_hour", {}, "compute"),
        ("vcpu_hour", {}, "compute"),
        ("memory_gib_hour", {}, "compute"),
        ("gb", {"path": "internet"}, "network"),
        ("gib", {}, "network"),
        ("gb", {"op": "read"}, "storage"),
        ("gb", {"storage_class": "standard"}, "storage"),
        ("thousand_requests", {}, "storage"),
        ("gib_month", {}, "storage"),
        ("gpu_hour", {"component": "labor"}, "labor"),
    ],
)
def test_component_by_quantity(per: str, more: dict[str, str], component: str) -> None:
    header, row = ",".join(["sku,usd,per,from", *more]), ",".join([f"s,1,{per},", *more.values()])
    (record,) = read(f"{header}\n{row}\n")
    assert record.event.component == component


def test_all_match_fields() -> None:
    fields = {
        "cloud": "aws", "region": "r", "zone": "z", "cluster": "c", "account": "a", "instance_type": "i",
        "gpu_type": "g", "purchase": "spot", "team": "t", "project": "p", "path": "internet", "direction": "egress",
        "op": "read", "storage_class": "s",
    }  # fmt: skip
    (record,) = read(f"sku,usd,per,from,{','.join(fields)}\ns,1,gb,,{','.join(fields.values())}\n")
    assert record.event.match == fields


def test_effective_ms_still_works() -> None:
    (record,) = read("sku,usd,per,effective_ms\nh,1,gpu_hour,1700000000000\n")
    assert record.event.effective_ms == 1_700_000_000_000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sku,usd,per,from,gpu_typ\n", "p.csv line 1: column 5 `gpu_typ` is unknown (did you mean `gpu_type`?)"),
        ("sku,usd,per,from,warranty\n", "column 5 `warranty` is unknown (known are sku, "),
        ("sku,usd,per,from,SKU\n", "line 1: column 5 `sku` is there twice"),
        ("sku,per,from\n", "line 1: the header has no column `usd`"),
        ("sku,usd,per\n", "line 1: the header has no column `from`"),
        ("sku;usd;per;from\n", "line 1: the columns are separated by `;`"),
        ("sku,usd,per,from\nh,1,gpu_hour,1.10.2026\n", "line 2: column `from`: got '1.10.2026'; expected a date (2026-10-01"),
        ("sku,usd,per,from\nh,1,gpu_hour,2026-02-30\n", "line 2: column `from`: got '2026-02-30'; there is no such day"),
        ("sku,usd,per,from\nh,1,gpu_hour,1969-12-31\n", "expected a time from 1970 to 2299"),
        ("sku,usd,per,from\nh,1,gpu_hour,2300-01-01\n", "expected a time from 1970 to 2299"),
        ("sku,usd,per,from,effective_ms\nh,1,gpu_hour,2026-10-01,5\n", "line 2: columns `from` and `effective_ms` both"),
        ('sku,usd,per,from\nh,"1,5",gpu_hour,\n', 'line 2: field `usd`: got "1,5"'),
        ("sku,usd,per,from\nh,$1,gpu_hour,\n", "line 2: field `usd`"),
        ("sku,usd,per,from\n\nh,1,job_hour,\n", "line 3: field `component`: got nothing"),
        ("sku,usd,per,from,purchase\nh,1,gpu_hour,,cheap\n", "line 2: field `purchase`"),
        ("sku,usd,per,from,gpus\nh,1,instance_hour,,many\n", "line 2: field `gpus`"),
        ('sku,usd,per,from\n"h,1,gpu_hour,\n', "line 2: not CSV"),
        ("sku,usd,per,from\nh,1,gpu_hour,\nh,2,gpu_hour,\n", "line 3: sku 'h' has another price from the same time on line 2"),
        ("sku,usd,per,from\nh\x1b[2J,1,mile,\n", "line 2: field `per`"),
        ("sku,usd,per,from\x1b[2J\n", "column 4 `from\\x1b[2J` is unknown"),
        ("sku,usd,per,from\n", "no price records"),
    ],
)  # fmt: skip
def test_faults_are_named_by_line_and_column(text: str, said: str) -> None:
    with pytest.raises(WrongUseError) as caught:
        read(text)
    assert said in str(caught.value)
    assert "\x1b" not in str(caught.value)


def test_what_is_not_utf_8_is_named() -> None:
    given = PriceList("p.csv", b"sku,usd,per,from\nh,1,gpu_hour,\ncaf\xe9,1,gpu_hour,\n")
    with pytest.raises(WrongUseError, match="line 3: byte 0xe9 is not UTF-8"):
        records_of(given, format_of(given), 0)


def test_the_same_line_twice_is_one_price() -> None:
    assert len(read("sku,usd,per,from\nh,1,gpu_hour,\nh,1,gpu_hour,\n")) == 1
