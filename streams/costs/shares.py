"""Shares an amount of money out so that the parts sum exactly to the whole: the largest remainder method.

It must know no table and round no money: amounts are integers (nano-dollars).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Protocol, TypeVar


class Ordered(Protocol):
    """A key that can be ordered: of equal remainders the smaller key comes first."""

    def __lt__(self, other: Any, /) -> bool: ...
    def __hash__(self) -> int: ...


K = TypeVar("K", bound=Ordered)


class Rule(StrEnum):
    """How idle cost is shared out: equal parts, parts in proportion to a weight, or not at all."""

    EVEN = "even"
    WEIGHTED = "weighted"
    NONE = "none"


def largest_remainder(total: int, weights: Mapping[K, int]) -> dict[K, int]:
    """Share `total` out in proportion to the weights.

    Each part is its exact share rounded down or up to a whole unit. Where all weights are zero the parts are even. The
    parts of a negative total are those of the positive one, negated. The result does not depend on the mapping's order.

    Returns:
        A part per key, in the order of the keys; they sum to `total`.

    Raises:
        ValueError: A weight is negative, or there is an amount and nobody to bear it.
    """
    keys = sorted(weights)
    if not keys:
        if total:
            raise ValueError(f"nobody to share {total} among")
        return {}
    if min(weights.values()) < 0:
        raise ValueError("weights must not be negative")
    if not any(weights.values()):
        return largest_remainder(total, dict.fromkeys(keys, 1))
    whole, amount = sum(weights.values()), abs(total)
    parts = {key: amount * weights[key] // whole for key in keys}
    left = amount - sum(parts.values())
    # `sorted` is stable, so equal remainders stay in the order of their keys.
    for key in sorted(keys, key=lambda key: amount * weights[key] % whole, reverse=True)[:left]:
        parts[key] += 1
    return parts if total >= 0 else {key: -part for key, part in parts.items()}


def share_out(total: int, weights: Mapping[K, int], rule: Rule) -> dict[K, int]:
    """Share `total` out among the keys of `weights` by a rule; by `NONE` every part is 0 and the whole stays where it is.

    Raises:
        ValueError: As `largest_remainder` does.
    """
    if rule is Rule.NONE:
        return dict.fromkeys(sorted(weights), 0)
    if rule is Rule.EVEN:
        weights = dict.fromkeys(weights, 1)
    return largest_remainder(total, weights)
