"""One suite over all formats of bills: the same charges are the same lines, whoever wrote them."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sinks.clickhouse import ClickHouseStore
from streams.bills.files import BillFile
from streams.bills.formats.known import FORMATS, NAMES
from streams.bills.formats.record import BillFormat
from streams.bills.loading import Loaded, load
from streams.bills.reading import NOTHING_ASKED, AskedFormat
from streams.bills.trial import tried
from streams.errors import WrongUseError
from streams.packed import open_packed
from tests.bills.bill import NOW_MS
from tests.bills.exports import BILLS, EXPORTS, Bill, Export, csv_text, focus, gcp_records, total_of
from tests.sinks.rows import dicts

OTHERS = tuple(name for name in EXPORTS if name != "focus")
#: What is not said of a charge, but of the file and of who wrote it.
OF_FILE = "load_id, line, other, version"
OF_PROVIDER = "invoice_issuer_name, provider_name, publisher_name"
TOTAL = (
    "SELECT count() AS lines, sum(billed_cost) AS billed, sum(effective_cost) AS effective FROM billed_lines"
)


def written(tmp_path: Path, export: Export, bills: Sequence[Bill] = BILLS, name: str = "bill") -> Path:
    path = tmp_path / f"{name}.{export.ending}"
    path.write_text(export.text(bills), encoding="utf-8")
    return path


def loaded(
    store: ClickHouseStore,
    *paths: Path,
    asked: AskedFormat = NOTHING_ASKED,
    replace: bool = False,
    now_ms: int = NOW_MS,
) -> list[Loaded]:
    files = [BillFile(str(path), lambda path=path: open_packed(path)) for path in paths]  # type: ignore[misc]  # its default is the path
    return load(store, files, now_ms, replace=replace, asked=asked)


def lines(store: ClickHouseStore, of: Loaded, without: str = OF_FILE) -> list[tuple[object, ...]]:
    sql = f"SELECT * EXCEPT ({without}) FROM bill_lines FINAL WHERE load_id = {{load:String}}"
    return sorted(store.ask(sql, {"load": of.load_id}).rows(), key=repr)


def refused(store: ClickHouseStore, path: Path, asked: AskedFormat = NOTHING_ASKED) -> str:
    with pytest.raises(WrongUseError) as caught:
        loaded(store, path, asked=asked)
    assert dicts(store, TOTAL)[0]["lines"] == 0
    return str(caught.value)


def test_every_format_is_in_the_suite() -> None:
    assert {each.format for each in EXPORTS.values()} | {"seats"} == set(NAMES)


@pytest.mark.parametrize("name", [name for name in OTHERS if EXPORTS[name].can_say_all])
def test_the_same_charges_are_the_same_lines(name: str, store: ClickHouseStore, tmp_path: Path) -> None:
    export = EXPORTS[name]
    (found,) = loaded(store, written(tmp_path, export))
    assert (found.format, found.title, found.lines) == (export.format, export.title, len(BILLS))
    ours = lines(store, found)
    path = tmp_path / "focus.csv"
    path.write_text(focus(BILLS, export.provider), encoding="utf-8")
    (theirs,) = loaded(store, path, replace=True)
    assert theirs.replaces == [f"bill.{export.ending}"]
    assert ours == lines(store, theirs)


@pytest.mark.parametrize("name", OTHERS)
def test_sums_are_equal_to_the_last_digit(name: str, store: ClickHouseStore, tmp_path: Path) -> None:
    loaded(store, written(tmp_path, EXPORTS[name]))
    (total,) = dicts(store, TOTAL)
    assert total == {"lines": len(BILLS), "billed": total_of(BILLS), "effective": total_of(BILLS)}
    (days,) = dicts(store, "SELECT sum(billed_usd) AS billed FROM billed_days")
    assert days["billed"] == total_of(BILLS)


def test_providers_differ_in_their_names_alone(store: ClickHouseStore, tmp_path: Path) -> None:
    found = {}
    for name, export in EXPORTS.items():
        if export.can_say_all:
            (each,) = loaded(store, written(tmp_path, export, name=name), replace=True)
            found[name] = lines(store, each, f"{OF_FILE}, {OF_PROVIDER}")
    assert len(found) == 8
    assert all(each == found["focus"] for each in found.values())


@pytest.mark.parametrize("name", OTHERS)
def test_every_column_of_the_file_is_kept(name: str, store: ClickHouseStore, tmp_path: Path) -> None:
    path = written(tmp_path, EXPORTS[name], BILLS[:1])
    loaded(store, path)
    (row,) = dicts(store, "SELECT other FROM bill_lines")
    kept = dict(row["other"])
    if path.suffix == ".jsonl":
        (record,) = [json.loads(each) for each in path.read_text(encoding="utf-8").splitlines()]
        assert (kept["sku.id"], kept["export_time"]) == (record["sku"]["id"], record["export_time"])
        return
    (cells,) = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8")))
    assert kept == {name: text for name, text in cells.items() if text}


@pytest.mark.parametrize("name", OTHERS)
def test_a_newer_export_of_the_month_replaces_the_older(
    name: str, store: ClickHouseStore, tmp_path: Path
) -> None:
    export = EXPORTS[name]
    first, newer = written(tmp_path, export, BILLS[:2], "first"), written(tmp_path, export, BILLS, "newer")
    loaded(store, first)
    assert [each.is_new for each in loaded(store, first, now_ms=NOW_MS + 1)] == [False]
    with pytest.raises(WrongUseError, match="is loaded already"):
        loaded(store, newer)
    loaded(store, newer, replace=True)
    assert dicts(store, TOTAL)[0]["billed"] == total_of(BILLS)


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("amount", ["NaN", "1e400", "-inf", "=1+1", "1,5", "", "0x10", "9" * 400])
def test_what_is_no_amount_is_refused_by_place(
    name: str, amount: str, store: ClickHouseStore, tmp_path: Path
) -> None:
    export = EXPORTS[name]
    bad = BILLS[1]._replace(cost=amount)
    records = gcp_records([BILLS[0]])
    path = tmp_path / f"bill.{export.ending}"
    if export.ending == "jsonl":
        number = amount if amount and amount[0] in "-19" and "," not in amount else json.dumps(amount)
        text = json.dumps(records[0] | {"cost": "AMOUNT"}).replace('"AMOUNT"', number)
        path.write_text(json.dumps(records[0]) + "\n" + text + "\n", encoding="utf-8")
    else:
        with_cost = csv.DictReader(io.StringIO(export.text([BILLS[0], BILLS[1]])))
        rows = list(with_cost)
        rows[1][export.cost_column] = bad.cost
        out = io.StringIO()
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        path.write_text(out.getvalue(), encoding="utf-8")
    said = refused(store, path)
    assert said.startswith(f"{path} line {2 if export.ending == 'jsonl' else 3}: ")
    assert len(said) < len(str(path)) + 250


@pytest.mark.parametrize("name", OTHERS)
def test_a_forced_format_that_a_file_is_not_is_refused(
    name: str, store: ClickHouseStore, tmp_path: Path
) -> None:
    export = EXPORTS[name]
    path = written(tmp_path, export)
    wrong = "oracle" if export.format != "oracle" else "gcp"
    said = refused(store, path, AskedFormat(format=wrong))
    assert f"it seems to be {export.title} (--format {export.format})" in said
    assert "expected one of focus, aws-cur-2" in refused(store, path, AskedFormat(format="excel"))
    loaded(store, path, asked=AskedFormat(format=export.format))
    assert dicts(store, TOTAL)[0]["lines"] == len(BILLS)


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: f"{form.name}-{len(form.signature)}")
def test_a_header_that_lacks_a_column_of_its_format_is_refused_by_that_column(
    form: BillFormat, store: ClickHouseStore, tmp_path: Path
) -> None:
    path = tmp_path / "f.csv"
    for missing in form.signature:
        names = [name for name in form.signature if name != missing]
        path.write_text(",".join(names) + "\n" + "1," * (len(names) - 1) + "1\n", encoding="utf-8")
        said = refused(store, path, AskedFormat(format=form.name))
        # A plain list has two forms, of which the first is named.
        assert f"column {'usd' if missing in ('amount', 'currency') else missing} is missing" in said


def test_duplicate_lines_stay_and_are_found(store: ClickHouseStore, tmp_path: Path) -> None:
    loaded(store, written(tmp_path, EXPORTS["aws-cur"], [BILLS[0], BILLS[0]]))
    assert dicts(store, TOTAL)[0]["lines"] == 2
    assert dicts(store, "SELECT max(copies) AS copies FROM billed_lines") == [{"copies": 2}]


@pytest.mark.parametrize("name", OTHERS)
def test_currencies_of_one_file_stay_apart(name: str, store: ClickHouseStore, tmp_path: Path) -> None:
    (found,) = loaded(
        store, written(tmp_path, EXPORTS[name], [*BILLS, BILLS[0]._replace(currency="EUR", day=9)])
    )
    assert sum(each.other_currency_lines for each in found.periods.values()) == 1
    assert sum((each.billed_usd for each in found.periods.values()), Decimal(0)) == total_of(BILLS)


def test_parquet_of_google_is_as_its_json(store: ClickHouseStore, tmp_path: Path) -> None:
    table = pa.Table.from_pylist([{**each, "cost": float(str(each["cost"]))} for each in gcp_records(BILLS)])
    pq.write_table(table, tmp_path / "f.parquet")
    (ours,) = loaded(store, tmp_path / "f.parquet")
    (theirs,) = loaded(store, written(tmp_path, EXPORTS["gcp json"]), replace=True)
    # Its costs are floats.
    without = f"{OF_FILE}, billed_cost, effective_cost, contracted_cost, list_cost"
    assert lines(store, ours, without) == lines(store, theirs, without)


PAIRS = [{"key": "team", "value": "vision", "inherited": False}, {"key": "empty"}]


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_tags_are_maps_or_lists_of_pairs_in_every_format(
    form: str, store: ClickHouseStore, tmp_path: Path
) -> None:
    """Google's view in FOCUS has lists of objects, AWS's exports in Parquet have maps."""
    (cells,) = csv.DictReader(io.StringIO(focus(BILLS[:1], "Google Cloud")))
    path = tmp_path / f"f.{form}"
    if form == "csv":
        path.write_text(csv_text([cells | {"Tags": json.dumps(PAIRS)}]), encoding="utf-8")
    else:
        pq.write_table(pa.Table.from_pylist([cells | {"Tags": PAIRS}]), path)
    loaded(store, path)
    assert dicts(store, "SELECT tags FROM bill_lines") == [{"tags": {"empty": "", "team": "vision"}}]


def test_a_list_of_objects_without_keys_is_no_tags(store: ClickHouseStore, tmp_path: Path) -> None:
    (cells,) = csv.DictReader(io.StringIO(focus(BILLS[:1], "Google Cloud")))
    path = tmp_path / "f.csv"
    path.write_text(csv_text([cells | {"Tags": '[{"team": "vision"}]'}]), encoding="utf-8")
    assert "Tags: expected keys and values" in refused(store, path)


def test_pods_of_split_cost_allocation_cost_nothing_beside_their_instance(
    store: ClickHouseStore, tmp_path: Path
) -> None:
    (instance,) = csv.DictReader(io.StringIO(EXPORTS["aws-cur-2"].text(BILLS[:1])))
    pods = [
        instance
        | {
            "line_item_resource_id": f"arn:aws:eks:eu-central-1:1:pod/c1/ml/{name}",
            "line_item_unblended_cost": "0.0",
            "pricing_public_on_demand_cost": "",
            "split_line_item_parent_resource_id": instance["line_item_resource_id"],
            "split_line_item_split_cost": "18",
        }
        for name in "ab"
    ]
    path = tmp_path / "f.csv"
    path.write_text(csv_text([dict.fromkeys(pods[0], "") | instance, *pods]), encoding="utf-8")
    (found,) = loaded(store, path)
    assert dicts(store, TOTAL)[0] | {"effective": 0} == {
        "lines": 3,
        "billed": Decimal(BILLS[0].cost),
        "effective": 0,
    }
    assert found.notes == [
        "2 lines of pods and tasks without a cost: their part stands on the line of their instance"
    ]
    rows = dicts(store, "SELECT other['split_line_item_split_cost'] AS split FROM bill_lines ORDER BY line")
    assert [row["split"] for row in rows] == ["", "18", "18"]


def test_a_trial_says_what_a_load_would_and_what_is_not_understood(tmp_path: Path) -> None:
    path = tmp_path / "f.csv.gz"
    path.write_bytes(gzip.compress(EXPORTS["aws-cur"].text(BILLS).encode()))
    found = tried(BillFile("f.csv.gz", lambda: open_packed(path)), AskedFormat())
    assert (found.lines, found.faults.count) == (len(BILLS), 0)
    assert {(each.service, each.category, each.lines) for each in found.sums} == {
        ("Compute Engine", "Usage", 4),
        ("Compute Engine", "Adjustment", 1),
    }
    assert sum((each.billed for each in found.sums), Decimal(0)) == total_of(BILLS)
    assert {"identity/LineItemId", "lineItem/BlendedCost"} <= set(found.unread)
    assert "lineItem/UnblendedCost" not in found.unread


@pytest.mark.parametrize("name", ["gcp csv", "gcp flat", "gcp json"])
def test_a_trial_names_of_nested_columns_only_what_it_did_not_read(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"f.{EXPORTS[name].ending}"
    path.write_text(EXPORTS[name].text(BILLS), encoding="utf-8")
    found = tried(BillFile(path.name, lambda: open_packed(path)), AskedFormat())
    assert not {each.partition(".")[0] for each in found.unread} & {"service", "sku", "resource", "usage"}


def test_a_trial_counts_wrong_lines_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text(
        EXPORTS["oracle"].text([BILLS[0], *[BILLS[1]._replace(cost="x")] * 30, BILLS[2]]), encoding="utf-8"
    )
    found = tried(BillFile("f.csv", lambda: open_packed(path)), AskedFormat())
    assert (found.lines, found.faults.count, len(found.faults.first)) == (2, 30, 20)
    assert found.faults.first[0].startswith("f.csv line 3: cost/myCost: 'x' is no number")
