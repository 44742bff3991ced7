"""What a rule about one job sees: the job as far as it is known, and its figures at a tick."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, TypeVar

from schemas.durations import BEGINNING_MS, HOUR_MS, NEVER_MS
from streams.engine.kernels.precedence import STANDSTILL_SILENT_MS, SUSTAINED_SILENT_MS
from streams.engine.pricing.book import PriceBook
from streams.engine.rules.burn_cause import JobRates
from streams.engine.rules.rule import AlertRule, Margin, flag
from streams.engine.state.dimensions import AlertDimensions
from streams.engine.state.job import JobState
from streams.engine.timeline.attempts import Timeline
from streams.engine.timeline.intervals import Span
from streams.engine.timeline.lines import Lines
from streams.engine.windows.curves import Fact

Detail = TypeVar("Detail")


class FactSpan(NamedTuple):
    """The condition of a rule holds in [from, until), and explains this share of what accrues meanwhile."""

    from_ms: int
    until_ms: int
    explained_ratio: float = 0.0


class JobFacts(NamedTuple):
    """When the conditions of a job's rules hold, but those that depend on every sample; and what its rules found beside."""

    rows: tuple[Fact, ...] = ()
    deadline_ms: int = NEVER_MS
    details: tuple[object, ...] = ()

    def detail(self, kind: type[Detail]) -> Detail | None:
        """Return what a rule found beside its spans; None: nothing."""
        return next((each for each in self.details if isinstance(each, kind)), None)


class Unpriced(NamedTuple):
    """From when on GPU-time and traffic of the job lack a price; NEVER_MS: they do not."""

    gpu_ms: int = NEVER_MS
    traffic_ms: int = NEVER_MS


class Fallen(NamedTuple):
    """GPUs that did nothing any more from one minute on, up to two minutes before an instant."""

    minutes: int
    worked_before: bool  # all together, in the minutes before
    since_start: bool  # none of them worked since the job last began to run
    on_all_nodes: bool
    longest_before: int  # minutes: sampled and idle, between times of work in the hours before
    sampled_ms: int
    held_ms: int  # in thousandths of a GPU
    nano_per_hour: int  # that the job paid


class Unused(NamedTuple):
    """GPUs of a job that did nothing while others of it worked."""

    gpus: tuple[tuple[str, str], ...]  # node and GPU, in order
    sampled: int  # how many GPUs are sampled
    minutes: int  # for which none of them worked and the job was paid, up to two minutes before an instant
    idle_nano: int  # paid for them meanwhile


class IdleUse(NamedTuple):
    """The use of a job's GPUs at its turn; GPU-time in ms, `held_ms` in thousandths of a GPU."""

    at_ms: int
    minutes: int  # in which they idled and were paid, in whole blocks, up to two minutes before
    wait_minutes: int  # for how many they must
    idle_nano: int  # paid for the idle part of their time in these minutes
    sampled_ms: int  # in the wait
    productive_ms: int
    held_ms: int
    fallen: Fallen | None = None
    longest_before: int = (
        0  # minutes: sampled and idle, between times of work in the hours before; looked at after the wait
    )
    unused: Unused | None = None  # where not all of them idle


class IdleSince(NamedTuple):
    """Since when the GPUs of a job idle, as its minutes say, and how."""

    since_ms: int
    gpu_milli: int  # sampled
    productive_ratio: float
    memory_mib: int  # the most that a GPU used in the newest minute; 0: none, or not sampled
    is_first: bool = True  # no minute before it idled; False: they idle for as long as is looked back


@dataclass(slots=True, kw_only=True)
class JobKnown:
    """A job as known at an instant.

    `lines` are what each billed attempt pays; `planned` is that of Expected; `details` may take what a rule wants to
    remember for its cause. Spans that end by `since_ms` may be left out.
    """

    job: JobState
    timelines: Mapping[int, Timeline]
    lines: Mapping[int, Lines]
    thresholds: Mapping[str, float]  # of the rule that is asked
    unpriced: Unpriced
    planned: Sequence[tuple[int, int, int]]
    breaks: object
    details: list[object]
    since_ms: int = BEGINNING_MS


class TickFigures(NamedTuple):
    """The figures of one job at one tick, by window (ms) where there are several; money in nano-dollars."""

    cost_nano: Mapping[int, float]
    expected_nano: Mapping[int, float]
    traffic_nano: Mapping[int, float]
    paid_whole: Mapping[int, bool]  # billed at every instant of the window
    paid_now: bool
    is_over: bool  # the job has ended, and no next attempt may follow
    is_undecided: bool  # a next attempt may follow the last failure or preemption
    notified_until_ms: int  # until then runaway_length tells no more of the job; 0: it may tell
    since_paid_ms: int
    steady_nano: float  # of a job on GPUs: the least traffic of the last three hours, each by itself
    repeated_nano: float  # likewise if it comes in bursts, or half of the least of three spans of two hours
    recurring_nano: float  # likewise: the lesser traffic of the last two spans of two hours
    start_nano: float  # the traffic of the first paid hour and before
    holds: frozenset[str]  # rules whose condition holds at the tick, as the kernel has it
    fires: frozenset[str]  # rules of the job that fire
    pages: frozenset[str]  # rules whose alerts are pages: by the settings in force, or by what is wasted
    cleared_ms: Mapping[str, int]  # when the last alert of each rule cleared; BEGINNING_MS: none did


