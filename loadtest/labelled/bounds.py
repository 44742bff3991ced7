"""What the rules must do on labelled traces, what they did, and between which bounds that lies.

The bootstrap draws with a fixed seed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

import numpy as np
from numpy.typing import NDArray

from loadtest.labelled.outcome import Outcome
from schemas.durations import DAY_MS, MINUTE_MS
from streams.backtest.fired import JOB, PAGE, TICKET, Backtest, Detection
from streams.backtest.labels import Label
from streams.backtest.score import ANY_RULE, KindScore

F64 = NDArray[np.float64]

_DRAWS: Final = 4_000
_SEED: Final = 21
_LOW, _HIGH = 2.5, 97.5


@dataclass(frozen=True)
class Figure:
    """A measured share or rate with its 95 % bootstrap interval, and its bound; `counted` says of how many."""

    name: str
    counted: str
    value: float
    low: float
    high: float
    bound: float | None
    is_most: bool = False  # the bound is the most allowed, else the least

    @property
    def holds(self) -> bool:
        """Whether the bound is kept; without one it is."""
        if self.bound is None:
            return True
        return self.value <= self.bound if self.is_most else self.value >= self.bound


def clean_figures(backtest: Backtest, labels: Iterable[Label], involved: Iterable[str] = ()) -> list[Figure]:
    """Pages and tickets per job-day of jobs without an incident; the bootstrap draws jobs."""
    left_out = {*involved, *(label.job_id for label in labels)}
    clean = sorted(backtest.ran_ms.keys() - left_out)
    days = np.array([backtest.ran_ms[job] / DAY_MS for job in clean])
    figures = []
    for name, severity, bound in (("clean pages", PAGE, 0.01), ("clean tickets", TICKET, 0.03)):
        messages: dict[str, int] = defaultdict(int)
        for alert in backtest.alerts:
            if alert.subject_kind == JOB and alert.severity == severity:
                messages[alert.subject] += alert.messages
        counts = np.array([messages[job] for job in clean], np.float64)
        low, high = _interval(counts, days)
        counted = f"{counts.sum():.0f} in {days.sum():,.0f} job-days"
        value = float(counts.sum() / days.sum())
        figures.append(Figure(f"{name} per job-day", counted, value, low, high, bound, is_most=True))
    return figures


@dataclass(frozen=True)
class Promise:
    """Which share of the incidents of a kind must be caught, and what counts."""

    kind: str
    what: str
    keeps: Callable[[Detection], bool]
    least: float | None


def _within(minutes: float) -> Callable[[Detection], bool]:
    def keeps(found: Detection) -> bool:
        return found.delay_ms is not None and found.delay_ms <= minutes * MINUTE_MS

    return keeps


def _before(usd: int, minutes: float) -> Callable[[Detection], bool]:
    return lambda found: (
        found.first_ms is not None and (found.cost_usd <= Decimal(usd) or _within(minutes)(found))
    )


PROMISES: Final = (
    Promise("3x", "within 60 min", _within(60), 0.97),
    Promise("10x", "within 5 min", _within(5), 0.97),
    Promise("1.5x_12h", "within the 12 h", _within(12 * 60), 0.85),
    Promise("idle", "within 60 min", _within(60), 0.97),
    Promise("retry_loop", "before $50 or 30 min", _before(50, 30), 0.95),
    Promise("cross_region", "within 60 min", _within(60), None),
    Promise("spot_fallback", "within 60 min", _within(60), None),
    Promise("oversized_test", "within 15 min", _within(15), None),
    Promise("team_takes_cluster", "within 2 h", _within(120), None),
)


def caught_figures(scores: Iterable[KindScore]) -> list[Figure]:
    """The share of each kind that was caught as promised, by any rule."""
    by_kind = {score.kind: score.detections for score in scores if score.rule == ANY_RULE}
    figures = []
    for promise in PROMISES:
        kept = np.array([promise.keeps(each) for each in by_kind.get(promise.kind, ())], np.float64)
        if len(kept):
            low, high = _interval(kept, np.ones(len(kept)))
            counted = f"{kept.sum():.0f} of {len(kept)}"
            name = f"{promise.kind} {promise.what}"
            figures.append(Figure(name, counted, float(kept.mean()), low, high, promise.least))
    return figures


def figures_of(outcome: Outcome) -> list[Figure]:
    """All figures of the page."""
    clean = clean_figures(outcome.backtest, outcome.labels, outcome.involved)
    return [*clean, *caught_figures(outcome.scores)]


def _interval(counts: F64, weights: F64) -> tuple[float, float]:
    """The 95 % bootstrap interval of sum(counts) / sum(weights), where things are drawn together with their weights."""
    rng = np.random.default_rng(_SEED)
    drawn = []
    for _ in range(_DRAWS):
        taken = rng.integers(0, len(counts), len(counts))
        drawn.append(counts[taken].sum() / weights[taken].sum())
    low, high = np.percentile(drawn, (_LOW, _HIGH))
    return float(low), float(high)


def as_table(figures: Sequence[Figure]) -> str:
    """The table of docs/backtests.md."""
    lines = ["| what | counted | measured | 95 % interval | bound |", "|---|---|---|---|---|"]
    for each in figures:
        show = _rate if each.is_most else _share
        bound = "" if each.bound is None else f"{'<=' if each.is_most else '>='} {show(each.bound)}"
        missed = "" if each.holds else ", **missed**"
        lines.append(
            f"| {each.name} | {each.counted} | {show(each.value)} | {show(each.low)} to {show(each.high)} "
            f"| {bound}{missed} |"
        )
    return "\n".join(lines) + "\n"


def _rate(value: float) -> str:
    return f"{value:.4f}"


def _share(value: float) -> str:
    return f"{100 * value:.1f} %"
