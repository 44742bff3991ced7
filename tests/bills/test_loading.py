"""Bills are loaded whole, once, and replaced only on request."""

from __future__ import annotations

import gzip
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from sinks.clickhouse import ClickHouseStore
from streams.errors import WrongUseError
from tests.bills.bill import NOW_MS, SAMPLE, line, loaded, stored, written
from tests.sinks.rows import dicts

TOTAL = "SELECT count() AS lines, sum(billed_cost) AS billed FROM billed_lines"
real = pytest.mark.skipif(not SAMPLE.exists(), reason="the shared data are not here")


@real
def test_the_sample_loads_to_the_last_digit(store: ClickHouseStore) -> None:
    (each,) = loaded(store, SAMPLE)
    assert (each.lines, each.rounded, len(each.periods)) == (703, 0, 5)
    assert dicts(store, TOTAL) == [{"lines": 703, "billed": Decimal("16.4038569888")}]
    assert round(Decimal("16.4038569888"), 6) == Decimal("16.403857")
    (days,) = dicts(store, "SELECT sum(billed_usd + correction_usd) AS billed FROM billed_days")
    assert days["billed"] == Decimal("16.4038569888")
    (found,) = dicts(
        store, "SELECT countIf(billed_cost < 0) AS negative, uniqExact(other['Id']) AS ids FROM billed_lines"
    )
    assert found == {"negative": 11, "ids": 703}


@real
def test_parquet_says_the_same(store: ClickHouseStore, tmp_path: Path) -> None:
    loaded(store, SAMPLE)
    columns = "* EXCEPT (load_id, line, other)"
    before = sorted(store.ask(f"SELECT {columns} FROM billed_lines").rows(), key=repr)
    options = pa.csv.ConvertOptions(null_values=["NULL", ""], strings_can_be_null=True, include_columns=None)
    table = pa.csv.read_csv(SAMPLE, convert_options=options)
    costs = {
        name: pa.decimal128(38, 15)
        for name in table.column_names
        if name.endswith(("Cost", "Quantity", "UnitPrice"))
    }
    texts = {name: pa.string() for name in table.column_names if name.endswith(("Id", "Class"))}
    table = pa.csv.read_csv(
        SAMPLE,
        convert_options=pa.csv.ConvertOptions(
            null_values=["NULL", ""], strings_can_be_null=True, column_types={**costs, **texts}
        ),
    )
    pq.write_table(table, tmp_path / "f.parquet", row_group_size=200)
    loaded(store, tmp_path / "f.parquet", replace=True)
    after = sorted(store.ask(f"SELECT {columns} FROM billed_lines").rows(), key=repr)
    assert len(after) == 703
    assert after == before


def test_the_same_file_again_changes_nothing(store: ClickHouseStore, tmp_path: Path) -> None:
    path = written(tmp_path / "f.csv", line(), line(ResourceId="n2"))
    assert [each.is_new for each in loaded(store, path)] == [True]
    before = stored(store)
    with gzip.open(tmp_path / "g.csv.gz", "wb") as packed:
        packed.write(path.read_bytes())
    for again in (path, tmp_path / "g.csv.gz"):
        assert [each.is_new for each in loaded(store, again, now_ms=NOW_MS + 1)] == [False]
    assert stored(store) == before


def test_another_file_of_a_loaded_bill_is_refused_unless_it_replaces(
    store: ClickHouseStore, tmp_path: Path
) -> None:
    first = written(tmp_path / "f.csv", line(), line(ResourceId="n2"))
    other_account = written(tmp_path / "o.csv", line(BillingAccountId="other", BilledCost="7"))
    loaded(store, first)
    loaded(store, other_account)
    better = written(tmp_path / "b.csv", line(BilledCost="4"))
    with pytest.raises(
        WrongUseError,
        match=r"acct from 2026-03-01 is loaded already, by f\.csv on 2027-01-15; if .* --replace",
    ):
        loaded(store, better)
    assert dicts(store, TOTAL) == [{"lines": 3, "billed": 10}]
    (each,) = loaded(store, better, replace=True)
    assert each.replaces == ["f.csv"]
    assert dicts(store, TOTAL) == [{"lines": 2, "billed": 11}]
    statuses = {row["file"]: row["status"] for row in stored(store)["bill_loads"]}
    assert statuses == {"f.csv": "replaced", "o.csv": "loaded", "b.csv": "loaded"}
    loaded(store, first, replace=True)
    assert dicts(store, TOTAL) == [{"lines": 3, "billed": 10}]


def test_a_file_of_two_periods_replaces_only_its_own(store: ClickHouseStore, tmp_path: Path) -> None:
    april = {
        "BillingPeriodStart": "2026-04-01",
        "BillingPeriodEnd": "2026-05-01",
        "ChargePeriodStart": "2026-04-01T00:00:00Z",
        "ChargePeriodEnd": "2026-04-01T02:00:00+01:00",
    }
    loaded(store, written(tmp_path / "two.csv", line(), line(**april, BilledCost="3")))
    loaded(store, written(tmp_path / "april.csv", line(**april, BilledCost="5")), replace=True)
    assert dicts(store, TOTAL) == [{"lines": 2, "billed": Decimal("6.5")}]


