"""`price_basis`: an attempt pays another purchase than the one before, and more per GPU (spot became on-demand).

A pure function of the attempts and of what they pay; samples say nothing of a purchase before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Final, NamedTuple

from schemas.events import PRICE_FIELDS
from streams.engine.timeline.attempts import OPEN_MS, Segment, Timeline
from streams.engine.timeline.intervals import Span, union

_PURCHASE: Final = PRICE_FIELDS.index("purchase")


class Basis(NamedTuple):
    """What an attempt pays: its purchase, and nano-dollars per ms of a GPU (of the job if it holds none)."""

    purchase: str
    rate: Fraction


class BasisChange(NamedTuple):
    """An attempt that pays more than the last one with another purchase, and when it pays."""

    attempt: int
    before: Basis
    after: Basis
    spans: tuple[Span, ...]

    @property
    def extra_ratio(self) -> float:
        """Return the share of what the attempt pays that it would not pay at the price before."""
        return float(1 - self.before.rate / self.after.rate)


def basis_changes(
    timelines: Mapping[int, Timeline], rise_ratio: Fraction, rate_at: Callable[[int, int], Fraction]
) -> list[BasisChange]:
    """Return the attempts that pay another purchase at more than `rise_ratio` times the rate per GPU.

    An attempt is compared with the last one that had another purchase: the last stretch of that one with the first of
    its own. `rate_at(attempt, at_ms)` is what the attempt pays, in nano-dollars per ms.
    """
    last: Basis | None = None
    before: Basis | None = None
    found = []
    for number, line in timelines.items():
        paid = line.paid(OPEN_MS)
        purchase = paid[0].values.fields[_PURCHASE] if paid else None
        if not purchase:
            continue
        if last is not None and last.purchase != purchase:
            before = last
        if before is not None:
            after = Basis(purchase, _per_gpu(paid[0], rate_at(number, paid[0].start_ms)))
            if before.rate > 0 and after.rate > rise_ratio * before.rate:
                spans = union((segment.start_ms, segment.end_ms) for segment in paid)
                found.append(BasisChange(number, before, after, spans))
        last = Basis(
            paid[-1].values.fields[_PURCHASE] or purchase,
            _per_gpu(paid[-1], rate_at(number, paid[-1].start_ms)),
        )
    return found


def _per_gpu(segment: Segment, rate: Fraction) -> Fraction:
    gpu_milli = segment.values.gpu_milli
    return rate * 1000 / gpu_milli if gpu_milli else rate