@dataclass(frozen=True, kw_only=True)
class JobAt:
    """A job at a tick. `figures` are there when margins are asked for, `job` and `book` while anything is known of it."""

    at_ms: int
    job: JobState | None
    facts: JobFacts
    timelines: Mapping[int, Timeline]
    lines: Mapping[int, Lines]
    settings: Mapping[str, Mapping[str, float]]  # the thresholds in force, by rule
    planned: Sequence[tuple[int, int, int]] = ()
    book: PriceBook | None
    first_paid_ms: int
    idle: IdleUse | None = None
    idle_since: Callable[[], IdleSince | None] = lambda: None
    rates: Callable[[], JobRates | None] = lambda: None
    figures: TickFigures | None = None


class EvidenceOf(NamedTuple):
    """What the evidence of an alert is about."""

    job_id: str
    held_ms: int
    window_ms: int
    expected_nano_per_hour: int


class Words(NamedTuple):
    """What a condition rule says of a job: when it fires, what to do, and when it is over."""

    fires: str
    advice: str
    over: str
    before_cost: str = "else"  # '': what it costs is not known, or said
    unknown: str = ""  # stands for a cause of which nothing is known any more
    #: What to do instead where the cause has a text; the first of them counts.
    advice_on: tuple[tuple[str, str], ...] = ()
    partly_on: str = (
        ""  # where the cause has this text, it says itself which part of what the job pays is at stake
    )

    def costs_for(self, cause: str, more: str) -> str:
        """What it costs if nothing is done about a cause, to follow the advice; '': not known, or said."""
        is_said = not self.before_cost or (self.partly_on and self.partly_on in cause)
        return "" if is_said else f", {self.before_cost} {more}"

    def advice_for(self, cause: str) -> str:
        """What to do about a cause."""
        return next((advice for text, advice in self.advice_on if text in cause), self.advice)


@dataclass(frozen=True, kw_only=True)
class JobRule(AlertRule):
    """A rule about one job. `spans`: None where the kernel decides by figures alone."""

    cause: Callable[[JobAt], str]
    margins: Callable[[JobAt], list[Margin]]
    evidence: Callable[[EvidenceOf], str]
    spans: Callable[[JobKnown], Iterable[FactSpan]] | None = None
    #: What the alert has in common with those of other jobs that have the same cause (`shared_cause`); '': nothing but a sweep.
    shares: Callable[[JobAt, AlertDimensions], str] = lambda _at, _job: ""
    #: Since when the job stands still, which jobs that one cause stops have in common; None: not known, or no such rule.
    stood: Callable[[JobAt], int | None] = lambda _at: None
    words: Words | None = None  # None: of burn rules, whose sentence is built of ratios
    #: Whether its spans depend on every heartbeat and sample.
    listens: bool = False
    #: Whether what an alert named has gone on since an instant, although its attempt may have ended: then the next attempt's is
    #: known. None: what it names ends with the attempt.
    same_since: Callable[[JobAt, int], bool] | None = None
    #: From how many dollars wasted per hour on it is a page, if that is not PAGE_FROM alone; the second argument are its thresholds.
    page_usd: Callable[[JobAt, Mapping[str, float]], float] | None = None
    #: What is wasted at a tick, in nano-dollars per hour, None where that is not known; the second argument is all that the job
    #: pays then. Its threshold PAGE_FROM makes a page of a ticket, for all of the episode. None: its severity is that of the
    #: settings, or, of a burn rule, the kernel's.
    waste: Callable[[JobAt, int], int | None] | None = None


def _fired_lately(figures: TickFigures, rule: str, at_ms: int, after_ms: int) -> bool:
    return rule in figures.fires or at_ms < figures.cleared_ms[rule] + after_ms


def yields_to(other: str, rule: str, at: JobAt, way: int = 0, after_ms: int = STANDSTILL_SILENT_MS) -> Margin:
    """The margin of a rule that does not open while another one tells of the same, and for so long after it."""
    figures = at.figures
    is_named = (
        figures is not None
        and _fired_lately(figures, other, at.at_ms, after_ms)
        and rule not in figures.fires
    )
    return flag(f"`{other}` does not tell of it", not is_named, way)


def yields_to_as_urgent(others: Sequence[str], rule: str, at: JobAt) -> Margin:
    """The margin of a rule that does not open while one of these, which is a page if this one is, tells of the same, or did just now."""
    figures = at.figures
    assert figures is not None  # margins are asked for with figures
    telling = {each for each in others if _fired_lately(figures, each, at.at_ms, SUSTAINED_SILENT_MS)}
    if rule in figures.pages:
        telling &= figures.pages
    return flag("no burn rule tells of it", not telling or rule in figures.fires)


def all_it_pays(_at: JobAt, paid_nano_per_hour: int) -> int:
    """The waste of a job that does nothing useful."""
    return paid_nano_per_hour


def rate_at(lines: Lines, at_ms: int) -> Fraction:
    """Return what the lines cost at an instant, in nano-dollars per ms."""
    return sum(
        (
            Fraction(rate * line.price.usd_nano, line.price.divisor)
            for line, intervals in lines.items()
            for start_ms, end_ms, rate, _ in intervals
            if start_ms <= at_ms < end_ms
        ),
        Fraction(0),
    )


def cost_in(lines: Lines, spans: Sequence[Span]) -> Fraction:
    """Return what the lines cost in these disjoint spans, in nano-dollars."""
    total = Fraction(0)
    for line, intervals in lines.items():
        if line.price.usd_nano:
            quantity = sum(
                rate * max(min(end_ms, until_ms) - max(start_ms, from_ms), 0)
                for start_ms, end_ms, rate, _ in intervals
                for from_ms, until_ms in spans
            )
            total += Fraction(quantity * line.price.usd_nano, line.price.divisor)
    return total


def per_hour_nano(rate: Fraction) -> int:
    """Return nano-dollars per hour of a rate per ms."""
    return round(rate * HOUR_MS)
