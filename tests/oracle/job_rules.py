"""Rules of a job whose condition its attempts decide: retry loops, and another purchase at a higher price.

Must import nothing of the project; money is in the SCALE-ths of `burn`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

from tests.oracle.model import HOUR_MS, MINUTE_MS
from tests.oracle.pace import Reported
from tests.oracle.slow import Slowed, Slowing, slowing
from tests.oracle.timeline import ENDLESS_MS, Attempt, union
from tests.oracle.unsaved import Unsaved, unsaved

TOLD = {"ticket_usd_per_hour": Fraction(1), "page_usd_per_hour": Fraction(100)}
#: Thresholds of the rules that have some; a record changes those that it names.
DEFAULTS: dict[str, dict[str, Fraction]] = {
    "burn_fast": {"long_ratio": Fraction("2.5"), "short_ratio": Fraction(6), "extra_usd": Fraction(1)} | TOLD,
    "burn_sustained": {
        "long_ratio": Fraction("2.1"),
        "short_ratio": Fraction("2.1"),
        "extra_usd": Fraction(1),
    }
    | TOLD,
    "burn_drift": {"long_ratio": Fraction("1.4"), "short_ratio": Fraction("1.4"), "extra_usd": Fraction(1)}
    | TOLD,
    "unpriced": {"traffic": Fraction(1)},
    "silent_job": {
        "minutes": Fraction(10),
        "usual_times": Fraction(3),
        "first_minutes": Fraction(45),
        "never_heard_minutes": Fraction(0),
    }
    | TOLD,
    "retry_loop": {
        "failures": Fraction(3),
        "preemptions": Fraction(6),
        "lost_usd": Fraction(25),
        "slow_hours": Fraction(12),
        "slow_usd_per_hour": Fraction(100),
        "saving_page_usd_per_hour": Fraction(100),
    }
    | (TOLD | {"page_usd_per_hour": Fraction(0)}),
    "idle_gpus": {
        "productive_ratio": Fraction("0.2"),
        "minutes": Fraction(50),
        "interactive_minutes": Fraction(120),
        "least_usd": Fraction(5),
        "fallen_minutes": Fraction(12),
        "start_minutes": Fraction(30),
        "gpu_minutes": Fraction(120),
        "page_usd_per_hour": Fraction(100),
    },
    "runaway_length": {"hours": Fraction(168), "grace_minutes": Fraction(0)} | TOLD,
    "traffic": {
        "usd_per_hour": Fraction(5),
        "ratio": Fraction(1),
        "start_times": Fraction(2),
        "repeated_ratio": Fraction("0.5"),
        "page_usd_per_hour": Fraction(100),
    },
    "price_basis": {
        "rise_ratio": Fraction(1),
        "instance_ratio": Fraction("1.2"),
        "instance_usd_per_hour": Fraction(10),
    },
    "ceiling": {"usd_per_hour": Fraction(500), "minutes": Fraction(5)},
    "no_checkpoint": {"hours": Fraction(6), "usual_times": Fraction(2), "least_usd": Fraction(100)} | TOLD,
    "held": {"minutes": Fraction(30), "least_usd_per_hour": Fraction(1), "page_usd_per_hour": Fraction(100)},
    "stalled": {
        "minutes": Fraction(15),
        "usual_times": Fraction(6),
        "least_usd": Fraction(20),
        "least_usd_per_hour": Fraction(1),
        "page_usd_per_hour": Fraction(100),
    },
    "slow_progress": {
        "minutes": Fraction(40),
        "times": Fraction("2.5"),
        "least_usd": Fraction(10),
        "least_usd_per_hour": Fraction(1),
        "page_usd_per_hour": Fraction(100),
    },
}


class Setting(NamedTuple):
    """How one rule applies to a job."""

    enabled: bool
    severity: str | None  # None: the rule's own
    thresholds: dict[str, Fraction]


Settings = dict[str, Setting]


def settings_of(
    records: Sequence[Mapping[str, Any]], wanted: Callable[[Mapping[str, Any]], int | None]
) -> Settings:
    """What the records make of the rules of a job; `wanted` says how many fields a record asks for, None: not this job."""
    # "off by default": `missing_price` sends one alert for all jobs that lack the same price.
    found = {
        name: Setting(name != "unpriced", None, dict(thresholds)) for name, thresholds in DEFAULTS.items()
    }
    ranked = [(count, record) for record in records if (count := wanted(record)) is not None]
    names = sorted({record["name"] for record in records}, reverse=True)
    # "the one with the most match fields wins, of those the one with the smallest name": it is applied last.
    for _, record in sorted(ranked, key=lambda each: (each[0], names.index(each[1]["name"]))):
        rule = record.get("rule") or record["name"]
        if rule not in found:
            continue  # a rule across jobs
        enabled, severity, thresholds = found[rule]
        said = {name: Fraction(str(value)) for name, value in (record.get("thresholds") or {}).items()}
        found[rule] = Setting(
            enabled if record.get("enabled") is None else record["enabled"],
            severity if record.get("severity") is None else record["severity"],
            thresholds | said,
        )
    return found


class Broken(NamedTuple):
    """An attempt that broke off, and what it lost."""

    ended_ms: int
    failed: bool  # else it was preempted
    lost: Fraction  # nano-dollars
    start_ms: int  # of what it lost


class Risen(NamedTuple):
    """When an attempt pays more by its purchase, which share of what it pays that is, and its paid time."""

    start_ms: int
    end_ms: int
    share: Fraction
    pieces: Sequence[Rated] = ()


class Holding(NamedTuple):
    """When an attempt holds GPUs and does not run, without a break, and what it pays."""

    start_ms: int
    end_ms: int
    pieces: Sequence[Rated]
    scale: int


class Still(NamedTuple):
    """An attempt whose progress moved, and is as it was reported last: since when it runs with that, and its reports."""

    start_ms: int
    end_ms: int
    last: Reported
    before: Sequence[Reported]
    pieces: Sequence[Rated]
    scale: int


class Rated(NamedTuple):
    """Paid time of one attempt at one cost per ms."""

    start_ms: int
    end_ms: int
    rate: int


@dataclass(frozen=True)
class AttemptRules:
    """What the attempts say, asked tick by tick."""

    broken: Sequence[Broken]
    done_ms: int
    risen: Sequence[Risen]
    deadline_ms: int | None
    limits: Mapping[str, Mapping[str, Fraction]]  # the thresholds in force, by rule
    unsaved: Sequence[Unsaved]
    paying: Sequence[Rated]  # of all attempts that are not metered
    scale: int
    said: Callable[[int], int]
    said_anew_ms: Sequence[int]
    holding: Sequence[Holding]
    still: Still | None
    slowing: Slowing | None
    saved_ms: Sequence[int]

    def saved_nothing_since(self, since_ms: int) -> bool:
        return all(each <= since_ms for each in self.saved_ms)

    def above_ceiling(self, at_ms: int) -> bool:
        """What it pays has been above the ceiling for long, and above 1.2 times what was declared or planned."""
        from_ms = at_ms - 1 - round(self.limits["ceiling"]["minutes"] * MINUTE_MS)
        edges = {edge for each in self.paying for edge in (each.start_ms, each.end_ms)}
        looks = {each for edge in (*edges, *self.said_anew_ms) for each in (edge - 1, edge)}
        looks = {each for each in looks if from_ms < each < at_ms} | {from_ms, at_ms}
        return bool(self.limits["ceiling"]["usd_per_hour"]) and all(
            self._above(each) for each in sorted(looks, reverse=True)
        )

    def _above(self, at_ms: int) -> bool:
        rate = sum(each.rate for each in self.paying if each.start_ms <= at_ms < each.end_ms)
        is_much = rate * HOUR_MS >= self.limits["ceiling"]["usd_per_hour"] * 10**9 * self.scale
        return is_much and rate > Fraction(6, 5) * self.said(at_ms)

    def holds_gpus(self, at_ms: int) -> bool:
        """An attempt has held GPUs for long and not run, and pays enough now."""
        after_ms = self.limits["held"]["minutes"] * MINUTE_MS
        least = self.limits["held"]["least_usd_per_hour"] * 10**9
        return any(
            each.start_ms + after_ms <= at_ms < each.end_ms
            and sum(p.rate for p in each.pieces if p.start_ms <= at_ms < p.end_ms) * HOUR_MS
            >= least * each.scale
            for each in self.holding
        )

    def stands_still(self, at_ms: int) -> bool:
        """Reports have shown no progress for long, and it has cost enough by the last one, and costs enough now."""
        each, limits = self.still, self.limits["stalled"]
        if each is None or not each.start_ms <= at_ms < each.end_ms or each.last.reports < 3:
            return False
        stood = [one.to_ms - one.from_ms for one in each.before]
        wait_ms = max(
            round(limits["minutes"] * MINUTE_MS),
            round(limits["usual_times"] * sum(stood) / len(stood)),
            -(-3 * max(stood) // 2),
        )
        spent = sum(
            p.rate * max(0, min(each.last.to_ms, p.end_ms) - max(each.start_ms, p.start_ms))
            for p in each.pieces
        )
        now = sum(p.rate for p in each.pieces if p.start_ms <= at_ms < p.end_ms)
        return (
            each.last.to_ms - each.start_ms >= wait_ms
            and spent >= limits["least_usd"] * 10**9 * each.scale
            and now * HOUR_MS >= limits["least_usd_per_hour"] * 10**9 * each.scale
        )

    def goes_slowly(self, at_ms: int) -> bool:
        """It makes less progress than before."""
        return self.slowing is not None and self.slowing.holds(at_ms, self.limits["slow_progress"])

    def slow_share(self) -> Fraction:
        """Which share of what it pays does nothing that was done before."""
        return Fraction(0) if self.slowing is None else self.slowing.lost

    def saves_nothing(self, at_ms: int) -> bool:
        """A running attempt has made no checkpoint for hours, and has cost much since then."""
        return any(each.is_late(at_ms, self.limits["no_checkpoint"]) for each in self.unsaved)

    def retries(self, at_ms: int) -> bool:
        """Three failures within an hour, or two that lost much, or six preemptions; for an hour after the last. Or a slow loop."""
        if at_ms >= self.done_ms:
            return False
        failed = [b for b in self.broken if b.failed]
        for before, last in pairwise(failed):
            between_ms = last.ended_ms - before.ended_ms
            if last.ended_ms <= at_ms < last.ended_ms + 3 * between_ms // 2 and self._is_slow(before, last):
                return True
        for last in self.broken:
            if not last.ended_ms <= at_ms < last.ended_ms + HOUR_MS:
                continue
            hour = [b for b in self.broken if 0 <= last.ended_ms - b.ended_ms < HOUR_MS]
            alike = [b for b in hour if b.failed == last.failed]
            if len(alike) >= self.limits["retry_loop"]["failures" if last.failed else "preemptions"]:
                return True
            if (
                last.failed
                and len(alike) >= 2
                and sum(b.lost for b in alike) >= self.limits["retry_loop"]["lost_usd"] * 10**9
            ):
                return True
        return False

    def _is_slow(self, before: Broken, last: Broken) -> bool:
        """Two that failed in a row, an hour apart or more, lost much per hour, and half of what was paid meanwhile."""
        limits = self.limits["retry_loop"]
        if not HOUR_MS <= last.ended_ms - before.ended_ms < limits["slow_hours"] * HOUR_MS:
            return False
        start_ms, lost = min(before.start_ms, last.start_ms), before.lost + last.lost
        span_ms, paid = max(last.ended_ms - start_ms, 15 * MINUTE_MS), self._paid(start_ms, last.ended_ms)
        is_dear = lost * HOUR_MS >= limits["slow_usd_per_hour"] * 10**9 * span_ms
        return is_dear and 2 * lost * self.scale >= paid

    def lost_per_ms(self, at_ms: int) -> Fraction:
        """What those that broke off like the last one lost, over the time since the first of that was done, 15 min at least."""
        alike = self._like_last(at_ms)
        span_ms = max(at_ms - min(b.start_ms for b in alike), 15 * MINUTE_MS)
        return sum((b.lost for b in alike), Fraction(0)) * self.scale / span_ms

    def saves_most(self, at_ms: int) -> bool:
        """Whether these lost less than half of what was paid since the first of that was done."""
        alike = self._like_last(at_ms)
        paid = self._paid(min(b.start_ms for b in alike), max(b.ended_ms for b in alike))
        return 2 * sum((b.lost for b in alike), Fraction(0)) * self.scale < paid

    def _paid(self, start_ms: int, end_ms: int) -> int:
        return sum(p.rate * max(0, min(end_ms, p.end_ms) - max(start_ms, p.start_ms)) for p in self.paying)

    def _like_last(self, at_ms: int) -> list[Broken]:
        known = [b for b in self.broken if b.ended_ms <= at_ms]
        last = known[-1]
        hour = [b for b in self.broken if 0 <= last.ended_ms - b.ended_ms < HOUR_MS]
        alike = [b for b in hour if b.failed == last.failed]
        failed = [b for b in known if b.failed][-2:]
        if last.failed and len(failed) == 2:
            between_ms = last.ended_ms - failed[0].ended_ms
            if HOUR_MS <= between_ms < self.limits["retry_loop"]["slow_hours"] * HOUR_MS:
                alike = failed
        return alike

    def paid_more(self, at_ms: int) -> bool:
        """Whether an attempt pays that has another purchase than the one before, and a higher rate per GPU."""
        return any(each.start_ms <= at_ms < each.end_ms for each in self.risen)


def attempt_rules(
    attempts: Sequence[Attempt],
    pieces: Mapping[int, Sequence[Rated]],
    scale: int,
    deadline_ms: int | None,
    settings: Settings,
    said: Callable[[int], int],
    said_anew_ms: Sequence[int],
    progress: tuple[int, Sequence[Reported]],
    slow: Slowed | None,
) -> AttemptRules:
    """`pieces`: the paid time of each attempt. `said(at_ms)`: the rate that was declared or planned, 0 without one."""
    known = [a for a in attempts if a.events or a.has_samples]
    end = known[-1].own_end if known else None
    done = end is not None and end["type"] in ("completed", "cancelled")
    return AttemptRules(
        sorted(_broken(attempts, pieces, scale)),
        end["time_ms"] if done and end is not None else ENDLESS_MS,
        [
            part
            for each in _risen(attempts, pieces, scale, settings["price_basis"].thresholds)
            for part in _unknown(each, said, said_anew_ms)
        ],
        deadline_ms,
        {name: setting.thresholds for name, setting in settings.items()},
        unsaved(attempts, pieces, scale),
        [piece for a in attempts if not a.metered for piece in pieces.get(a.number, ())],
        scale,
        said,
        said_anew_ms,
        _holding(attempts, pieces, scale),
        _still(attempts, pieces, scale, *progress),
        slowing(attempts, pieces, scale, slow),
        [e["time_ms"] for a in attempts for e in a.effective if e["type"] == "checkpointed"],
    )


def _still(
    attempts: Sequence[Attempt],
    pieces: Mapping[int, Sequence[Rated]],
    scale: int,
    number: int,
    times: Sequence[Reported],
) -> Still | None:
    for attempt in attempts:
        if attempt.number != number or attempt.metered or len(times) < 2:
            continue
        running = union((s.start_ms, s.end_ms) for s in attempt.segments(ENDLESS_MS) if s.phase == "running")
        last = times[-1]
        if running and running[-1][1] > last.from_ms:
            start_ms, end_ms = running[-1]
            mine = pieces.get(number, ())
            return Still(max(start_ms, last.from_ms), end_ms, last, times[:-1], mine, scale)
    return None


def _holding(attempts: Sequence[Attempt], pieces: Mapping[int, Sequence[Rated]], scale: int) -> list[Holding]:
    return [
        Holding(start_ms, end_ms, pieces.get(attempt.number, ()), scale)
        for attempt in attempts
        for start_ms, end_ms in union(
            (s.start_ms, s.end_ms)
            for s in attempt.segments(ENDLESS_MS)
            if s.phase in ("starting", "suspended") and s.values.gpu_milli
        )
    ]


def _broken(attempts: Sequence[Attempt], pieces: Mapping[int, Sequence[Rated]], scale: int) -> list[Broken]:
    found = []
    for place, attempt in enumerate(attempts):
        state = attempt.state()
        if state in ("failed", "superseded", "preempted"):
            end = attempt.own_end
            ended_ms = attempt.superseded_ms if end is None else end["time_ms"]
            assert ended_ms is not None
            spans = attempt.lost(has_lower=place > 0)
            lost = sum(
                piece.rate * max(0, min(b_ms, piece.end_ms) - max(a_ms, piece.start_ms))
                for piece in pieces.get(attempt.number, ())
                for a_ms, b_ms in spans
            )
            start_ms = min((a_ms for a_ms, _ in spans), default=ended_ms)
            found.append(Broken(ended_ms, state != "preempted", Fraction(lost, scale), start_ms))
    return found


def _unknown(each: Risen, said: Callable[[int], int], said_anew_ms: Sequence[int]) -> list[Risen]:
    """What is left without the time in which as much was declared or planned as is paid, when that begins."""
    cuts = [each.start_ms, *sorted({x for x in said_anew_ms if each.start_ms < x < each.end_ms}), each.end_ms]
    found = []
    for a_ms, b_ms in pairwise(cuts):
        paid = sum(p.rate for p in each.pieces if p.start_ms <= a_ms < p.end_ms)
        if said(a_ms) < paid:
            found.append(Risen(a_ms, b_ms, each.share))
    return found


def _risen(
    attempts: Sequence[Attempt],
    pieces: Mapping[int, Sequence[Rated]],
    scale: int,
    thresholds: Mapping[str, Fraction],
) -> list[Risen]:
    """When attempts pay another purchase, or by another instance type, than the last one before them that had another one."""
    found: list[Risen] = []
    # (purchase, instance type, cost per ms of a GPU) at the end of each attempt
    history: list[tuple[str, str, Fraction]] = []
    for attempt in attempts:
        paid = attempt.segments(ENDLESS_MS)
        purchase = paid[0].values.fields.get("purchase") if paid else None
        if not purchase:
            continue
        instance = paid[0].values.fields.get("instance_type") or ""

        def rate(place: int, attempt: Attempt = attempt) -> Fraction:
            segment = attempt.segments(ENDLESS_MS)[place]
            return Fraction(
                sum(
                    p.rate
                    for p in pieces.get(attempt.number, ())
                    if p.start_ms <= segment.start_ms < p.end_ms
                )
            )

        def per_gpu(place: int, attempt: Attempt = attempt) -> Fraction:
            held = attempt.segments(ENDLESS_MS)[place].values.gpu_milli
            return rate(place) * 1000 / held if held else rate(place)

        now = per_gpu(0)
        before = [one[2] for one in history if one[0] != purchase][-1:]
        holds = bool(before) and before[0] > 0 and now > thresholds["rise_ratio"] * before[0]
        if not holds and instance:
            before = [one[2] for one in history if one[0] == purchase and one[1] not in ("", instance)][-1:]
            if before and before[0] > 0 and now >= thresholds["instance_ratio"] * before[0]:
                more = rate(0) * (1 - before[0] / now) * HOUR_MS / scale
                holds = more >= thresholds["instance_usd_per_hour"] * 10**9
        if holds:
            mine = pieces.get(attempt.number, ())
            found += [Risen(s.start_ms, s.end_ms, 1 - before[0] / now, mine) for s in paid]
        fields = paid[-1].values.fields
        history.append((fields.get("purchase") or purchase, fields.get("instance_type") or "", per_gpu(-1)))
    return found
