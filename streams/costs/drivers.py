"""What explains a change of costs: each job and component, split into the effect of its price and of its quantity.

Effects are integer nano-dollars and sum exactly to the change.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from fractions import Fraction
from typing import Final, Generic, NamedTuple, TypeVar

Key = TypeVar("Key", bound=Hashable)


class CostCell(NamedTuple):
    """What was paid for how much, in one of the two spans of time."""

    cost_nano: int = 0
    quantity: int = 0


NOTHING: Final = CostCell()


class Effects(NamedTuple):
    """The two parts of a change, which sum to it."""

    price_nano: int
    quantity_nano: int


class Driver(NamedTuple, Generic[Key]):
    """A cell that changed; key None: all cells that are not listed, together."""

    key: Key | None
    before_nano: int
    after_nano: int
    effects: Effects

    @property
    def change_nano(self) -> int:
        """Return by how much the cost grew."""
        return self.after_nano - self.before_nano


def effects_of(before: CostCell, after: CostCell) -> Effects:
    """How much of the change its price and how much its quantity explains.

    The quantity effect is the price before x the change of quantity, rounded half to even; the price effect is the rest.
    Without a quantity, or a cost, before or after there is no price to compare: the change is one of quantity.
    """
    change_nano = after.cost_nano - before.cost_nano
    if NOTHING in (before, after) or not before.quantity or not after.quantity:
        return Effects(0, change_nano)
    quantity_nano = round(Fraction(before.cost_nano * (after.quantity - before.quantity), before.quantity))
    return Effects(change_nano - quantity_nano, quantity_nano)


def drivers_of(before: Mapping[Key, CostCell], after: Mapping[Key, CostCell], most: int) -> list[Driver[Key]]:
    """The cells that changed most, the largest change first, and all others in one last row if there are any."""
    found = sorted(_changed(before, after), key=lambda driver: (-abs(driver.change_nano), str(driver.key)))
    rest = found[most:]
    if rest:
        found[most:] = [
            Driver(
                None,
                sum(driver.before_nano for driver in rest),
                sum(driver.after_nano for driver in rest),
                Effects(
                    sum(driver.effects.price_nano for driver in rest),
                    sum(driver.effects.quantity_nano for driver in rest),
                ),
            )
        ]
    return found


def _changed(before: Mapping[Key, CostCell], after: Mapping[Key, CostCell]) -> Iterator[Driver[Key]]:
    for key in {**before, **after}:
        one, other = before.get(key, NOTHING), after.get(key, NOTHING)
        if one.cost_nano or other.cost_nano:
            yield Driver(key, one.cost_nano, other.cost_nano, effects_of(one, other))
