from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from schemas.tables import (
    ALERTS,
    ARCHIVE,
    ATTEMPTS,
    DEAD_LETTERS,
    JOB_MINUTES,
    JOBS,
    KEYS,
    PRICES,
    SCHEMAS,
    SNAPSHOTS,
)
from sinks.errors import SinkError
from sinks.port import Store
from sinks.rows import Condition
from tests.sinks.rows import instant, row, rows

MOST = 2**63 - 1


def stored(store: Store, table: str, *columns: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = store.select(table, (), columns or None).to_pylist()
    return found


#: Characters that mean something to SQL, JSON or a terminal.
_TEXT = "ä'\\\n\t\"`;{}"


def _edges(kind: pa.DataType) -> list[Any]:
    if pa.types.is_floating(kind):
        return [1.7976931348623157e308, -5e-324]
    if pa.types.is_decimal(kind):
        return [Decimal(10**18 - 1).scaleb(-kind.scale), Decimal(1 - 10**18).scaleb(-kind.scale)]
    return ["", _TEXT] if pa.types.is_string(kind) else [0, 2 ** (kind.bit_width - 1) - 1]


def extreme(table: str) -> dict[str, Any]:
    """A row whose every value is at the edge of its type."""
    values: dict[str, Any] = {}
    for field in SCHEMAS[table]:
        kind = field.type
        if pa.types.is_decimal(kind):
            values[field.name] = Decimal(10**18 - 1).scaleb(-kind.scale)
        elif pa.types.is_unsigned_integer(kind):
            values[field.name] = 2**kind.bit_width - 1
        elif pa.types.is_signed_integer(kind):
            values[field.name] = -(2 ** (kind.bit_width - 1))
        elif pa.types.is_floating(kind):
            values[field.name] = 1.7976931348623157e308
        elif pa.types.is_boolean(kind):
            values[field.name] = True
        elif pa.types.is_binary(kind):
            values[field.name] = bytes(range(256))
        elif pa.types.is_string(kind):
            values[field.name] = _TEXT
        elif pa.types.is_list(kind):
            values[field.name] = _edges(kind.value_type)
        elif pa.types.is_map(kind):
            values[field.name] = list(zip(("k'", ""), _edges(kind.item_type), strict=True))
        elif kind.unit == "ms":
            values[field.name] = datetime.fromisoformat("2026-03-01T10:00:59.999+00:00")
    return values


@pytest.mark.parametrize("table", SCHEMAS)
def test_a_row_comes_back_as_it_went_in(store: Store, table: str) -> None:
    given = rows(table, extreme(table))
    store.insert(table, given, "t")
    found = store.select(table)
    assert found.schema == SCHEMAS[table]
    assert found.to_pylist() == given.to_pylist()


@pytest.mark.parametrize("table", [JOBS, ATTEMPTS])
def test_instants_that_have_not_come_stay_null(store: Store, table: str) -> None:
    store.insert(table, rows(table, {"started": instant("2026-03-01 10:00"), "ended": None}), "t")
    assert stored(store, table, "started", "ended") == [
        {"started": instant("2026-03-01 10:00"), "ended": None}
    ]


@pytest.mark.parametrize("order", [(1, 3, 2), (3, 2, 1), (2, 1, 3)])
def test_the_greatest_version_counts_in_any_order(store: Store, order: tuple[int, ...]) -> None:
    for version in order:
        values = {"version": version, "quantity": version * 10}
        store.insert(JOB_MINUTES, rows(JOB_MINUTES, values), f"t{version}")
    assert stored(store, JOB_MINUTES, "quantity") == [{"quantity": 30}]


def test_the_greatest_version_counts_inside_one_insert(store: Store) -> None:
    values = [{"version": v, "quantity": v} for v in (2, 5, 3)]
    store.insert(JOB_MINUTES, rows(JOB_MINUTES, *values), "t")
    assert stored(store, JOB_MINUTES, "quantity") == [{"quantity": 5}]


@pytest.mark.parametrize("table", [t for t in SCHEMAS if t != SNAPSHOTS])
def test_rows_of_other_keys_do_not_replace_each_other(store: Store, table: str) -> None:
    """One row, and for each column of the key one that differs in it only."""
    base = row(table, {})
    others = [base | {name: _other(base[name])} for name in KEYS[table]]
    store.insert(table, rows(table, base, *others), "t")
    assert store.select(table).num_rows == 1 + len(KEYS[table])


def _other(value: Any) -> Any:
    if isinstance(value, str):
        return value + "x"
    return instant("2026-04-01 00:00") if isinstance(value, datetime) else value + 1


def test_the_same_token_stores_nothing_again(store: Store) -> None:
    """Also where rows are not replaced by key: a second copy of a chunk would show."""
    chunk = rows(SNAPSHOTS, {"blob": b"x"})
    for _ in range(2):
        store.insert(SNAPSHOTS, chunk, "once")
    assert store.select(SNAPSHOTS).num_rows == 1


def test_the_same_rows_under_another_token_are_another_insert(store: Store) -> None:
    store.insert(JOB_MINUTES, rows(JOB_MINUTES, {"quantity": 1, "version": 1}), "a")
    store.insert(JOB_MINUTES, rows(JOB_MINUTES, {"quantity": 2, "version": 2}), "b")
    store.insert(JOB_MINUTES, rows(JOB_MINUTES, {"quantity": 1, "version": 1}), "c")
    assert stored(store, JOB_MINUTES, "quantity", "version") == [{"quantity": 2, "version": 2}]


def test_an_insert_may_touch_more_than_a_hundred_months(store: Store) -> None:
    minutes = [datetime.fromisoformat(f"{2001 + m // 12}-{m % 12 + 1:02}-01T00:00+00:00") for m in range(120)]
    given = rows(JOB_MINUTES, *({"minute": minute, "quantity": 1} for minute in minutes))
    for _ in range(2):
        store.insert(JOB_MINUTES, given, "t")
    assert [r["minute"] for r in stored(store, JOB_MINUTES, "minute")] == minutes


def test_no_rows_are_no_insert(store: Store) -> None:
    store.insert(JOB_MINUTES, SCHEMAS[JOB_MINUTES].empty_table(), "t")
    assert store.select(JOB_MINUTES).num_rows == 0


def test_columns_may_come_in_any_order_and_dictionary_encoded(store: Store) -> None:
    given = rows(JOB_MINUTES, {"sku": "h100", "quantity": 7})
    encoded = given["sku"].dictionary_encode()
    shuffled = given.drop_columns(["sku"]).add_column(0, "sku", encoded)
    store.insert(JOB_MINUTES, shuffled, "t")
    assert stored(store, JOB_MINUTES, "sku", "quantity") == [{"sku": "h100", "quantity": 7}]


def test_rows_without_a_column_are_refused(store: Store) -> None:
    with pytest.raises(SinkError, match="do not have its columns: cost_usd"):
        store.insert(JOB_MINUTES, rows(JOB_MINUTES, {}).drop_columns(["cost_usd"]), "t")


def test_an_unknown_table_is_refused(store: Store) -> None:
    with pytest.raises(SinkError, match="no table `nope`"):
        store.insert("nope", rows(JOB_MINUTES, {}), "t")


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (Condition("offset", "=", 2), [2]),
        (Condition("offset", "!=", 2), [1, 3, MOST]),
        (Condition("offset", "<", 3), [1, 2]),
        (Condition("offset", "<=", 3), [1, 2, 3]),
        (Condition("offset", ">", 2), [3, MOST]),
        (Condition("offset", ">=", MOST), [MOST]),
        (Condition("offset", "in", [1, 3, 99]), [1, 3]),
        (Condition("topic", "=", "it's \\ {p0:String} \n"), [3]),
        (Condition("topic", "in", ["it's \\ {p0:String} \n", "absent"]), [3]),
        (Condition("topic", "in", []), []),
        (Condition("topic", "in", ("it's \\ {p0:String} \n", "absent")), [3]),
        (Condition("version", "=", 2**64 - 1), [MOST]),
        (Condition("version", "in", [1, 2**64 - 1]), [1, 2, 3, MOST]),
    ],
)
def test_conditions(store: Store, condition: Condition, expected: list[int]) -> None:
    given: list[dict[str, Any]] = [
        {"offset": 1},
        {"offset": 2},
        {"offset": 3, "topic": "it's \\ {p0:String} \n"},
        {"offset": MOST, "version": 2**64 - 1},
    ]
    store.insert(DEAD_LETTERS, rows(DEAD_LETTERS, *given), "t")
    found = store.select(DEAD_LETTERS, [condition], ("offset",))["offset"].to_pylist()
    assert sorted(found) == expected


