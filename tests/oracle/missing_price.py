"""Which prices are missing, by the words of docs/ledger_rules.md: every usage is compared with every price, at one instant.

Must import nothing of the project. Times are epoch milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tests.oracle.gpu_types import product

FIVE_MINUTES_MS = 300_000
HOUR_MS = 3_600_000
DAY_MS = 86_400_000


class Lack(NamedTuple):
    """GPU-time, compute or traffic of a component in a unit, that had no price in a minute; or time of a node that no job used."""

    component: str
    unit: str
    fields: tuple[tuple[str, str], ...]
    minute_ms: int
    of_node: bool = False


class Offer(NamedTuple):
    """A price of GPU-time: when the log has it, from when it holds, and what it asks for."""

    sku: str
    known_ms: int
    effective_ms: int
    match: Mapping[str, str]


def missing(
    lacks: Iterable[Lack], offers: Sequence[Offer], at_ms: int
) -> set[tuple[str, object, tuple[str, ...]]]:
    """What an instant lacks: (`gpu_type`, the product, the fields that keep the nearest price from applying), instances or traffic."""
    first: dict[tuple[str, str, tuple[tuple[str, str], ...], bool], int] = {}
    for lack in lacks:
        # "by whole hours, once the hour is over"
        length_ms = HOUR_MS if lack.of_node else FIVE_MINUTES_MS
        begin_ms = lack.minute_ms // length_ms * length_ms
        if at_ms - DAY_MS <= begin_ms and begin_ms + length_ms <= at_ms:
            key = (*lack[:3], lack.of_node)
            first[key] = min(begin_ms, first.get(key, begin_ms))
    # What was read since and was in force then is known, too.
    known = [offer for offer in offers if offer.known_ms < at_ms or offer.effective_ms <= at_ms]
    found: set[tuple[str, object, tuple[str, ...]]] = set()
    for (component, unit, fields, _), begin_ms in first.items():
        if component == "gpu":
            gpu_type = dict(fields).get("gpu_type", "")
            found.add(
                (
                    "gpu_type",
                    product(gpu_type) if gpu_type else None,
                    _differing(dict(fields), known, begin_ms),
                )
            )
        elif component == "compute":
            found.add(("instance_type", dict(fields).get("instance_type") or None, ()))
        else:
            found.add(("traffic", f"{component} {unit}", ()))
    return found


def _differing(has: Mapping[str, str], known: Sequence[Offer], begin_ms: int) -> tuple[str, ...]:
    ranked = []
    for offer in known:
        lacking = [name for name, value in offer.match.items() if not _same(name, has.get(name), value)]
        is_later = offer.effective_ms > begin_ms
        rank = (len(lacking) + is_later, is_later, -len(offer.match), offer.sku, -offer.effective_ms)
        ranked.append((rank, sorted([*lacking, *(["effective"] if is_later else [])])))
    if not ranked:
        return ()
    return tuple(min(ranked)[1]) or ("names",)


def _same(name: str, has: str | None, value: str) -> bool:
    if not has:
        return False
    return product(has) == product(value) if name == "gpu_type" else has == value
