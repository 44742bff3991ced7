"""Commitments of a file and of bills: used and unused by hour, equal to exact arithmetic in plain Python."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from schemas.tables import SCHEMAS
from sinks.clickhouse import ClickHouseStore
from streams.bills.commitment_file import MATCH, commitments_of, load_commitments
from streams.bills.files import BillFile
from streams.bills.lists import ListLoaded
from streams.calendar import Calendar
from streams.costs.commitments import cells, coverage
from streams.costs.day_parts import answered
from streams.costs.parts import HourSpan
from streams.costs.request import Period
from streams.errors import WrongUseError
from streams.packed import open_packed
from tests.bills.bill import NOW_MS, line
from tests.bills.bill import written as focus_written
from tests.bills.test_formats import loaded
from tests.sinks.rows import dicts

T0 = datetime(2026, 10, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
RESERVED = """[[commitment]]
id = "ri-1"
kind = "reserved"
team = "platform"
from = 2026-10-01
to = 2026-10-01T07:00:00Z
gpus = 4
upfront_usd = 100
[commitment.match]
gpu_type = "H100"
"""
ALL = HourSpan(None, None)


def file_of(tmp_path: Path, text: str) -> BillFile:
    path = tmp_path / "commitments.toml"
    path.write_text(text, encoding="utf-8")
    return BillFile(str(path), lambda: open_packed(path))


def stored(store: ClickHouseStore, tmp_path: Path, text: str, now_ms: int = NOW_MS) -> ListLoaded:
    (found,) = load_commitments(store, [file_of(tmp_path, text)], now_ms)
    return found


def use(hour: datetime, job_id: str, gpus: int | Fraction, usd: str, **fields: str) -> dict[str, Any]:
    """A row of `job_hours`: so many GPUs for the whole hour."""
    row: dict[str, Any] = {}
    for field in SCHEMAS["job_hours"]:
        kind = field.type
        row[field.name] = (
            ""
            if kind == pa.string()
            else []
            if pa.types.is_list(kind)
            else Decimal(0)
            if pa.types.is_decimal(kind)
            else 0
        )
    return (
        row
        | {
            "hour": hour,
            "job_id": job_id,
            "version": 1,
            "gpu_milli_ms": int(gpus * 3_600_000_000),
            "gpu_cost_usd": Decimal(usd),
        }
        | fields
    )


def put(store: ClickHouseStore, *rows: dict[str, Any]) -> None:
    store.insert(
        "job_hours",
        pa.Table.from_pylist(list(rows), schema=SCHEMAS["job_hours"]),
        f"hours-{len(rows)}-{rows[0]['hour']}",
    )


def asked(store: ClickHouseStore, steps: Any) -> list[dict[str, Any]]:
    found = answered(steps, lambda sql, bound: store.ask(sql, bound))
    return [dict(zip(found.names, row, strict=True)) for row in found.rows]


def test_hours_sum_to_the_purchase_and_what_nobody_used_has_an_owner(
    store: ClickHouseStore, tmp_path: Path
) -> None:
    """100 dollars are no whole number of nano-dollars in seven hours; by hand: used 4, 2, 0, ... of 4 GPUs."""
    stored(store, tmp_path, RESERVED)
    put(
        store,
        use(T0, "a", 8, "32", gpu_type="h100"),
        use(T0 + HOUR, "a", 2, "8", gpu_type="H100"),
        use(T0 + 6 * HOUR, "b", 9, "3", gpu_type="A100"),
    )
    rows = dicts(store, "SELECT * FROM commitment_hours ORDER BY hour")
    assert [row["cost_usd"] for row in rows] == [
        Decimal(each)
        for each in ("14.285714285", *["14.285714286"] * 2, "14.285714285", *["14.285714286"] * 3)
    ]
    assert sum(row["cost_usd"] for row in rows) == 100
    assert [row["used_usd"] for row in rows[:3]] == [Decimal("14.285714285"), Decimal("7.142857143"), 0]
    assert all(
        row["used_usd"] + row["unused_usd"] == row["cost_usd"] and row["team"] == "platform" for row in rows
    )
    (cell,) = asked(store, cells(("team",), Period.all, ALL))
    assert (cell["team"], cell["unused_usd"]) == ("platform", Decimal("78.571428572"))
    assert cell["utilization_ratio"] == pytest.approx(0.214286)
    (covered,) = asked(store, coverage(Period.day, ALL))
    assert (covered["covered_gpu_h"], covered["gpu_h"]) == (6, 19)


def test_a_newer_file_is_the_whole_list(store: ClickHouseStore, tmp_path: Path) -> None:
    two = RESERVED + RESERVED.replace("ri-1", "ri-2")
    assert (stored(store, tmp_path, two).new, stored(store, tmp_path, two).changed) == (2, 0)
    again = stored(store, tmp_path, RESERVED.replace("gpus = 4", "gpus = 5"), NOW_MS - 5)
    assert (again.changed, again.removed, again.changes) == (1, 1, ["ri-1: changed", "ri-2: removed"])
    put(store, use(T0 + 6 * HOUR, "a", 1, "1"))
    assert dicts(store, "SELECT DISTINCT commitment_id AS id FROM commitment_use") == [{"id": "ri-1"}]
    assert stored(store, tmp_path, two).changes == ["ri-1: changed"]


def test_owned_machines_are_paid_with_power_and_staff(store: ClickHouseStore, tmp_path: Path) -> None:
    """The example of docs/prices.md for a year of 365 days: (280,000 - 28,000) + 10.2 x 1.3 x 0.12 x 8,760 + 20,000."""
    text = """[[commitment]]
