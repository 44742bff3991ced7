"""Price effect and quantity effect: by hand, and exact sums for whatever costs and quantities."""

from hypothesis import given
from hypothesis import strategies as st

from streams.costs.drivers import CostCell, Effects, drivers_of, effects_of

CELLS = st.builds(CostCell, st.integers(0, 10**18), st.integers(0, 10**20))
SPANS = st.dictionaries(st.sampled_from("abcdefgh"), CELLS)


def test_a_higher_price_and_more_of_it() -> None:
    # 10 hours at 3, then 12 at 4: 48 - 30 = 18 more, of which 2 hours at 3 are 6, and 12 hours at 1 more are 12.
    assert effects_of(CostCell(30, 10), CostCell(48, 12)) == Effects(price_nano=12, quantity_nano=6)


def test_the_quantity_effect_is_rounded_half_to_even() -> None:
    assert effects_of(CostCell(1, 2), CostCell(1, 3)) == Effects(0, 0)  # 0.5
    assert effects_of(CostCell(3, 2), CostCell(3, 3)) == Effects(-2, 2)  # 1.5
    assert effects_of(CostCell(5, 2), CostCell(5, 3)) == Effects(-2, 2)  # 2.5


def test_what_is_new_or_gone_is_a_matter_of_quantity() -> None:
    assert effects_of(CostCell(0, 0), CostCell(7, 2)) == Effects(0, 7)
    assert effects_of(CostCell(7, 2), CostCell(0, 0)) == Effects(0, -7)


def test_a_price_that_was_zero_is_a_price() -> None:
    assert effects_of(CostCell(0, 4), CostCell(8, 4)) == Effects(8, 0)


@given(CELLS, CELLS)
def test_effects_sum_to_the_change(before: CostCell, after: CostCell) -> None:
    assert sum(effects_of(before, after)) == after.cost_nano - before.cost_nano


@given(SPANS, SPANS, st.integers(0, 9))
def test_drivers_sum_to_the_change_of_all(
    before: dict[str, CostCell], after: dict[str, CostCell], most: int
) -> None:
    found = drivers_of(before, after, most)
    change_nano = sum(cell.cost_nano for cell in after.values()) - sum(
        cell.cost_nano for cell in before.values()
    )
    assert sum(driver.change_nano for driver in found) == change_nano
    assert sum(sum(driver.effects) for driver in found) == change_nano
    assert len(found) <= most + 1
    named = [abs(driver.change_nano) for driver in found if driver.key is not None]
    assert named == sorted(named, reverse=True)