def test_conditions_hold_together(store: Store) -> None:
    given: list[dict[str, Any]] = [
        {"shard": shard, "job_id": job_id} for shard in (1, 2) for job_id in ("a", "b")
    ]
    store.insert(ARCHIVE, rows(ARCHIVE, *given), "t")
    where = [Condition("shard", "=", 1), Condition("job_id", "=", "b")]
    found = store.select(ARCHIVE, where, ("shard", "job_id")).to_pylist()
    assert found == [{"shard": 1, "job_id": "b"}]


def test_a_condition_is_about_the_current_row(store: Store) -> None:
    """An older version that would fit must not come back to life."""
    store.insert(JOB_MINUTES, rows(JOB_MINUTES, {"version": 1, "quantity": 5}), "a")
    store.insert(JOB_MINUTES, rows(JOB_MINUTES, {"version": 2, "quantity": 0}), "b")
    assert store.select(JOB_MINUTES, [Condition("quantity", "!=", 0)]).num_rows == 0


def test_rows_come_in_the_order_of_the_key(store: Store) -> None:
    given = [{"sku": s, "effective": instant(f"2026-03-0{d} 00:00")} for s in "ba" for d in (2, 1)]
    store.insert(PRICES, rows(PRICES, *given), "t")
    found = [(r["sku"], r["effective"].day) for r in stored(store, PRICES)]
    assert found == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]


