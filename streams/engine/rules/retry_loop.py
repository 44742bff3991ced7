"""`retry_loop`: a job's attempts break off again and again within an hour.

A pure function of the attempts; what each of them lost is handed in.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from operator import attrgetter
from typing import Final, NamedTuple

from schemas.durations import BEGINNING_MS, HOUR_MS, MINUTE_MS
from schemas.units import NANO_PER_USD
from streams.engine.rules.evidence import attempts_evidence
from streams.engine.rules.formatting import short, span, usd
from streams.engine.rules.job_view import FactSpan, JobAt, JobKnown, JobRule, Words, cost_in
from streams.engine.rules.rule import (
    JOB,
    PAGE_FROM,
    TICKET,
    Margin,
    Threshold,
    from_threshold_on,
    loop_page_usd,
    loops_notified_from,
    page_from,
)
from streams.engine.rules.slow_loops import LEAST_SPAN_MS, SLOW_LOST_RATIO, hold_ms, is_mostly_lost
from streams.engine.state.job_facts import done_ms
from streams.engine.timeline.attempts import Timeline
from streams.engine.timeline.growing import changed_since
from streams.engine.timeline.intervals import Span, union
from streams.engine.timeline.lines import Lines

_FAILED: Final = ("failed", "superseded")
_REASONS_AT_MOST: Final = 3
_UNKNOWN: Final = "unknown"
#: The end of the cause of a loop that resumes from its checkpoints: what it pays for the rest is not lost.
_SAVING: Final = "/h, as most of it is saved"


class RetryLimits(NamedTuple):
    """From how many attempts within an hour on, and from which loss in nano-dollars on if two or more failed.

    And of two that failed one after the other within `slow_ms`, from which loss per hour on.
    """

    failures: int
    preemptions: int
    lost_nano: int
    slow_ms: int
    slow_nano_per_hour: int


class BrokenAttempt(NamedTuple):
    """An attempt that failed, was superseded without an end, or was preempted."""

    ended_ms: int
    attempt: int
    failed: bool
    reason: str


def broken_attempts(timelines: Mapping[int, Timeline]) -> list[BrokenAttempt]:
    """Return the attempts that broke off, in order of their ends."""
    return sorted(
        BrokenAttempt(line.ended_ms, number, line.state in _FAILED, line.reason)
        for number, line in timelines.items()
        if line.ended_ms is not None and line.state in (*_FAILED, "preempted")
    )


class BrokenAttempts:
    """Those of one job, of which only the attempts that changed are read again."""

    def __init__(self) -> None:
        self._timelines: Mapping[int, Timeline] = {}
        self._of: dict[int, BrokenAttempt] = {}
        self._in_order: list[BrokenAttempt] = []

    def update(self, timelines: Mapping[int, Timeline]) -> Sequence[BrokenAttempt]:
        """Return what `broken_attempts` does; it is valid until the next call."""
        changed, self._timelines = changed_since(timelines, self._timelines), timelines
        for number in changed:
            known = self._of.pop(number, None)
            if known is not None:
                del self._in_order[bisect_left(self._in_order, known)]
        for each in broken_attempts({n: timelines[n] for n in changed if n in timelines}):
            self._of[each.attempt] = each
            insort(self._in_order, each)
        return self._in_order


def retry_spans(
    broken: Sequence[BrokenAttempt],
    limits: RetryLimits,
    lost_nano: Callable[[int], Fraction],
    is_slow_loop: Callable[[BrokenAttempt, BrokenAttempt], bool],
    done_ms: int,
    since_ms: int = BEGINNING_MS,
) -> tuple[Span, ...]:
    """Return when a retry loop holds: from an end that completes it until an hour later, or until the job is done.

    One that is slow holds until half as long again as its attempts take has passed without another.
    `lost_nano(attempt)` is what the attempt lost, in nano-dollars; it is called only where two failed within an hour.
    `is_slow_loop`: whether two that failed one after the other lost enough per hour. `done_ms`: when the job was completed or
    cancelled, OPEN_MS if it was not. Spans that end by `since_ms` are left out.
    """
    spans = []
    longest_ms = max(hold_ms(limits.slow_ms), HOUR_MS)
    begin = bisect_right(broken, since_ms - longest_ms, key=attrgetter("ended_ms"))
    for place in range(begin, len(broken)):
        last, holds_ms = broken[place], HOUR_MS
        # One that is slow has one failure in an hour, so it is no other.
        holds = last.ended_ms > since_ms - HOUR_MS and _is_quick(broken, place, limits, lost_nano)
        before = None if holds else slow_before(broken, place, limits.slow_ms)
        if before is not None:
            holds_ms = hold_ms(last.ended_ms - before.ended_ms)
            holds = last.ended_ms > since_ms - holds_ms and is_slow_loop(before, last)
        if holds and last.ended_ms < done_ms:
            spans.append((last.ended_ms, min(last.ended_ms + holds_ms, done_ms)))
    return union(spans)


def _is_quick(
    broken: Sequence[BrokenAttempt], place: int, limits: RetryLimits, lost_nano: Callable[[int], Fraction]
) -> bool:
    """Whether enough broke off, or lost enough, in the hour up to an end."""
    last = broken[place]
    first = bisect_right(broken, last.ended_ms - HOUR_MS, 0, place, key=attrgetter("ended_ms"))
    alike = within_an_hour(broken[first : place + 1], last)
    if len(alike) >= (limits.failures if last.failed else limits.preemptions):
        return True
    is_dear = last.failed and len(alike) > 1
    return is_dear and sum(lost_nano(each.attempt) for each in alike) >= limits.lost_nano


def slow_before(broken: Sequence[BrokenAttempt], place: int, slow_ms: int) -> BrokenAttempt | None:
    """The one that failed last before one that failed, an hour or more before it and within the time of a slow loop; None: none did."""
    last = broken[place]
    if not last.failed:
        return None
    for earlier in range(place - 1, -1, -1):
        before = broken[earlier]
        if before.failed or last.ended_ms - before.ended_ms >= slow_ms:
            is_slow = before.failed and HOUR_MS <= last.ended_ms - before.ended_ms < slow_ms
            return before if is_slow else None
    return None


def within_an_hour(broken: Sequence[BrokenAttempt], last: BrokenAttempt) -> list[BrokenAttempt]:
    """Return those that broke off like the last one in the hour up to its end, itself included."""
    return [
        each
        for each in broken
        if each.failed == last.failed and last.ended_ms - HOUR_MS < each.ended_ms <= last.ended_ms
    ]


class _BreaksFound(NamedTuple):
    """The attempts that broke off."""

    broken: Sequence[BrokenAttempt]


def _limits(thresholds: Mapping[str, float]) -> RetryLimits:
    failures, preemptions, lost_usd = (thresholds[name] for name in ("failures", "preemptions", "lost_usd"))
    slow_ms = round(thresholds["slow_hours"] * HOUR_MS)
    slow_nano = round(thresholds["slow_usd_per_hour"] * NANO_PER_USD)
    return RetryLimits(
        round(failures), round(preemptions), round(lost_usd * NANO_PER_USD), slow_ms, slow_nano
    )


class _SlowLoss(NamedTuple):
    """What two attempts that failed one after the other lost, over the time since the first of that work was done."""

    nano_per_hour: Fraction
    paid_nano: Fraction  # that the job paid in that time
    lost_nano: Fraction

    @property
    def is_most(self) -> bool:
        """Whether they lost much of what was paid."""
        return is_mostly_lost(self.lost_nano, self.paid_nano)


def _slow_loss(
    before: BrokenAttempt, last: BrokenAttempt, timelines: Mapping[int, Timeline], lines: Mapping[int, Lines]
) -> _SlowLoss:
    pair = [(lines.get(each.attempt, {}), timelines[each.attempt].lost) for each in (before, last)]
    begin_ms = min((start_ms for _, lost in pair for start_ms, _ in lost), default=last.ended_ms)
    lost = sum((cost_in(of, spans) for of, spans in pair), Fraction(0))
    meanwhile: list[Span] = [(begin_ms, last.ended_ms)]
    paid = sum((cost_in(of, meanwhile) for of in lines.values()), Fraction(0)) if lost else Fraction(0)
    return _SlowLoss(lost * HOUR_MS / max(last.ended_ms - begin_ms, LEAST_SPAN_MS), paid, lost)


def _spans(known: JobKnown) -> Iterator[FactSpan]:
    if len(known.timelines) < 2:
        return
    breaks = known.breaks if isinstance(known.breaks, BrokenAttempts) else BrokenAttempts()
    broken = breaks.update(known.timelines)
    lost: dict[int, Fraction] = {}

    def lost_nano(attempt: int) -> Fraction:
        if attempt not in lost:
            lost[attempt] = cost_in(known.lines.get(attempt, {}), known.timelines[attempt].lost)
        return lost[attempt]

    limits = _limits(known.thresholds)

    def is_slow_loop(before: BrokenAttempt, last: BrokenAttempt) -> bool:
        found = _slow_loss(before, last, known.timelines, known.lines)
        return found.nano_per_hour >= limits.slow_nano_per_hour and found.is_most

    known.details.append(_BreaksFound(broken))
    until_ms = done_ms(known.job, known.job.timelines())
    for each in retry_spans(broken, limits, lost_nano, is_slow_loop, until_ms, known.since_ms):
        yield FactSpan(*each)


def _broken_like_last(at: JobAt) -> list[BrokenAttempt]:
    """The attempts that broke off like the last one, in the hour up to its end, or else in a slow loop; empty: none did."""
    found = at.facts.detail(_BreaksFound)
    end = 0 if found is None else bisect_right(found.broken, at.at_ms, key=attrgetter("ended_ms"))
    if found is None or not end:
        return []
    last = found.broken[end - 1]
    before = slow_before(found.broken, end - 1, _limits(at.settings["retry_loop"]).slow_ms)
    if before is not None:
        return [before, last]
    first = bisect_right(found.broken, last.ended_ms - HOUR_MS, 0, end, key=attrgetter("ended_ms"))
    return within_an_hour(found.broken[first:end], last)


def _lost_nano(at: JobAt, alike: Sequence[BrokenAttempt]) -> Fraction:
    of_attempts = (cost_in(at.lines.get(b.attempt, {}), at.timelines[b.attempt].lost) for b in alike)
    return sum(of_attempts, Fraction(0))


def _first_lost_ms(at: JobAt, alike: Sequence[BrokenAttempt]) -> int:
    """When the first work was done that they lost, or the first one ended that lost none."""
    first_ms = (
        min((start_ms for start_ms, _ in at.timelines[each.attempt].lost), default=each.ended_ms)
        for each in alike
    )
    return min(first_ms, default=at.at_ms)


def _waste(at: JobAt, _paid_nano_per_hour: int) -> int | None:
    """What they lost, per hour since the first work of it; of a quarter of an hour at least."""
    alike = _broken_like_last(at)
    span_ms = max(at.at_ms - _first_lost_ms(at, alike), LEAST_SPAN_MS)
    return round(_lost_nano(at, alike) * HOUR_MS / span_ms)


def _saves_most(at: JobAt, alike: Sequence[BrokenAttempt], lost_nano: Fraction) -> bool:
    """Whether they lost less than half of what the job paid since the first work that is lost was done: it gets somewhere."""
    if not alike:
        return False
    meanwhile: list[Span] = [(_first_lost_ms(at, alike), alike[-1].ended_ms)]
    paid_nano = sum((cost_in(of, meanwhile) for of in at.lines.values()), Fraction(0))
    return not is_mostly_lost(lost_nano, paid_nano)


def _page_usd(at: JobAt, thresholds: Mapping[str, float]) -> float:
    """A loop that gets nowhere is a page whatever it loses: four attempts that break off in a minute have lost next to nothing yet."""
    alike = _broken_like_last(at)
    return (
        loop_page_usd(thresholds) if _saves_most(at, alike, _lost_nano(at, alike)) else thresholds[PAGE_FROM]
    )


def _cause(at: JobAt) -> str:
    """Return how many attempts broke off within an hour, why, since when, and what all of them lost."""
    alike = _broken_like_last(at)
    if not alike:
        return ""
    last = alike[-1]
    verb = "failed" if last.failed else "was preempted"
    reasons = Counter(short(each.reason) or _UNKNOWN for each in alike).most_common(_REASONS_AT_MOST)
    named = ", ".join(reason if count == 1 else f"{reason} x{count}" for reason, count in reasons)
    within = span(max(last.ended_ms - alike[0].ended_ms, 1000))
    words = f"{verb} {len(alike)} times in {within} ({named}), last attempt {last.attempt}"
    lost = _lost_nano(at, alike)
    if not lost:
        return words
    words = f"{words}, {usd(round(lost))} of work lost"
    return f"{words}, {usd(_waste(at, 0) or 0)}{_SAVING}" if _saves_most(at, alike, lost) else words


def _margins(at: JobAt) -> list[Margin]:
    of, found = at.settings["retry_loop"], at.facts.detail(_BreaksFound)
    failures = preemptions = 0
    lost_nano = Fraction(0)
    broken = (
        []
        if found is None or at.job is None or at.at_ms >= done_ms(at.job, at.job.timelines())
        else found.broken
    )
    limits, slow = _limits(of), list[_SlowLoss]()
    end = bisect_right(broken, at.at_ms, key=attrgetter("ended_ms"))
    for place in range(
        bisect_right(broken, at.at_ms - hold_ms(limits.slow_ms), 0, end, key=attrgetter("ended_ms")), end
    ):
        before = slow_before(broken, place, limits.slow_ms)
        if before is not None and at.at_ms < broken[place].ended_ms + hold_ms(
            broken[place].ended_ms - before.ended_ms
        ):
            slow.append(_slow_loss(before, broken[place], at.timelines, at.lines))
    # The one that is the nearest to it.
    worst = max(
        slow,
        key=lambda each: (
            min(each.nano_per_hour, limits.slow_nano_per_hour) if each.is_most else -1,
            each.nano_per_hour,
        ),
        default=None,
    )
    begin = bisect_right(broken, at.at_ms - HOUR_MS, key=attrgetter("ended_ms"))
    for place in range(begin, end):
        last = broken[place]
        first = bisect_right(broken, last.ended_ms - HOUR_MS, 0, place, key=attrgetter("ended_ms"))
        alike = within_an_hour(broken[first : place + 1], last)
        if not last.failed:
            preemptions = max(preemptions, len(alike))
            continue
        failures = max(failures, len(alike))
        if len(alike) > 1:
            lost_nano = max(lost_nano, _lost_nano(at, alike))
    return [
        from_threshold_on("attempts failed within an hour", failures, of["failures"]),
        from_threshold_on("attempts preempted within an hour", preemptions, of["preemptions"], way=1),
        Margin(
            "dollars lost by two or more that failed",
            float(lost_nano / NANO_PER_USD),
            of["lost_usd"],
            float(lost_nano / limits.lost_nano),
            way=2,
        ),
        *_slow_margins(worst, of),
    ]


def _slow_margins(found: _SlowLoss | None, of: Mapping[str, float]) -> list[Margin]:
    per_hour = share = None
    if found is not None:
        per_hour = float(found.nano_per_hour / NANO_PER_USD)
        share = float(found.lost_nano / found.paid_nano) if found.paid_nano else 0.0
    what = "dollars per hour lost by two that failed hours apart"
    return [
        from_threshold_on(what, per_hour, of["slow_usd_per_hour"], way=3),
        from_threshold_on("share of what was paid meanwhile", share, SLOW_LOST_RATIO, way=3),
    ]


RULE: Final = JobRule(
    name="retry_loop",
    title="Retry loop",
    severity=TICKET,
    about=JOB,
    holds="within an hour: 3 attempts failed, or 2 failed and lost $25, or 6 were preempted; until an hour after the last"
    " of them. Or 2 in a row failed within 12 h, and lost $100/h and half of what was paid meanwhile; until half as long again as"
    " between them after the last. Or until the job is completed or cancelled, if that is earlier",
    runbook="runbook.md#retry-loop",
    thresholds={
        "failures": Threshold(3, 2, 1000, "attempts that failed or were superseded within an hour", True),
        "preemptions": Threshold(6, 2, 1000, "attempts that were preempted within an hour", True),
        "lost_usd": Threshold(25.0, 0.01, 1e9, "dollars lost within an hour by at least two such failures"),
        "slow_hours": Threshold(12, 1, 168, "hours within which two failures in a row may be a slow loop"),
        "slow_usd_per_hour": Threshold(100, 0.01, 1e9, "dollars per hour that these lost"),
    }
    | page_from("dollars of lost work per hour since the first of it was done", 0)
    | loops_notified_from(),
    window_ms=5 * MINUTE_MS,
    spans=_spans,
    cause=_cause,
    margins=_margins,
    evidence=lambda of: attempts_evidence(of.job_id),
    words=Words(
        "{cause}", "stop it or remove the reason", "has not broken off again for long", partly_on=_SAVING
    ),
    goes_on="all",
    waste=_waste,
    page_usd=_page_usd,
    inhibited_by=("resubmit_loop",),
)
