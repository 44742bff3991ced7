"""Warnings about price lists: each fires where it should, and not beside that."""

from __future__ import annotations

import pytest

from schemas.events import Component, PriceEvent
from schemas.units import Per
from streams.prices.findings import findings
from tests.prices.given import price

USD = 1_000_000_000
SPOT, DEMAND = {"purchase": "spot"}, {"purchase": "on_demand"}
H100, A100 = {"gpu_type": "H100"}, {"gpu_type": "A100"}


def found(kind: str, *loaded: PriceEvent, known: tuple[PriceEvent, ...] = ()) -> list[tuple[str, int]]:
    """Return SKU and line of the findings of a kind, and check that each names its SKU and line, if any."""
    all_found = findings(list(enumerate(loaded, start=1)), known)
    for each in all_found:
        assert f"sku {each.sku}" in str(each)
        assert f"(line {each.line})" in str(each)
    return [(each.sku, each.line) for each in all_found if each.kind == kind]


@pytest.mark.parametrize(
    ("loaded", "expected"),
    [
        ([price("a", 0)], [("a", 1)]),
        ([price("a", 1)], []),
        ([price("a", USD), price("a", 0, 5)], [("a", 2)]),
        ([price("a", 0, component=Component.network, per=Per.gb)], []),
        ([price("a", 0, component=Component.storage, per=Per.gb)], []),
    ],
)
def test_price_0(loaded: list[PriceEvent], expected: list[tuple[str, int]]) -> None:
    assert found("price 0", *loaded) == expected


@pytest.mark.parametrize(
    ("loaded", "known", "expected"),
    [
        ([price("a", USD), price("a", 3 * USD + 1, 5)], [], [("a", 2)]),
        ([price("a", USD), price("a", 3 * USD, 5)], [], []),
        ([price("a", 3 * USD + 1), price("a", USD, 5)], [], [("a", 2)]),
        ([price("a", USD), price("b", 9 * USD, 5)], [], []),
        # 8 USD per GPU-hour and 64 per hour of 8 GPUs are one price.
        ([price("a", 8 * USD), price("a", 64 * USD, 5, per=Per.instance_hour, gpus=8)], [], []),
        ([price("a", 8 * USD), price("a", 64 * USD, 5, per=Per.instance_hour, gpus=2)], [], [("a", 2)]),
        ([price("a", 0), price("a", USD, 5)], [], [("a", 2)]),
        ([price("a", USD), price("a", 0, 5)], [], []),  # "price 0" says it
        ([price("a", 4 * USD, 5)], [price("a", USD)], [("a", 1)]),
        ([price("a", 4 * USD)], [price("a", USD, 5)], [("a", 1)]),
        ([price("a", 2 * USD, 5)], [price("a", USD)], []),
        ([price("b", 2 * USD, 5)], [price("a", USD), price("a", 9 * USD, 5)], []),
        ([price("a", USD)], [price("a", USD)], []),
    ],
)
def test_jump(loaded: list[PriceEvent], known: list[PriceEvent], expected: list[tuple[str, int]]) -> None:
    assert found("jump", *loaded, known=tuple(known)) == expected


def test_jump_against_what_it_replaces() -> None:
    old = price("a", USD, 5)
    assert found("jump", price("a", 4 * USD, 5), known=(old,)) == [("a", 1)]


@pytest.mark.parametrize(
    ("loaded", "known", "expected"),
    [
        ([price("od", 2 * USD, H100), price("s", 3 * USD, H100, SPOT)], [], [("s", 2)]),
        ([price("od", 2 * USD, H100, DEMAND), price("s", 3 * USD, H100, SPOT)], [], [("s", 2)]),
        ([price("od", 2 * USD, H100), price("s", 2 * USD, H100, SPOT)], [], []),
        ([price("od", 2 * USD, A100), price("s", 3 * USD, H100, SPOT)], [], []),
        ([price("od", 2 * USD), price("s", 3 * USD, SPOT, {"zone": "z"})], [], [("s", 2)]),
        # Only while both hold: spot was above before the on-demand price, and is below since.
        ([price("s", 3 * USD, SPOT), price("s", USD, 9, SPOT), price("od", 2 * USD, 9)], [], []),
        ([price("s", 3 * USD, H100, SPOT)], [price("od", 2 * USD, H100)], [("s", 1)]),
        ([price("od", 2 * USD, H100)], [price("s", 3 * USD, H100, SPOT)], [("od", 1)]),
        ([price("od", 2 * USD)], [price("s", 3 * USD, H100, SPOT, {"zone": "z"})], [("od", 1)]),
        ([price("b", USD, A100)], [price("od", 2 * USD, H100), price("s", 3 * USD, H100, SPOT)], []),
        ([price("s", 3 * USD, SPOT, per=Per.instance_hour, gpus=8), price("od", 2 * USD)], [], []),
        ([price("s", 3 * USD, SPOT, component=Component.labor), price("od", 2 * USD)], [], []),
    ],
)
def test_spot_above_on_demand(
    loaded: list[PriceEvent], known: list[PriceEvent], expected: list[tuple[str, int]]
) -> None:
    assert found("spot above on-demand", *loaded, known=tuple(known)) == expected


