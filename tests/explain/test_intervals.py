"""Minutes of the ledger become intervals, and nothing is lost on the way."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from streams.explain.intervals import merged, total_usd

T0 = datetime(2026, 3, 1, tzinfo=UTC)


def row(minute: int, **changes: object) -> dict[str, object]:
    """A minute of eight GPUs on one node, with changes."""
    return {
        "minute": T0 + timedelta(minutes=minute),
        "attempt": 1,
        "node": "n1",
        "component": "gpu",
        "phase": "running",
        "sku": "h100",
        "price_effective": T0,
        "price_usd": Decimal("2.5"),
        "quantity": 480_000_000,
        "unit": "gpu_milli_ms",
        "cost_usd": Decimal("0.333333333"),
        "lost_cost_usd": Decimal(0),
        "per": "gpu_hour",
        "gpus": 1,
        "match": {"gpu_type": "H100"},
        **changes,
    }


def spans(rows: list[dict[str, object]], *, by_minute: bool = False) -> list[tuple[int, int]]:
    """Return the intervals as minutes."""
    return [
        ((each.begin - T0) // timedelta(minutes=1), (each.end - T0) // timedelta(minutes=1))
        for each in merged(rows, by_minute=by_minute)
    ]


def test_consecutive_equal_minutes_are_one_interval() -> None:
    assert spans([row(2), row(0), row(1)]) == [(0, 3)]


def test_begin_and_end_of_the_attempt_are_exact() -> None:
    times = {"started": T0 + timedelta(seconds=30), "ended": T0 + timedelta(seconds=150)}
    rows = [row(0, quantity=1, **times), row(1, **times), row(2, quantity=1, **times)]
    first, middle, last = merged(rows)
    assert (first.begin, first.end) == (times["started"], T0 + timedelta(minutes=1))
    assert (middle.begin, middle.end) == (first.end, last.begin)
    assert last.end == times["ended"]
    assert merged(rows, by_minute=True)[0].begin == T0
    assert merged([row(0, phase="", **times)])[0].begin == T0, "traffic is not bound to paid time"


def test_gap_begins_a_new_interval() -> None:
    assert spans([row(0), row(2)]) == [(0, 1), (2, 3)]


def test_minute_that_is_paid_in_part_is_a_line_of_its_own() -> None:
    assert spans([row(0, quantity=1), row(1), row(2), row(3, quantity=7)]) == [(0, 1), (1, 3), (3, 4)]


def test_every_part_of_the_key_begins_a_new_interval() -> None:
    for name, value in (
        ("attempt", 2),
        ("node", "n2"),
        ("component", "license"),
        ("phase", "starting"),
        ("sku", "h100-spot"),
        ("price_effective", T0 + timedelta(minutes=1)),
        ("price_usd", Decimal(3)),
        ("unit", "ms"),
    ):
        assert spans([row(0), row(1, **{name: value})]) == [(0, 1), (1, 2)], name


def test_traffic_that_went_two_ways_in_one_minute_is_two_intervals() -> None:
    ways = [
        row(minute, unit="bytes", phase="", path=path) for minute in (0, 1) for path in ("nat", "internet")
    ]
    assert spans(ways) == [(0, 2), (0, 2)]


def test_by_minute_shows_the_rows_of_the_ledger() -> None:
    assert spans([row(0), row(1)], by_minute=True) == [(0, 1), (1, 2)]


def test_rules_say_how_the_quantity_and_the_price_came_about() -> None:
    def rule(**changes: object) -> str:
        return merged([row(0, **changes)])[0].rule

    assert rule() == "GPUs held while running; price matches gpu_type=H100"
    assert rule(sku="", per="", match={}) == "GPUs held while running; unpriced: no price matches"
    assert rule(phase="metered", match={}) == "sampled seconds, no lifecycle event; price for any"
    assert rule(unit="bytes", phase="").startswith("amount spread over its interval")
    ways = {"path": "internet", "direction": "egress", "region": "", "dst_region": "eu"}
    said = "amount spread over its interval (path=internet, direction=egress, dst_region=eu); price for any"
    assert rule(unit="bytes", phase="", match={}, **ways) == said
    assert rule(unit="mib_ms", phase="").startswith("stored size x time")
    assert rule(unit="memory_gib_milli_ms").startswith("memory held while running")


def test_a_price_for_another_name_of_the_gpu_type_says_so() -> None:
    def rule(reported: str) -> str:
        (found,) = merged([row(0, match={"gpu_type": "H100"}, gpu_type=reported)])
        return found.rule.split("; ")[1]

    assert rule("nvidia_h100_80gb") == "price matches gpu_type=H100 (another name of nvidia_h100_80gb)"
    assert rule("H100") == rule("") == "price matches gpu_type=H100"


def test_price_of_an_instance_names_its_gpus() -> None:
    assert merged([row(0, per="instance_hour", gpus=8)])[0].per == "instance_hour/8"
    assert merged([row(0, per="instance_hour", gpus=0)])[0].per == "instance_hour"
    assert merged([row(0)])[0].per == "gpu_hour"


@given(
    st.lists(
        st.tuples(
            st.integers(0, 30), st.sampled_from(["n1", "n2"]), st.integers(1, 3), st.integers(0, 10**15)
        ),
        unique_by=lambda each: each[:2],
    ),
    st.booleans(),
)
def test_nothing_is_lost_and_nothing_counted_twice(
    cells: list[tuple[int, str, int, int]], by_minute: bool
) -> None:
    rows = [
        row(minute, node=node, quantity=quantity, cost_usd=Decimal(nano) / 10**9)
        for minute, node, quantity, nano in cells
    ]
    found = merged(rows, by_minute=by_minute)
    assert total_usd(found) == sum((Decimal(nano) for *_, nano in cells), Decimal(0)) / 10**9
    assert sum(each.quantity for each in found) == sum(quantity for _, _, quantity, _ in cells)
    assert sum((each.end - each.begin) // timedelta(minutes=1) for each in found) == len(cells)