id = "lab"
kind = "owned"
from = 2026-01-01
to = 2027-01-01
gpus = 8
upfront_usd = 280000
salvage_usd = "28000"
kw = 10.2
pue = 1.3
usd_per_kwh = 0.12
staff_usd_per_year = 20000
"""
    (row,) = commitments_of(file_of(tmp_path, text))
    assert row["cost_usd"] == Decimal("285938.912")


def test_a_day_of_25_hours_costs_25_hours(store: ClickHouseStore, tmp_path: Path) -> None:
    text = RESERVED.replace(
        "from = 2026-10-01\nto = 2026-10-01T07:00:00Z",
        "from = 2026-10-25T00:00:00+02:00\nto = 2026-10-26T00:00:00+01:00",
    )
    stored(store, tmp_path, text.replace("upfront_usd = 100", "usd_per_hour = 1.5"))
    put(store, use(datetime(2026, 10, 26, tzinfo=UTC), "a", 1, "1"))
    assert dicts(store, "SELECT count() AS hours, sum(cost_usd) AS usd FROM commitment_use") == [
        {"hours": 25, "usd": Decimal("37.5")}
    ]
    berlin = Calendar(zone="Europe/Berlin")
    (day,) = asked(store, cells(("team",), Period.day, ALL, calendar=berlin))
    assert (day["period_start"], day["cost_usd"]) == ("2026-10-25T00:00:00+02:00", Decimal("37.5"))
    (covered,) = asked(store, coverage(Period.day, ALL, berlin))
    assert (covered["period_start"], covered["gpu_h"]) == ("2026-10-26T00:00:00+01:00", 1)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("gpus = 4", "gpus = -4"), "line 7: gpus: '-4' is less than 0"),
        (("gpus = 4", "gpus = 0"), "line 7: gpus: expected how many GPUs"),
        (("gpus = 4", "gpus = 0.0001"), "line 7: gpus: expected how many GPUs"),
        (("gpus = 4", "gpus = nan"), "line 7: gpus: 'NaN' is no number"),
        (("gpus = 4", "gpus = inf"), "line 7: gpus: 'Infinity' is no number"),
        (("gpus = 4", "gpus = true"), "line 7: gpus: expected a number"),
        (("gpus = 4", "gpus = 9999999"), "line 7: gpus: expected how many GPUs"),
        (("upfront_usd = 100", "upfront_usd = -1"), "line 8: upfront_usd: '-1' is less than 0"),
        (("upfront_usd = 100", "upfront_usd = 1e300"), "upfront_usd: '1E+300' is no number"),
        (("upfront_usd = 100", "upfront_usd = 0"), "line 8: upfront_usd: nothing is paid"),
        (("upfront_usd = 100", "upfront_usd = 0.0000000001"), "has more than nine decimals"),
        (("to = 2026-10-01T07:00:00Z", "to = 2026-10-01"), "line 6: to: must be after from"),
        (("to = 2026-10-01T07:00:00Z", "to = 2025-10-01"), "line 6: to: must be after from"),
        (("to = 2026-10-01T07:00:00Z", "to = 2099-10-01"), "line 6: to: more than 50 years"),
        (("to = 2026-10-01T07:00:00Z", "to = 2026-10-01T07:30:00Z"), "line 6: to: expected a whole hour of UTC"),
        (("to = 2026-10-01T07:00:00Z", "to = 07:00:00"), "line 6: to: expected a day"),
        (("from = 2026-10-01", "from = 0001-01-01T00:00:00+14:00"), "from: expected a year from 2000"),
        (('kind = "reserved"', 'kind = "gift"'), "line 3: kind: 'gift', expected one of reserved"),
        (('kind = "reserved"', 'kind = "savings_plan"'), "line 7: gpus: a savings plan commits to dollars"),
        (('kind = "reserved"', 'kind = "reserved"\npue = 1.3'), "line 4: pue: is of what is owned"),
        (('id = "ri-1"', 'id = ""'), "line 2: id: expected the id"),
        (('id = "ri-1"', 'id = "a\\u202eb"'), "line 2: id: expected"),
        (('team = "platform"', 'team = ["a"]'), "line 4: team: expected a text"),
        (('team = "platform"', 'price = 1'), "line 4: price: is unknown"),
        (('gpu_type = "H100"', 'labels = "x"'), "line 10: match.labels: is unknown"),
        (("[commitment.match]\n", "match = 3\n#"), "match: expected a table"),
        (("[[commitment]]", "[commitment]"), "has no [[commitment]]"),
        (("[[commitment]]", "x = 1\n[[commitment]]"), "'x' is unknown"),
        (("gpus = 4", "gpus ="), "line 7: no TOML"),
        (("gpus = 4", "gpus = " + "[" * 4_000), "nested too deeply"),
        (("gpus = 4", "gpus = " + "9" * 4_050), "gpus:"),
        (("[[commitment]]", "<html>"), "is HTML or XML"),
    ],
)  # fmt: skip
def test_what_is_no_commitment_is_refused_by_line(
    change: tuple[str, str], said: str, store: ClickHouseStore, tmp_path: Path
) -> None:
    text = RESERVED.replace(*change)
    assert text != RESERVED
    with pytest.raises(WrongUseError) as caught:
        stored(store, tmp_path, text)
    assert said in str(caught.value)
    assert dicts(store, "SELECT count() AS rows FROM commitments") == [{"rows": 0}]


def test_the_same_id_twice_too_many_hours_and_two_files_are_refused(
    store: ClickHouseStore, tmp_path: Path
) -> None:
    with pytest.raises(WrongUseError, match="line 12: id: 'ri-1' stands before it"):
        stored(store, tmp_path, RESERVED + RESERVED)
    long = RESERVED.replace("to = 2026-10-01T07:00:00Z", "to = 2076-10-01")
    with pytest.raises(WrongUseError, match="hours of commitments, more than"):
        stored(store, tmp_path, "".join(long.replace("ri-1", f"ri-{number}") for number in range(60)))
    file = file_of(tmp_path, RESERVED)
    with pytest.raises(WrongUseError, match="name one file"):
        load_commitments(store, [file, file], NOW_MS)


def oracle(
    entries: list[dict[str, Any]], uses: dict[int, dict[tuple[str, ...], list[int]]], hours: int
) -> dict[tuple[int, str], tuple[int, int]]:
    """(hour, id) -> nano-dollars of cost and of what was used, from the rule of docs/commitments.md."""
    found = {}
    for hour in range(hours):
        left = {fields: gpu for fields, (gpu, _) in uses.get(hour, {}).items()}
        order = sorted(entries, key=lambda each: (-sum(map(bool, each["fields"])), each["from"], each["id"]))
        for each in order:
            if not each["from"] <= hour < each["to"]:
                continue
            length, place = each["to"] - each["from"], hour - each["from"]
            cost = each["nano"] * (place + 1) // length - each["nano"] * place // length
            room = each["most"]
            for fields in sorted(left):
                if not all(want in ("", has) for want, has in zip(each["fields"], fields, strict=True)):
                    continue
                gpu, nano = uses[hour][fields]
                if each["is_usd"]:
                    take = min(room, nano * left[fields] // gpu)
                    if nano:
                        left[fields] = max(0, left[fields] - -(-take * gpu // nano))
                else:
                    take = min(room, left[fields])
                    left[fields] -= take
                room -= take
            found[hour, each["id"]] = cost, cost * (each["most"] - room) // each["most"]
    return found


@pytest.mark.parametrize("seed", range(8))
def test_random_overlapping_commitments_are_used_as_the_rule_says(
    seed: int, store: ClickHouseStore, tmp_path: Path
) -> None:
    """Overlapping, of all kinds, with odd amounts; in any order of the file and of the rows."""
    chance = random.Random(seed)
    names = {"gpu_type": ["H100", "A100"], "region": ["eu", "us"], "purchase": ["reserved", ""]}
    entries, tables, hours = [], [], 40
    for number in range(12):
        begin = chance.randrange(0, 30)
        end = begin + chance.randrange(1, 50)
        is_usd = chance.random() < 0.3
        match = {name: chance.choice(found) for name, found in names.items() if chance.random() < 0.5}
        match = {name: value for name, value in match.items() if value}
        usd = (
            Decimal(chance.randrange(1, 10**9)).scaleb(-9)
            if is_usd
            else Decimal(chance.randrange(1, 10**14)).scaleb(-9)
        )
        gpus = Decimal(chance.randrange(1, 9_000)).scaleb(-3)
        paid = f'usd_per_hour = "{usd:f}"' if is_usd else f"gpus = {gpus:f}\nupfront_usd = {usd:f}"
        span = f"from = {T0 + begin * HOUR:%Y-%m-%dT%H:%M:%SZ}\nto = {T0 + end * HOUR:%Y-%m-%dT%H:%M:%SZ}"
        matched = "\n".join(f'match.{name} = "{value}"' for name, value in match.items())
        tables.append(
            f'[[commitment]]\nid = "c{number}"\nkind = "{"savings_plan" if is_usd else "reserved"}"\n{span}\n{paid}\n{matched}\n'
        )
        nano = int(usd.scaleb(9)) * ((end - begin) if is_usd else 1)
        fields = [
            match.get(field, "").lower() if field == "gpu_type" else match.get(field, "") for field in MATCH
        ]
        entries.append(
            {
                "id": f"c{number}",
                "from": begin,
                "to": end,
                "fields": fields,
                "nano": nano,
                "is_usd": is_usd,
                "most": int(usd.scaleb(9)) if is_usd else int(gpus * 3_600_000_000),
            }
        )
    chance.shuffle(tables)
    stored(store, tmp_path, "\n".join(tables))
    rows: list[dict[str, Any]] = []
    uses: dict[int, dict[tuple[str, ...], list[int]]] = {}
    for hour in range(hours):
        for job in range(chance.randrange(0, 5)):
            where = {name: chance.choice(found) for name, found in names.items()}
            held_gpus, paid_usd = (
                Fraction(chance.randrange(1, 9_000), 1_000),
                Decimal(chance.randrange(0, 10**11)).scaleb(-9),
            )
            rows.append(use(T0 + hour * HOUR, f"j{job}", held_gpus, str(paid_usd), **where))
            key = tuple(
                where.get(field, "").lower() if field == "gpu_type" else where.get(field, "")
                for field in MATCH
            )
            held = uses.setdefault(hour, {}).setdefault(key, [0, 0])
            held[0] += int(held_gpus * 3_600_000_000)
            held[1] += int(paid_usd.scaleb(9))
    rows.append(use(T0 + (hours - 1) * HOUR, "last", 1, "0", cloud="x"))
    uses.setdefault(hours - 1, {})[("x", *[""] * 7)] = [3_600_000_000, 0]
    chance.shuffle(rows)
    half = len(rows) // 2
    put(store, *rows[:half])
    put(store, *rows[half:])
    found = {
        (int((row["hour"] - T0) / HOUR), row["commitment_id"]): (
            int(row["cost_usd"].scaleb(9)),
            int(row["used_usd"].scaleb(9)),
        )
        for row in dicts(store, "SELECT hour, commitment_id, cost_usd, used_usd FROM commitment_use")
    }
    assert found == oracle(entries, uses, hours)


def _committed(status: str, cost: str, **values: str) -> dict[str, str]:
    """A line of a month, whose cost no hour has a whole share of."""
    return line(
        BilledCost="0", EffectiveCost=cost, ListCost="20", CommitmentDiscountId="sp-1", CommitmentDiscountStatus=status,
        CommitmentDiscountType="Savings Plan", ChargePeriodStart="2026-03-01T00:30:00Z", ChargePeriodEnd="2026-04-01T00:00:00Z", **values,
    )  # fmt: skip


def test_used_and_unused_of_a_bill_sum_to_its_lines(store: ClickHouseStore, tmp_path: Path) -> None:
    lines = [
        _committed("Used", "70.000000000000000001"),
        _committed("Unused", "30.1", Tags='{"team": "platform"}'),
        _committed("", "999", ChargeCategory="Purchase") | {"BilledCost": "100"},
        line(EffectiveCost="5", ListCost="20"),
    ]
    loaded(store, focus_written(tmp_path / "f.csv", *lines))
    (sums,) = dicts(
        store,
        "SELECT sum(used_usd) AS used, sum(unused_usd) AS unused, sum(purchase_usd) AS cash, count() AS hours, any(kind) AS kind, any(team) AS team FROM commitment_hours",
    )
    assert sums == {
        "used": Decimal("70.000000000000000001"),
        "unused": Decimal("30.1"),
        "cash": 100,
        "hours": 744,
        "kind": "Savings Plan",
        "team": "platform",
    }
    (covered,) = asked(store, coverage(Period.all, ALL))
    assert (covered["covered_list_usd"], covered["eligible_list_usd"], covered["list_coverage_ratio"]) == (
        20,
        40,
        0.5,
    )
    # The file names the owner, and counts only where the bill has no hour.
    stored(store, tmp_path, RESERVED.replace("ri-1", "sp-1").replace("platform", "ml"))
    put(store, use(T0 + 6 * HOUR, "a", 1, "1"))
    assert dicts(
        store,
        "SELECT source, team, count() AS hours, sum(cost_usd) AS usd FROM commitment_hours GROUP BY source, team ORDER BY source",
    ) == [
        {"source": "bill", "team": "ml", "hours": 744, "usd": Decimal("100.100000000000000001")},
        {"source": "file", "team": "ml", "hours": 7, "usd": 100},
    ]