@pytest.mark.parametrize(
    ("loaded", "known", "expected"),
    [
        # Nothing prices H200 before day 9, though GPUs have prices since day 1.
        ([price("h100", USD, 1, H100), price("h200", USD, 9, {"gpu_type": "H200"})], [], [("h200", 2)]),
        ([price("h100", USD, 1, H100), price("h200", USD, 1, {"gpu_type": "H200"})], [], []),
        ([price("any", USD, 1), price("h200", USD, 9, {"gpu_type": "H200"})], [], []),
        ([price("h200", USD, 9, {"gpu_type": "H200"})], [], []),
        ([price("h200", USD, 9, {"gpu_type": "H200"})], [price("h100", USD, 1, H100)], [("h200", 1)]),
        ([price("net", USD, 1, component=Component.network, per=Per.gb), price("h100", USD, 9)], [], []),
        # For one purchase only, while others exist.
        ([price("a", USD, H100, SPOT), price("b", USD, A100, DEMAND)], [], [("a", 1), ("b", 2)]),
        ([price("a", USD, H100, SPOT), price("b", USD, A100, SPOT)], [], []),
        ([price("a", USD, H100, SPOT), price("b", USD, A100, DEMAND), price("c", USD)], [], []),
        ([price("a", USD, H100, {"region": "r"}), price("b", USD, A100, {"region": "q"})], [], [("a", 1), ("b", 2)]),
        ([price("a", USD, H100, {"region": "r"}), price("b", USD, H100, {"region": "q"})], [], []),
        ([price("a", USD, H100, {"region": "r"})], [price("b", USD, A100, {"region": "q"})], [("a", 1)]),
    ],
)  # fmt: skip
def test_gap(loaded: list[PriceEvent], known: list[PriceEvent], expected: list[tuple[str, int]]) -> None:
    assert found("gap", *loaded, known=tuple(known)) == expected


@pytest.mark.parametrize(
    ("loaded", "known", "expected"),
    [
        ([price("a", USD, H100), price("b", 2 * USD, H100)], [], [("b", 2)]),
        ([price("b", USD, H100), price("a", 2 * USD, 9, H100)], [], [("b", 1)]),
        ([price("b", USD, H100)], [price("a", USD, H100)], [("b", 1)]),
        ([price("a", USD, H100)], [price("b", USD, H100)], [("a", 1)]),
        ([price("a", USD, H100), price("b", USD, A100)], [], []),
        # Two names of one product: a third one would be a guess, unless they cost the same.
        ([price("a", USD, H100), price("b", 2 * USD, {"gpu_type": "nvidia_h100_80gb"})], [], [("b", 2)]),
        ([price("a", USD, H100), price("b", USD, {"gpu_type": "nvidia_h100_80gb"})], [], []),
        ([price("a", USD), price("b", USD, per=Per.job_hour, component=Component.overhead)], [], []),
        ([price("a", USD), price("b", USD, component=Component.labor)], [], []),
        ([price("a", USD, H100), price("b", USD, H100, {"region": "r"})], [], []),
        # b is for H100 only until day 9, when a begins to be.
        (
            [price("a", USD, 9, H100), price("b", USD, H100), price("b", USD, 9, A100)],
            [],
            [],
        ),
    ],
)
def test_overlap(loaded: list[PriceEvent], known: list[PriceEvent], expected: list[tuple[str, int]]) -> None:
    assert found("overlap", *loaded, known=tuple(known)) == expected


def test_what_was_known_before_is_not_reported() -> None:
    odd = (price("a", 0), price("a", USD, 5), price("b", USD), price("s", 9 * USD, SPOT))
    assert findings([(1, price("net", USD, component=Component.network, per=Per.gb))], odd) == []


def test_long_histories_are_compared_where_they_meet() -> None:
    many = [price("s", USD + at, at, H100, SPOT) for at in range(5_000)]
    many += [price("od", 9 * USD + at, at, H100) for at in range(5_000)]
    assert findings(list(enumerate(many, start=1))) == []


def test_thousands_of_skus_for_one_usage_are_compared_with_the_first_of_them_only() -> None:
    many = [price(f"s{at}", 2 * USD + at, at, H100, SPOT) for at in range(5_000)]
    many += [price(f"d{at}", USD, at, H100) for at in range(5_000)]
    kinds = {each.kind for each in findings(list(enumerate(many, start=1)))}
    assert kinds == {"spot above on-demand", "overlap"}


def test_thousands_of_types_in_a_region_each_are_compared_with_the_first_regions() -> None:
    many = [price(f"s{at}", USD, {"gpu_type": f"g{at}"}, {"region": f"r{at:05}"}) for at in range(20_000)]
    all_found = findings(list(enumerate(many, start=1)))
    assert len(all_found) == 20_000
    assert "others of this book have r00000, r00002, r00003 and 19996 more" in str(all_found[1])
