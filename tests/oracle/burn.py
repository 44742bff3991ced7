"""Burn rates of one job as docs/burn_rates.md has them: what its ledger costs in a window, and what was expected.

Must import nothing of the project and round nothing: money is counted in SCALE-ths of a nano-dollar, in integers.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from math import inf
from typing import Any

from tests.oracle.compute import last_said
from tests.oracle.controls import asked, dimensions_of, matches, nano, period
from tests.oracle.ends import Beats, beats, has_ended, heard_ms, is_silent, running, undecided_until_ms
from tests.oracle.held import Held
from tests.oracle.idle import IdleView, UsedByGpu, UsedByNode, idle_part, idles, used_by_gpu, used_by_node
from tests.oracle.intake import JobLog, attempt_of
from tests.oracle.job_rules import AttemptRules, Rated, Settings, attempt_rules, settings_of
from tests.oracle.model import HOUR_MS, MINUTE_MS, Json
from tests.oracle.pace import reported
from tests.oracle.pieces import SCALE, Piece, metered_pieces, timeline_pieces
from tests.oracle.prices import PriceBook
from tests.oracle.rows import Ledger, book_traffic, payer_of
from tests.oracle.slow import slowed
from tests.oracle.timeline import ENDLESS_MS, Interval, attempts_of, event_order, union
from tests.oracle.traffic import Hour, Lumps, moves, traffic_waste

WINDOWS_MS = (5 * MINUTE_MS, 15 * MINUTE_MS, HOUR_MS, 6 * HOUR_MS)

METERED_HOLDS_MS = 2 * MINUTE_MS  # as long as that a sampled job counts as burning on

PER_HOUR = SCALE // HOUR_MS  # a nano-dollar per hour, as a cost per ms


class Steps:
    """A rate that changes at instants, and its integral from the beginning of time."""

    def __init__(self, changes: Mapping[int, int]) -> None:
        self._at_ms = sorted(changes)
        self._rates = list(accumulate(changes[at_ms] for at_ms in self._at_ms))
        areas = (rate * (b - a) for rate, (a, b) in zip(self._rates, pairwise(self._at_ms), strict=False))
        self._sums = list(accumulate(areas, initial=0))

    def rate(self, at_ms: int) -> int:
        """The rate from this instant on."""
        index = bisect_right(self._at_ms, at_ms)
        return self._rates[index - 1] if index else 0

    def until(self, at_ms: int) -> int:
        """The integral up to this instant."""
        index = bisect_right(self._at_ms, at_ms)
        if not index:
            return 0
        return self._sums[index - 1] + self._rates[index - 1] * (at_ms - self._at_ms[index - 1])


@dataclass
class Burn:
    """One job as it was known at some tick; asked about that tick and later ones until more is known."""

    job_id: str
    dimensions: dict[str, str | None]  # what controls match
    paid: list[Interval]
    metered: list[Interval]  # sampled time that pays
    cost: Steps
    lumps: Lumps
    on_gpus: bool  # GPUs that have a price are among what it pays for
    quoted: int  # the rates here are costs per ms, in SCALE-ths
    declared: list[tuple[int, int]]  # (from, rate)
    planned: list[tuple[str, int, int, int]]  # (name, from, until, rate)
    ended: bool
    undecided_until_ms: int
    unpriced_from_ms: int | None  # the first instant of GPU-time or traffic without a price
    running: list[Interval]
    running_on_gpus: list[Interval]
    heard_ms: int | None  # the newest heartbeat or sample
    beats: Beats | None
    attempts: AttemptRules
    settings: Settings
    held: list[tuple[int, int, int]]  # (from, until, thousandths of a GPU) by its events
    used: UsedByNode
    gpus: UsedByGpu
    interactive: bool  # by its label
    expected: Steps = field(init=False)
    _minute_ends: dict[int, tuple[int, int]] = field(
        default_factory=dict
    )  # minute -> cost, expected before it
    # The instant whose windows are kept, as several rules ask for them.
    _asked_ms: int = field(init=False, default=-1)
    _windows: dict[int, tuple[int, int]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.expected = Steps(self._expected_changes())

    @property
    def first_paid_ms(self) -> int | None:
        return self.paid[0][0] if self.paid else None

    def expected_rate(self, at_ms: int) -> int:
        """The rate in force: planned, else the last declared, else the quoted one."""
        said = said_rate(self.declared, self.planned, at_ms)
        return self.quoted if said is None else said

    def _expected_changes(self) -> dict[int, int]:
        """Where the expected cost of paid time changes its rate."""
        news = {a for a, _ in self.declared} | {x for _, a, b, _ in self.planned for x in (a, b)}
        changes: Counter[int] = Counter()
        for start_ms, end_ms in self.paid:
            cuts = [start_ms, *sorted(x for x in news if start_ms < x < end_ms), end_ms]
            for a_ms, b_ms in pairwise(cuts):
                rate = self.expected_rate(a_ms)
                changes[a_ms] += rate
                changes[b_ms] -= rate
        return changes

    def _before_minute(self, minute: int) -> tuple[int, int]:
        """(cost, expected cost) of all time before a minute."""
        if minute not in self._minute_ends:
            at_ms = minute * MINUTE_MS
            known = (self.cost.until(at_ms) + self.lumps.before(minute), self.expected.until(at_ms))
            self._minute_ends[minute] = known
        return self._minute_ends[minute]

    def window(self, at_ms: int, window_ms: int) -> tuple[int, int]:
        """(cost, expected cost) of the window that ends at this instant, both times 60,000.

        "the whole minutes in (t - w, t], plus t's minute so far, plus the minute at the far edge in proportion"
        """
        if at_ms != self._asked_ms:
            self._asked_ms, self._windows = at_ms, {}
        if window_ms not in self._windows:
            self._windows[window_ms] = self._window(at_ms, window_ms)
        return self._windows[window_ms]

    def _window(self, at_ms: int, window_ms: int) -> tuple[int, int]:
        cost = self.cost.until(at_ms) + self.lumps.before(at_ms // MINUTE_MS + 1)
        expected = self.expected.until(at_ms)
        far, inside_ms = divmod(at_ms - window_ms, MINUTE_MS)
        cost_a, expected_a = self._before_minute(far)
        cost_b, expected_b = self._before_minute(far + 1)
        return (
            (cost - cost_a) * MINUTE_MS - inside_ms * (cost_b - cost_a),
            (expected - expected_a) * MINUTE_MS - inside_ms * (expected_b - expected_a),
        )

    def elapsed_ms(self, at_ms: int, window_ms: int) -> int:
        """By the contract, "the part of the window since the job's first paid instant"."""
        return 0 if self.first_paid_ms is None else max(0, min(window_ms, at_ms - self.first_paid_ms))

    def rate_nano(self, at_ms: int, window_ms: int) -> Fraction:
        """The burn rate, in nano-dollars per hour; 0 before the first paid instant."""
        elapsed_ms = self.elapsed_ms(at_ms, window_ms)
        cost, _ = self.window(at_ms, window_ms)
        return Fraction(cost * HOUR_MS, MINUTE_MS * SCALE * elapsed_ms) if elapsed_ms else Fraction(0)

    def paid_since(self, at_ms: int, from_ms: int) -> bool:
        """Whether the job was paid during the whole of (from, at]."""
        return any(start_ms <= from_ms and at_ms <= end_ms for start_ms, end_ms in self.paid)

    def burning_ms(self, at_ms: int) -> int:
        """The instant whose rates stand for this one: samples are always behind, so the last one holds a while."""
        if self.ended or self.paid_since(at_ms + 1, at_ms):
            return at_ms
        return max((b - 1 for _, b in self.metered if b <= at_ms < b + METERED_HOLDS_MS), default=at_ms)

    def unpriced(self, at_ms: int) -> bool:
        """Whether there is GPU-time or traffic without a price up to this instant."""
        return self.unpriced_from_ms is not None and self.unpriced_from_ms < at_ms

    def burns(self, at_ms: int) -> bool:
        """Whether it is paid; what is only sampled for a while after its last sample."""
        holds = [] if self.paid != self.metered else [(b, b + METERED_HOLDS_MS) for _, b in self.metered]
        return not self.ended and any(a_ms <= at_ms < b_ms for a_ms, b_ms in [*self.paid, *holds])

    def runs_away(self, at_ms: int, *, goes_on: bool) -> bool:
        """Whether it is paid after its deadline, or for too long; `goes_on`: or the next attempt may follow."""
        waits = goes_on and at_ms < self.undecided_until_ms
        return at_ms >= self._runs_away_from_ms and (waits or self.burns(at_ms))

    @property
    def late_from_ms(self) -> Fraction | None:
        """Since when its deadline is over, and what it is granted."""
        deadline_ms, limits = self.attempts.deadline_ms, self.settings["runaway_length"].thresholds
        return None if deadline_ms is None else deadline_ms + limits["grace_minutes"] * MINUTE_MS

    def is_late(self, at_ms: int) -> bool:
        """Whether its deadline has passed."""
        return self.late_from_ms is not None and at_ms >= self.late_from_ms

    @cached_property
    def _runs_away_from_ms(self) -> Fraction | float:
        late, first_ms = self.late_from_ms, self.first_paid_ms
        limits = self.settings["runaway_length"].thresholds
        long = inf if first_ms is None else first_ms + limits["hours"] * HOUR_MS
        return min(inf if late is None else late, long)

    def looked_at(self, at_ms: int) -> bool:
        """Whether it is the job's turn: "each job is looked at once in every 5 min; jobs take turns, by a hash of their id"."""
        return at_ms // 10_000 % 30 == zlib.crc32(self.job_id.encode("utf-8", "surrogatepass")) % 30

    def idles(self, at_ms: int) -> bool:
        """Whether its GPUs idle, up to 2 min before, for long and much money, or fell to nothing at one time."""
        return not self.ended and idles(self._idle_view(at_ms))

    def idle_waste(self, at_ms: int) -> Fraction:
        """What is paid for the idle part of its GPUs' time, as a cost per ms."""
        return Fraction(self.cost.rate(self.burning_ms(at_ms))) * idle_part(self._idle_view(at_ms))

    def _idle_view(self, at_ms: int) -> IdleView:
        end_ms = (at_ms // MINUTE_MS - 2) * MINUTE_MS
        since_ms = next((a for a, b in self.paid if a < end_ms <= b), end_ms)
        # GPUs of an attempt that does not run are not asked to work.
        held = (min(each.end_ms, end_ms) for each in self.attempts.holding if each.start_ms < end_ms)
        since_ms = max([since_ms, *held])
        limits = self.settings["idle_gpus"].thresholds
        return IdleView(
            end_ms, self.used, since_ms, self.cost.until, SCALE, self.held, limits, self.interactive,
            [(each.start_ms, each.end_ms) for each in self.attempts.holding], self.gpus,
        )  # fmt: skip

    def traffic(self, at_ms: int, window_ms: int = HOUR_MS) -> int:
        """The amounts of the window before, times 60,000."""
        return self.lumps.within(at_ms, window_ms)

    def dearer(self, at_ms: int, window_ms: int) -> Fraction:
        """What another purchase than before adds to the window, times 60,000."""
        return MINUTE_MS * sum(
            (
                each.share * (self.cost.until(until_ms) - self.cost.until(from_ms))
                for each in self.attempts.risen
                for from_ms in (max(each.start_ms, at_ms - window_ms),)
                for until_ms in (min(each.end_ms, at_ms),)
                if from_ms < until_ms
            ),
            Fraction(0),
        )

    def accrued(self, at_ms: int, window_ms: int) -> tuple[int, int]:
        """A window without traffic, of which a rule of its own tells."""
        cost, expected = self.window(at_ms, window_ms)
        return cost - self.traffic(at_ms, window_ms), expected

    def moves(self, at_ms: int, *, goes_on: bool) -> bool:
        """Whether traffic is more than what is expected, and dear, new, or the same again and again."""
        cost, expected = self.window(at_ms, HOUR_MS)
        has_started = self.elapsed_ms(at_ms, HOUR_MS) == HOUR_MS
        known = Hour(at_ms, cost, expected, has_started, self.first_paid_ms, self.on_gpus)
        return moves(self.lumps, known, self.settings["traffic"].thresholds, 10**9 * SCALE, goes_on=goes_on)

    def traffic_waste(self, at_ms: int) -> Fraction:
        """What traffic costs per hour, as a cost per ms."""
        return traffic_waste(self.lumps, at_ms)

    def silent(self, at_ms: int) -> bool:
        """Whether it runs, and nothing was heard of it for long."""
        limits = self.settings["silent_job"].thresholds
        never_heard_ms = limits["never_heard_minutes"] * MINUTE_MS
        if self.heard_ms is None and never_heard_ms:
            start_ms, end_ms = self.running_on_gpus[-1] if self.running_on_gpus else (at_ms, at_ms)
            return start_ms + never_heard_ms <= at_ms < end_ms
        return is_silent(self.running, self.heard_ms, at_ms, self.beats, limits)


def said_rate(
    declared: Sequence[tuple[int, int]], planned: Sequence[tuple[str, int, int, int]], at_ms: int
) -> int | None:
    """The rate that is planned, else the last declared; None: neither."""
    plans = [(name, rate) for name, a_ms, b_ms, rate in planned if a_ms <= at_ms < b_ms]
    if plans:
        return min(plans)[1]
    earlier = [rate for from_ms, rate in declared if from_ms <= at_ms]
    return earlier[-1] if earlier else None


def burn(job_id: str, log: JobLog, book: PriceBook, controls: Iterable[Json] = ()) -> Burn:
    """The burn of a job from all that is known of it; attempts without an end go on."""
    attempts = attempts_of(log)
    said = last_said(log.events)
    team = payer_of(said)
    lived: list[Piece] = []
    sampled: list[Piece] = []
    rated: dict[int, list[Rated]] = defaultdict(list)
    for attempt in attempts:
        for segment in attempt.segments(ENDLESS_MS):
            made = list(timeline_pieces(segment, team, book))
            lived += made
            rated[attempt.number] += [Rated(p.start_ms, p.end_ms, p.rate) for p in made]
        if attempt.metered:
            samples = [s for s in log.samples if s.attempt == attempt.number]
            sampled += metered_pieces(samples, team, book)
    pieces = [*lived, *sampled]
    ledger = Ledger(job_id, book)
    held = {attempt.number: Held(attempt, log) for attempt in attempts}
    for topic, event in log.traffic:
        book_traffic(ledger, topic, event, team, [], held[attempt_of(event)])
    dimensions = dimensions_of(job_id, said, attempts)
    labels = {f"label.{name}": value for name, value in (last_said(log.events).get("labels") or {}).items()}
    facts = dimensions | labels

    def fields_asked(record: Mapping[str, Any]) -> int | None:
        fields = asked(dict(record))
        return len(fields) if all((facts.get(f) or "") == value for f, value in fields.items()) else None

    controls = list(controls)
    settings = settings_of([c for c in controls if c["kind"] == "rule"], fields_asked)
    lumps: Counter[int] = Counter()
    unpriced_ms = [p.start_ms for p in pieces if p.unpriced]
    for key, row in ledger.rows().items():
        lumps[key.minute] += row.cost_nano * SCALE
        if not key.sku and settings["unpriced"].thresholds["traffic"]:
            unpriced_ms.append(key.minute * MINUTE_MS)
    plans = sorted(c["name"] for c in controls if c["kind"] == "planned")
    named = {c["name"]: c for c in controls if c["kind"] == "planned"}
    in_plan = [named[name] for name in plans if matches(named[name], dimensions)]
    plan = [
        (c["name"], *period(c), nano(c["usd_per_hour"]) * PER_HOUR)
        for c in in_plan
        if c.get("usd_per_hour") is not None
    ]
    # An acknowledgement that names the job's rate is as a plan from then on, before all others.
    plan += [
        (f"\0{c['name']}", c["time_ms"], period(c)[1], nano(c["usd_per_hour"]) * PER_HOUR)
        for c in controls
        if c["kind"] == "ack" and c.get("job_id") == job_id
    ]
    rates = declared(log.events)
    anew_ms = [*(at_ms for at_ms, _ in rates), *(x for _, a_ms, b_ms, _ in plan for x in (a_ms, b_ms))]
    changes: Counter[int] = Counter()
    for piece in pieces:
        changes[piece.start_ms] += piece.rate
        changes[piece.end_ms] -= piece.rate
    return Burn(
        job_id=job_id,
        dimensions=dimensions,
        paid=union((p.start_ms, p.end_ms) for p in pieces),
        metered=union((p.start_ms, p.end_ms) for p in sampled),
        cost=Steps(changes),
        lumps=Lumps({minute: cost for minute, cost in lumps.items() if cost}),
        on_gpus=quoted(pieces, requested(log.events), grows=not sampled)[1],
        quoted=quoted(pieces, requested(log.events), grows=not sampled)[0],
        declared=rates,
        planned=plan,
        ended=has_ended(attempts),
        undecided_until_ms=undecided_until_ms(attempts),
        unpriced_from_ms=min(unpriced_ms, default=None),
        running=running(attempts),
        running_on_gpus=running(attempts, on_gpus=True),
        heard_ms=heard_ms(log),
        beats=beats(log.events),
        attempts=attempt_rules(
            attempts,
            rated,
            SCALE,
            deadline_ms(log.events),
            settings,
            lambda at_ms: said_rate(rates, plan, at_ms) or 0,
            anew_ms,
            reported(log.events),
            slowed(log.events),
        ),
        settings=settings,
        held=[(s.start_ms, s.end_ms, s.values.gpu_milli) for a in attempts for s in a.segments(ENDLESS_MS)],
        used=used_by_node(log.samples),
        gpus=used_by_gpu(log.samples),
        interactive=(last_said(log.events).get("labels") or {}).get("interactive", "").lower()
        not in ("", "false", "no", "0"),
    )


def declared(events: Iterable[Json]) -> list[tuple[int, int]]:
    """(time, rate) of every event that names a rate, "order: time_ms, attempt, type, source, id"."""
    naming = [e for e in events if e.get("expected_usd_per_hour") is not None]
    naming.sort(key=lambda e: (e["time_ms"], attempt_of(e), event_order(e)))
    return [(e["time_ms"], nano(e["expected_usd_per_hour"]) * PER_HOUR) for e in naming]


def requested(events: Iterable[Json]) -> list[tuple[int, int]]:
    """(time, thousandths of a GPU) of every event that says how many are requested, in the order of `declared`."""
    naming = [e for e in events if e.get("gpus_requested") is not None]
    naming.sort(key=lambda e: (e["time_ms"], attempt_of(e), event_order(e)))
    return [(e["time_ms"], 1000 * e["gpus_requested"]) for e in naming]


def deadline_ms(events: Iterable[Json]) -> int | None:
    """The deadline of the latest event that names one."""
    naming = [e for e in events if e.get("deadline_ms") is not None]
    latest = max(naming, key=lambda e: (e["time_ms"], attempt_of(e), event_order(e)), default=None)
    return None if latest is None else int(latest["deadline_ms"])


def quoted(
    pieces: Sequence[Piece], wanted: Sequence[tuple[int, int]] = (), *, grows: bool
) -> tuple[int, bool]:
    """The cost rate "at the first paid and priced instant", at which no GPU-time is without a price; else 0. And whether GPUs were held.

    The start `grows` "while the rate has grown within the last 10 min", and "begins again with the first GPUs". "Where events say how
    many GPUs are requested": what it grows by "until so many were held", and nothing after that or beyond it.
    """
    begins = sorted({p.start_ms for p in pieces})
    found: tuple[int, int, bool] | None = None  # (when it grew last, the rate, whether GPUs were held)
    rate_before = 0
    for at_ms in sorted({p.start_ms for p in pieces} | {p.end_ms for p in pieces}):
        now = [p for p in pieces if p.start_ms <= at_ms < p.end_ms]
        if not any(p.priced for p in now) or any(p.unpriced for p in now):
            continue
        rate, on_gpus = sum(p.rate for p in now), any(p.on_gpus for p in now)
        has_grown, rate_before = rate > rate_before, rate
        if found is None:
            found = at_ms, rate, on_gpus
        if not grows:
            break
        grown_ms, before, had_gpus = found
        is_start, is_more = at_ms <= grown_ms + 10 * MINUTE_MS, rate > before + before // 10**9
        size = next((gpus for time_ms, gpus in reversed(wanted) if time_ms <= at_ms), 0)
        held = sum(p.gpu_milli for p in now)
        most = max(
            (sum(p.gpu_milli for p in pieces if p.start_ms <= x < p.end_ms) for x in begins if x < at_ms),
            default=0,
        )
        if size and (most >= size or held > size):
            is_start = False
        elif size and held > most:
            is_start = True
        if (on_gpus and not had_gpus) or (is_start and has_grown and is_more):
            found = at_ms, rate, on_gpus or had_gpus
        elif had_gpus and not is_start and not wanted:
            break
    return (0, False) if found is None else found[1:]