def test_files_of_one_command_are_parts_of_one_bill(store: ClickHouseStore, tmp_path: Path) -> None:
    one, two = written(tmp_path / "1.csv", line()), written(tmp_path / "2.csv", line(ResourceId="n2"))
    loaded(store, one)
    assert [each.is_new for each in loaded(store, one, two)] == [False, True]
    assert dicts(store, TOTAL) == [{"lines": 2, "billed": 3}]
    copy = tmp_path / "3.csv"
    copy.write_bytes(one.read_bytes())
    with pytest.raises(WrongUseError, match="content is named twice"):
        loaded(store, one, copy)


def test_late_corrections_are_added_and_kept_apart(store: ClickHouseStore, tmp_path: Path) -> None:
    loaded(store, written(tmp_path / "f.csv", line()))
    loaded(store, written(tmp_path / "c.csv", line(ChargeClass="Correction", BilledCost="-0.5")))
    (day,) = dicts(store, "SELECT billed_usd, correction_usd, lines, correction_lines FROM billed_days")
    assert day == {
        "billed_usd": Decimal("1.5"),
        "correction_usd": Decimal("-0.5"),
        "lines": 1,
        "correction_lines": 1,
    }


def test_corrections_do_not_stand_in_the_way_of_their_bill(store: ClickHouseStore, tmp_path: Path) -> None:
    loaded(store, written(tmp_path / "c.csv", line(ChargeClass="Correction", BilledCost="-0.5")))
    loaded(store, written(tmp_path / "f.csv", line()))
    assert dicts(store, TOTAL) == [{"lines": 2, "billed": 1}]


def test_names_of_version_1_3_are_read(store: ClickHouseStore, tmp_path: Path) -> None:
    values = line(ResourceName="=cmd|' /C calc'!A0", x_Custom="1")
    values["ServiceProviderName"], values["HostProviderName"] = (
        values.pop("ProviderName"),
        values.pop("PublisherName"),
    )
    loaded(store, written(tmp_path / "f.csv", values))
    (row,) = dicts(store, "SELECT provider_name, publisher_name, resource_name, other FROM billed_lines")
    assert row == {
        "provider_name": "Cloud",
        "publisher_name": "Cloud Inc.",
        "resource_name": "=cmd|' /C calc'!A0",
        "other": {"x_Custom": "1"},
    }


def test_amounts_with_exponents_and_more_than_18_decimals(store: ClickHouseStore, tmp_path: Path) -> None:
    rows = [
        line(BilledCost="1.2E-05"),
        line(BilledCost="0.0000000000000000015"),
        line(BilledCost="-0.0000000000000000025"),
    ]
    (each,) = loaded(store, written(tmp_path / "f.csv", *rows))
    assert each.rounded == 2
    found = [row["billed_cost"] for row in stored(store)["bill_lines"]]
    assert found == [Decimal("0.000012"), Decimal("0.000000000000000002"), Decimal("-0.000000000000000002")]


def test_a_charge_is_spread_over_its_days_to_the_last_digit(store: ClickHouseStore, tmp_path: Path) -> None:
    period = {"ChargePeriodStart": "2026-03-01 18:00:00", "ChargePeriodEnd": "2026-03-04 00:00:00"}
    loaded(
        store, written(tmp_path / "f.csv", line(**period, BilledCost="-0.000000000000000010", ListCost="1"))
    )
    found = [
        (str(row["day"]), row["billed_usd"] * 10**18)
        for row in dicts(store, "SELECT day, billed_usd FROM billed_days ORDER BY day")
    ]
    assert found == [("2026-03-01", -1), ("2026-03-02", -4), ("2026-03-03", -5)]


def test_a_bill_of_another_zone_is_of_its_issuers_month(store: ClickHouseStore, tmp_path: Path) -> None:
    """Its hours stay the instants that they are."""
    period = {
        "BillingPeriodStart": "2026-03-01T00:00:00+01:00",
        "BillingPeriodEnd": "2026-04-01T00:00:00+02:00",
        "ChargePeriodStart": "2026-03-29T00:00:00+01:00",
        "ChargePeriodEnd": "2026-03-30T00:00:00+02:00",
    }
    loaded(store, written(tmp_path / "f.csv", line(**period)))
    (found,) = dicts(
        store,
        "SELECT billing_period_start, billing_period_end, charge_period_start, charge_period_end FROM bill_lines",
    )
    assert [f"{each:%m-%d %H}" for each in found.values()] == ["03-01 00", "04-01 00", "03-28 23", "03-29 22"]


def test_a_charge_of_a_year_stands_on_its_first_day(store: ClickHouseStore, tmp_path: Path) -> None:
    loaded(store, written(tmp_path / "f.csv", line(ChargePeriodEnd="2027-03-01 00:00:00")))
    assert [str(row["day"]) for row in dicts(store, "SELECT day FROM billed_days")] == ["2026-03-01"]
