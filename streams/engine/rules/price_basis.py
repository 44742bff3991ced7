"""`price_basis`: an attempt pays more per GPU than the last one with another purchase (spot became on-demand).

A pure function of the attempts and of what they pay; samples say nothing of a purchase before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from functools import partial
from typing import Final, NamedTuple

from schemas.durations import HOUR_MS, MINUTE_MS
from schemas.events import PRICE_FIELDS
from streams.engine.rules.evidence import attempts_evidence
from streams.engine.rules.formatting import short, times, unheeded, usd
from streams.engine.rules.job_view import FactSpan, JobAt, JobKnown, JobRule, Words, per_hour_nano, rate_at
from streams.engine.rules.rule import JOB, TICKET, Margin, Threshold, above_threshold
from streams.engine.timeline.attempts import OPEN_MS, Segment, Timeline
from streams.engine.timeline.intervals import Span, union
from streams.engine.windows.expected import Expected

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


def has_several_purchases(held: Iterable[tuple[str | None, ...]]) -> bool:
    """Return whether these price fields name more than one purchase: else no attempt pays another one."""
    return len({name for fields in held if (name := fields[_PURCHASE])}) > 1


def basis_changes(
    timelines: Mapping[int, Timeline],
    rise_ratio: Fraction,
    rate_at: Callable[[int, int], Fraction],
    expected: Expected,
) -> list[BasisChange]:
    """Return the attempts that pay another purchase at more than `rise_ratio` times the rate per GPU.

    An attempt is compared with the last one that had another purchase: the last stretch of that one with the first of
    its own. `rate_at(attempt, at_ms)` is what the attempt pays, in nano-dollars per ms. Time in which `expected`, what was
    declared or planned (0 where nothing was), is as high as that does not count: somebody knows.
    """
    latest: dict[
        str, tuple[int, Segment]
    ] = {}  # by purchase, the last attempt and what it held last; the last one last
    found = []
    for number, line in timelines.items():
        paid = line.paid(OPEN_MS)
        purchase = paid[0].values.fields[_PURCHASE] if paid else None
        if not purchase:
            continue
        other = next((name for name in reversed(latest) if name != purchase), None)
        if other is not None:
            earlier, held = latest[other]
            before = Basis(other, _per_gpu(held, rate_at(earlier, held.start_ms)))
            after = Basis(purchase, _per_gpu(paid[0], rate_at(number, paid[0].start_ms)))
            if before.rate > 0 and after.rate > rise_ratio * before.rate:
                spans = union(
                    piece
                    for segment in paid
                    for piece in _undeclared(segment, partial(rate_at, number), expected)
                )
                found.append(BasisChange(number, before, after, spans))
        last = paid[-1].values.fields[_PURCHASE] or purchase
        latest.pop(last, None)
        latest[last] = number, paid[-1]
    return found


def _undeclared(segment: Segment, rate_at: Callable[[int], Fraction], expected: Expected) -> Iterator[Span]:
    """Yield the pieces of a segment in which less is declared or planned than what is paid at the piece's start."""
    pieces = expected.between(segment.start_ms, segment.end_ms)
    ends_ms = [*(from_ms for from_ms, _ in pieces[1:]), segment.end_ms]
    for (from_ms, per_hour), end_ms in zip(pieces, ends_ms, strict=True):
        if Fraction(per_hour) < rate_at(from_ms) * HOUR_MS:
            yield from_ms, end_ms


def _per_gpu(segment: Segment, rate: Fraction) -> Fraction:
    gpu_milli = segment.values.gpu_milli
    return rate * 1000 / gpu_milli if gpu_milli else rate


class _BasisFound(NamedTuple):
    """The attempts that pay more than the last one with another purchase."""

    changes: tuple[BasisChange, ...]


def _spans(known: JobKnown) -> Iterator[FactSpan]:
    if len(known.timelines) < 2 or not has_several_purchases(known.job.fields_held()):
        return
    changes = basis_changes(
        known.timelines,
        Fraction(str(known.thresholds["rise_ratio"])),
        lambda attempt, at_ms: rate_at(known.lines.get(attempt, {}), at_ms),
        Expected(known.job.declared(), known.planned, 0.0),
    )
    known.details.append(_BasisFound(tuple(changes)))
    for change in changes:
        for each in change.spans:
            yield FactSpan(*each, change.extra_ratio)


def _cause(at: JobAt) -> str:
    """Return which attempt pays which purchase at which rate, instead of which, and how much more that is."""
    found = at.facts.detail(_BasisFound)
    for change in reversed(() if found is None else found.changes):
        if any(from_ms <= at.at_ms < until_ms for from_ms, until_ms in change.spans):
            before, after = change.before, change.after
            # The rate of 5 min says little yet: the rule opens at the first tick of the attempt.
            now = rate_at(at.lines.get(change.attempt, {}), at.at_ms)
            extra_nano = per_hour_nano(now * (1 - before.rate / after.rate))
            return (
                f"{short(after.purchase)} {_hourly(after.rate)} per GPU-h instead of {short(before.purchase)}"
                f" {_hourly(before.rate)} ({times(float(after.rate / before.rate))}) since attempt {change.attempt},"
                f" {unheeded(extra_nano, at.at_ms)}"
            )
    return "another purchase than before"


def _hourly(rate: Fraction) -> str:
    return usd(per_hour_nano(rate))


def _margins(at: JobAt) -> list[Margin]:
    rise, what = (
        at.settings["price_basis"]["rise_ratio"],
        "rate per GPU / that of another purchase before (holds above)",
    )
    if at.job is None or len(at.timelines) < 2 or not has_several_purchases(at.job.fields_held()):
        return [Margin(what, None, rise, None)]
    changes = basis_changes(
        at.timelines,
        Fraction(0),
        lambda attempt, at_ms: rate_at(at.lines.get(attempt, {}), at_ms),
        Expected(at.job.declared(), at.planned, 0.0),
    )
    ratios = [
        change.after.rate / change.before.rate
        for change in changes
        if any(from_ms <= at.at_ms < until_ms for from_ms, until_ms in change.spans)
    ]
    if not ratios:
        return [Margin(what, None, rise, None)]
    largest = max(ratios)
    return [above_threshold(what, float(largest), rise, is_above=largest > Fraction(str(rise)))]


RULE: Final = JobRule(
    name="price_basis",
    title="Another purchase",
    severity=TICKET,
    about=JOB,
    holds="an attempt pays more per GPU than the last attempt with a different `purchase`",
    runbook="operations.md#another-purchase",
    thresholds={"rise_ratio": Threshold(1.0, 1.0, 1e6, "new rate per GPU / old one: above it")},
    window_ms=5 * MINUTE_MS,
    planned_quiets=True,
    spans=_spans,
    cause=_cause,
    margins=_margins,
    evidence=lambda of: attempts_evidence(of.job_id),
    words=Words(
        "pays {cause}",
        "move it back or declare it",
        "pays no more than its attempt before, or what is declared",
        "",
    ),
)
