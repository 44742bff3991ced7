"""Drivers are explained by what each component is paid by, as the oracle explains them; hours stand in for deleted minutes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.tables import JOB_HOURS, JOB_MINUTES, JOBS, META
from sinks.clickhouse import ClickHouseStore
from streams.costs.day_parts import answered
from streams.costs.driver_cells import driver_steps
from streams.costs.request import request_of
from streams.errors import WrongUseError
from tests.oracle.metrics import driver_effects
from tests.oracle.model import LedgerKey, LedgerRow, Tables
from tests.sinks.rows import MINUTE, rows
from tests.sinks.stores import embedded, empty

SPLIT = 120
END = 240
PAID = [
    ("gpu", "gpu_milli_ms", "a100"),
    ("gpu", "gpu_milli_ms", "h100"),
    ("network", "bytes", "egress"),
    ("storage", "requests", "put"),
    ("storage", "mib_ms", "disk"),
    ("license", "gpu_milli_ms", "per-gpu"),
    ("license", "ms", "per-job"),
]
NUMBERS = count()
CELLS = st.dictionaries(
    st.tuples(st.integers(0, END - 1), st.sampled_from("ab"), st.sampled_from(PAID)),
    st.tuples(st.integers(1, 10**15), st.integers(0, 10**15)),
    max_size=12,
)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseStore]:
    with embedded(tmp_path_factory.mktemp("drivers")) as found:
        yield found


@pytest.fixture
def store(shared: ClickHouseStore) -> ClickHouseStore:
    empty(shared.target)
    return shared


def drivers(store: ClickHouseStore, **given_: str) -> list[dict[str, Any]]:
    hour = MINUTE.replace(tzinfo=None)
    span = {
        "from": [f"{hour + timedelta(hours=2):%FT%H:%M}"],
        "to": [f"{hour + timedelta(hours=4):%FT%H:%M}"],
    }
    options = {name: [value] for name, value in given_.items()}
    request = request_of({"compare": ["previous"], "drivers": ["1000"], **span, **options})
    return answered(driver_steps(request), store.ask).rows


def usd(nano: int) -> Decimal:
    return Decimal(nano).scaleb(-9)


def insert(store: ClickHouseStore, lines: list[dict[str, Any]], token: str = "t") -> None:
    """Insert minutes, and hours of what GPUs among them cost."""
    hours: dict[tuple[str, Any], dict[str, Any]] = {}
    for line in lines:
        if line["component"] == "gpu":
            at = line["minute"].replace(minute=0)
            empty_row = {"hour": at, "job_id": line["job_id"], "gpu_milli_ms": 0, "gpu_cost_usd": Decimal(0)}
            hour = hours.setdefault((line["job_id"], at), empty_row)
            hour["gpu_milli_ms"] += line["quantity"]
            hour["gpu_cost_usd"] += line["cost_usd"]
    store.insert(JOB_MINUTES, rows(JOB_MINUTES, *lines), token)
    store.insert(JOB_HOURS, rows(JOB_HOURS, *hours.values()), token)


def minute_row(at: int, job_id: str, paid: tuple[str, str, str], quantity: int, nano: int) -> dict[str, Any]:
    component, unit, sku = paid
    row = {"minute": MINUTE + timedelta(minutes=at), "job_id": job_id, "component": component, "unit": unit}
    return row | {"sku": sku, "quantity": quantity, "cost_usd": usd(nano), "phase": ""}


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cells=CELLS, by_sku=st.booleans())
def test_drivers_are_those_of_the_oracle(
    shared: ClickHouseStore, cells: dict[tuple[int, str, tuple[str, str, str]], tuple[int, int]], by_sku: bool
) -> None:
    team = f"t{next(NUMBERS)}"
    jobs = {name: f"{team}-{name}" for name in "ab"}
    lines = [minute_row(at, jobs[name], paid, *cells[at, name, paid]) for at, name, paid in cells]
    shared.insert(JOBS, rows(JOBS, *({"job_id": job_id, "team": team} for job_id in jobs.values())), team)
    insert(shared, lines, team)
    found = drivers(shared, by="job", where=f"team={team}", drivers_by_sku=str(int(by_sku)))
    names = ("job", "component", "unit", "sku") if by_sku else ("job", "component", "unit")
    ledger = {
        LedgerKey(at, jobs[name], 1, "", paid[0], "", paid[2], 0, paid[1]): LedgerRow(*amounts, 0, 0)
        for (at, name, paid), amounts in cells.items()
    }
    expected = driver_effects(
        Tables(ledger=ledger),
        lambda key: (key.job_id, key.component, key.unit, *([key.sku] if by_sku else [])),
        (0, SPLIT, END),
    )
    effects = ("previous_cost_usd", "cost_usd", "price_effect_usd", "quantity_effect_usd")
    assert {tuple(row[name] for name in names): tuple(row[name] for name in effects) for row in found} == {
        name: tuple(map(usd, each)) for name, each in expected.items()
    }
    for row in found:
        assert row["price_effect_usd"] + row["quantity_effect_usd"] == row["change_usd"]


def test_twice_the_bytes_at_one_price_are_a_matter_of_quantity(store: ClickHouseStore) -> None:
    egress = PAID[2]
    lines = [minute_row(at, "j", PAID[0], 60_000_000, 10**9) for at in (0, SPLIT)]
    lines += [
        minute_row(0, "j", egress, 10**9, 90_000_000),
        minute_row(SPLIT, "j", egress, 2 * 10**9, 180_000_000),
    ]
    insert(store, lines)
    changed = [row for row in drivers(store) if row["change_usd"]]
    assert [
        (row["component"], row["unit"], row["price_effect_usd"], row["quantity_effect_usd"])
        for row in changed
    ] == [("network", "bytes", usd(0), usd(90_000_000))]


def test_another_sku_is_a_price_unless_skus_are_asked_for(store: ClickHouseStore) -> None:
    lines = [minute_row(0, "j", PAID[0], 1_000, 2_000), minute_row(SPLIT, "j", PAID[1], 1_000, 5_000)]
    insert(store, lines)
    (row,) = drivers(store)
    assert (row["price_effect_usd"], row["quantity_effect_usd"]) == (usd(3_000), usd(0))
    assert [(row["sku"], row["quantity_effect_usd"]) for row in drivers(store, drivers_by_sku="1")] == [
        ("h100", usd(5_000)),
        ("a100", usd(-2_000)),
    ]


def hour_row(at: int, purchase: str, gpu_nano: int, network_nano: int) -> dict[str, Any]:
    return {
        "hour": MINUTE + timedelta(hours=at),
        "purchase": purchase,
        "wall_clock_ms": 3_600_000,
        "gpu_milli_ms": 3_600_000_000,
        "gpu_cost_usd": usd(gpu_nano),
        "network_cost_usd": usd(network_nano),
    }


@pytest.mark.parametrize("by", ["purchase", "job"])
def test_hours_stand_in_where_minutes_cannot(store: ClickHouseStore, by: str) -> None:
    """Of price fields, which hold by the hour, and of months of which minutes were deleted."""
    store.insert(JOB_HOURS, rows(JOB_HOURS, hour_row(0, "spot", 5, 7), hour_row(2, "spot", 8, 7)), "t")
    if by == "job":
        # What is left of minutes of such a month must not be read.
        store.insert(JOB_MINUTES, rows(JOB_MINUTES, minute_row(0, "j", PAID[0], 1, 99)), "t")
        store.insert(META, rows(META, {"key": "minutes_kept_from", "value": "202604"}), "t")
    (gpu, network) = drivers(store, by=by)
    assert (gpu["component"], gpu["unit"], gpu["price_effect_usd"]) == ("gpu", "gpu_milli_ms", usd(3))
    assert (network["component"], network["unit"], network["change_usd"]) == (
        "network",
        "run_time_ms",
        usd(0),
    )


def test_skus_do_not_go_with_price_fields_nor_without_drivers(store: ClickHouseStore) -> None:
    with pytest.raises(WrongUseError, match="drivers_by_sku: does not go with cloud"):
        drivers(store, by="purchase", drivers_by_sku="1")
    with pytest.raises(WrongUseError, match="drivers_by_sku: needs drivers"):
        request_of({"drivers_by_sku": ["1"]})