def test_newest_version(store: Store) -> None:
    assert store.newest_version(JOB_MINUTES) == 0
    given = [{"shard": shard, "version": shard + 2**63, "node": str(shard)} for shard in (1, 2)]
    store.insert(JOB_MINUTES, rows(JOB_MINUTES, *given), "t")
    assert store.newest_version(JOB_MINUTES, [Condition("shard", "=", 1)]) == 2**63 + 1
    assert store.newest_version(JOB_MINUTES) == 2**63 + 2
    assert store.newest_version(JOB_MINUTES, [Condition("shard", "=", 3)]) == 0


def test_deleted_rows_are_gone_and_others_stay(store: Store) -> None:
    store.insert(SNAPSHOTS, rows(SNAPSHOTS, *({"version": v} for v in (1, 2, 3))), "t")
    store.delete(SNAPSHOTS, [Condition("version", "<", 3)])
    assert store.select(SNAPSHOTS)["version"].to_pylist() == [3]


def test_threads_insert_side_by_side(store: Store) -> None:
    def insert(thread: int) -> None:
        for number in range(5):
            values = [{"job_id": f"{thread}-{number}-{i}", "quantity": 1} for i in range(20)]
            store.insert(JOB_MINUTES, rows(JOB_MINUTES, *values), f"{thread}-{number}")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(insert, range(4)))
    assert store.select(JOB_MINUTES).num_rows == 4 * 5 * 20


def test_a_closed_store_says_so(another: Store) -> None:
    another.close()
    with pytest.raises(SinkError, match="closed"):
        another.select(JOBS)
    another.close()


def test_rows_come_in_pages_of_their_keys_and_instants_are_compared_in_ms(store: Store) -> None:
    at = {
        name: datetime.fromisoformat(f"2026-03-01T10:00:0{number}.500+00:00")
        for number, name in enumerate("abc")
    }
    for name, changed in at.items():
        store.insert(ALERTS, rows(ALERTS, {"alert_id": name, "changed": changed, "status": "firing"}), name)
    first = store.select(ALERTS, (), ("alert_id",), limit=2)
    assert first["alert_id"].to_pylist() == ["a", "b"]
    following = store.select(ALERTS, [Condition("alert_id", ">", "b")], ("alert_id",), limit=2)
    assert following["alert_id"].to_pylist() == ["c"]
    b_ms = round(at["b"].timestamp() * 1000)
    for since_ms, found in ((b_ms, ["b", "c"]), (b_ms + 1, ["c"])):
        where = [Condition("changed", ">=", since_ms)]
        assert store.select(ALERTS, where, ("alert_id",))["alert_id"].to_pylist() == found
