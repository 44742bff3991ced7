"""`price_basis`: an attempt pays more per GPU than the last one with another purchase (spot became on-demand) or instance type.

A pure function of the attempts and of what they pay; samples say nothing of a purchase before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from functools import partial
from typing import Final, NamedTuple

from schemas.durations import HOUR_MS, MINUTE_MS
from schemas.events import PRICE_FIELDS
from schemas.units import NANO_PER_USD
from streams.engine.rules.evidence import attempts_evidence
from streams.engine.rules.formatting import short, times, unheeded, usd
from streams.engine.rules.job_view import FactSpan, JobAt, JobKnown, JobRule, Words, per_hour_nano, rate_at
from streams.engine.rules.rule import JOB, TICKET, Margin, Threshold, above_threshold, from_threshold_on
from streams.engine.timeline.attempts import OPEN_MS, Segment, Timeline
from streams.engine.timeline.intervals import Span, union
from streams.engine.timeline.lines import Line, Lines
from streams.engine.windows.expected import Expected

_PURCHASE: Final = PRICE_FIELDS.index("purchase")
_INSTANCE: Final = PRICE_FIELDS.index("instance_type")


class Basis(NamedTuple):
    """What an attempt pays: its purchase or instance type, and nano-dollars per ms of a GPU (of the job if it holds none)."""

    name: str
    rate: Fraction


class BasisChange(NamedTuple):
    """An attempt that pays on another basis than the last one on that, what it pays in nano-dollars per ms, and when."""

    attempt: int
    before: Basis
    after: Basis
    before_attempt: int
    before_ms: int
    rate: Fraction
    is_hardware: bool
    spans: tuple[Span, ...] = ()

    @property
    def extra_ratio(self) -> float:
        """Return the share of what the attempt pays that it would not pay at the price before."""
        return float(1 - self.before.rate / self.after.rate)

    @property
    def extra_nano_per_hour(self) -> Fraction:
        """Return what it pays more in an hour, as it began."""
        return self.rate * (1 - self.before.rate / self.after.rate) * HOUR_MS

    def holds(self, of: Mapping[str, float]) -> bool:
        """Whether it pays so much more that the rule holds."""
        if not self.is_hardware:
            return self.after.rate > Fraction(str(of["rise_ratio"])) * self.before.rate
        is_dear = self.after.rate >= Fraction(str(of["instance_ratio"])) * self.before.rate
        least_nano = Fraction(str(of["instance_usd_per_hour"])) * NANO_PER_USD
        return is_dear and self.extra_nano_per_hour >= least_nano


def has_several(held: Iterable[tuple[str | None, ...]]) -> bool:
    """Return whether these price fields name more than one purchase or instance type: else nothing can be compared."""
    fields = [*held]
    return any(
        len({name for each in fields if (name := each[place])}) > 1 for place in (_PURCHASE, _INSTANCE)
    )


def basis_changes(
    timelines: Mapping[int, Timeline], rate_at: Callable[[int, int], Fraction]
) -> Iterator[BasisChange]:
    """Yield each attempt that can be compared, without when it pays; one that can be compared by both has two.

    An attempt is compared with the last one that had another purchase, then with the last one that had the same and another
    instance type: the last stretch of that one with the first of its own. `rate_at(attempt, at_ms)` is what the attempt pays,
    in nano-dollars per ms.
    """
    # By purchase and instance type, the last attempt and what it held last; the last one last.
    latest: dict[tuple[str, str], tuple[int, Segment]] = {}
    for number, line in timelines.items():
        paid = line.paid(OPEN_MS)
        purchase = paid[0].values.fields[_PURCHASE] if paid else None
        if not purchase:
            continue
        instance = paid[0].values.fields[_INSTANCE] or ""
        others = [
            next((key for key in reversed(latest) if key[0] != purchase), None),
            next(
                (key for key in reversed(latest) if key[0] == purchase and key[1] not in ("", instance)), None
            )
            if instance
            else None,
        ]
        for is_hardware, other in enumerate(others):
            if other is None:
                continue
            earlier, held = latest[other]
            before_rate = _per_gpu(held, rate_at(earlier, held.start_ms))
            rate = rate_at(number, paid[0].start_ms)
            after_rate = _per_gpu(paid[0], rate)
            if before_rate > 0 and after_rate > 0:
                before = Basis(other[is_hardware], before_rate)
                after = Basis(instance if is_hardware else purchase, after_rate)
                yield BasisChange(number, before, after, earlier, held.start_ms, rate, bool(is_hardware))
        fields = paid[-1].values.fields
        last = fields[_PURCHASE] or purchase, fields[_INSTANCE] or ""
        latest.pop(last, None)
        latest[last] = number, paid[-1]


def paid_spans(line: Timeline, rate_at: Callable[[int], Fraction], expected: Expected) -> tuple[Span, ...]:
    """When an attempt pays more than is declared or planned: in time in which `expected` is as high somebody knows."""
    return union(piece for segment in line.paid(OPEN_MS) for piece in _undeclared(segment, rate_at, expected))


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
    """The attempts that pay more than the last one on another basis."""

    changes: tuple[BasisChange, ...]


def _spans(known: JobKnown) -> Iterator[FactSpan]:
    if len(known.timelines) < 2 or not has_several(known.job.fields_held()):
        return
    expected = Expected(known.job.declared(), known.planned, 0.0)

    def rate(attempt: int, at_ms: int) -> Fraction:
        return rate_at(known.lines.get(attempt, {}), at_ms)

    found: dict[int, BasisChange] = {}
    for change in basis_changes(known.timelines, rate):
        if change.attempt not in found and change.holds(known.thresholds):
            line = known.timelines[change.attempt]
            spans = paid_spans(line, partial(rate, change.attempt), expected)
            found[change.attempt] = change._replace(spans=spans)
    known.details.append(_BasisFound(tuple(found.values())))
    for change in found.values():
        for each in change.spans:
            yield FactSpan(*each, change.extra_ratio)


def _cause(at: JobAt) -> str:
    """Return which attempt pays on which basis at which rate, instead of which, and how much more that is."""
    found = at.facts.detail(_BasisFound)
    for change in reversed(() if found is None else found.changes):
        if any(from_ms <= at.at_ms < until_ms for from_ms, until_ms in change.spans):
            before, after = change.before, change.after
            # The rate of 5 min says little yet: the rule opens at the first tick of the attempt.
            now = rate_at(at.lines.get(change.attempt, {}), at.at_ms)
            extra_nano = per_hour_nano(now * (1 - before.rate / after.rate))
            added = _added(at, change) if change.is_hardware else ""
            return (
                f"{short(after.name)} {_hourly(after.rate)} per GPU-h instead of {short(before.name)}"
                f" {_hourly(before.rate)} ({times(float(after.rate / before.rate))}) since attempt {change.attempt},"
                f"{added} {unheeded(extra_nano, at.at_ms)}"
            )
    return "another purchase than before"


def _added(at: JobAt, change: BasisChange) -> str:
    """Return the dearest SKU that the attempt pays and the one before it did not, with its component; '': there is none."""
    held = {line.price.sku for line in _paid_at(at.lines.get(change.before_attempt, {}), change.before_ms)}
    lines = at.lines.get(change.attempt, {})
    rates: dict[tuple[str, str], Fraction] = {}
    for line in _paid_at(lines, at.at_ms):
        if line.price.sku and line.price.sku not in held:
            key = line.price.component, line.price.sku
            rates[key] = rates.get(key, Fraction(0)) + rate_at({line: lines[line]}, at.at_ms)
    if not rates:
        return ""
    component, sku = min(rates, key=lambda key: (-rates[key], key))
    return f" {component} {short(sku)} {usd(per_hour_nano(rates[component, sku]))}/h,"


def _paid_at(lines: Lines, at_ms: int) -> Iterator[Line]:
    return (
        line
        for line, intervals in lines.items()
        if any(start_ms <= at_ms < end_ms for start_ms, end_ms, *_ in intervals)
    )


def _hourly(rate: Fraction) -> str:
    return usd(per_hour_nano(rate))


def _margins(at: JobAt) -> list[Margin]:
    of = at.settings["price_basis"]
    what = (
        "rate per GPU / that of another purchase before (holds above)",
        "rate per GPU / that of another instance type before",
        "dollars per hour more by that",
    )
    names = "rise_ratio", "instance_ratio", "instance_usd_per_hour"
    unknown = [
        Margin(each, None, of[name], None, int(place > 0))
        for place, (each, name) in enumerate(zip(what, names, strict=True))
    ]
    if at.job is None or len(at.timelines) < 2 or not has_several(at.job.fields_held()):
        return unknown
    expected = Expected(at.job.declared(), at.planned, 0.0)

    def rate(attempt: int, at_ms: int) -> Fraction:
        return rate_at(at.lines.get(attempt, {}), at_ms)

    def pays(change: BasisChange) -> bool:
        spans = paid_spans(at.timelines[change.attempt], partial(rate, change.attempt), expected)
        return any(from_ms <= at.at_ms < until_ms for from_ms, until_ms in spans)

    changes = [change for change in basis_changes(at.timelines, rate) if pays(change)]
    purchases = [change.after.rate / change.before.rate for change in changes if not change.is_hardware]
    hardware = [change for change in changes if change.is_hardware]
    found = unknown[:]
    if purchases:
        largest = max(purchases)
        is_above = largest > Fraction(str(of[names[0]]))
        found[0] = above_threshold(what[0], float(largest), of[names[0]], is_above=is_above)
    if hardware:
        # The one that holds, if one does, else the dearest.
        change = max(hardware, key=lambda each: (each.holds(of), each.extra_nano_per_hour))
        ratio = change.after.rate / change.before.rate
        found[1] = from_threshold_on(what[1], float(ratio), of[names[1]], 1)
        found[2] = from_threshold_on(
            what[2], float(change.extra_nano_per_hour / NANO_PER_USD), of[names[2]], 1
        )
    return found


RULE: Final = JobRule(
    name="price_basis",
    title="Another purchase or instance",
    severity=TICKET,
    about=JOB,
    holds=(
        "an attempt pays more per GPU than the last attempt with a different `purchase`; or at least 1.2 "
        "times as much per GPU, and $10/h more, as the last attempt with the same `purchase` and a different "
        "`instance_type`"
    ),
    runbook="runbook.md#another-purchase",
    thresholds={
        "rise_ratio": Threshold(1.0, 1.0, 1e6, "new rate per GPU / old one: above it"),
        "instance_ratio": Threshold(
            1.2, 1.0, 1e6, "the same where only the instance type is another: from it on"
        ),
        "instance_usd_per_hour": Threshold(10, 0, 1e9, "dollars per hour more by another instance type"),
    },
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
