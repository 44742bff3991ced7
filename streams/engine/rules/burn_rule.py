"""What the three burn rules share: two windows of cost against what was expected, and a least extra cost."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

from schemas.durations import HOUR_MS, MINUTE_MS
from schemas.units import NANO_PER_USD
from streams.engine.kernels.conditions import CLEARS_BELOW, LEAST_EXPECTED_NANO, NOISE_NANO, NOISE_RATIO
from streams.engine.rules.burn_cause import burn_cause, dearer_sku
from streams.engine.rules.evidence import burn_evidence
from streams.engine.rules.job_view import JobAt, JobRule
from streams.engine.rules.rule import (
    JOB,
    TICKET,
    Margin,
    Threshold,
    flag,
    from_threshold_on,
    notified_from,
    usual_up_to,
)
from streams.engine.rules.shared_cause import PRICE, cause_text
from streams.engine.state.dimensions import AlertDimensions

#: Of products of ratios: 0.8 x 6 is 4.800000000000001 in doubles.
RATIO_DIGITS: Final = 12


@dataclass(frozen=True, kw_only=True)
class BurnRule(JobRule):
    """Holds when cost / expected cost reaches both ratios; an open alert clears below 80 % of the short ratio."""

    long_ms: int
    long_ratio: float
    short_ms: int
    short_ratio: float

    @property
    def clear_ratio(self) -> float:
        """Return the ratio of the shorter window below which it clears."""
        return round(CLEARS_BELOW * self.short_ratio, RATIO_DIGITS)


def burn_rule(
    name: str,
    title: str,
    long_ms: int,
    long_ratio: float,
    short_ms: int,
    short_ratio: float,
    yields_to: tuple[str, ...],
) -> BurnRule:
    """A burn rule of two windows."""
    # A ratio of 1 would hold for every job, also for those that cost what is expected.
    return BurnRule(
        name=name,
        title=title,
        severity=TICKET,
        about=JOB,
        holds=f">= {long_ratio:g} over {span_of(long_ms)} and >= {short_ratio:g} over {span_of(short_ms)}",
        runbook="runbook.md#spend-spike",
        thresholds={
            "long_ratio": Threshold(
                long_ratio, 1.05, 1e6, "cost / expected cost over the longer window, without traffic"
            ),
            "short_ratio": Threshold(short_ratio, 1.05, 1e6, "the same over the shorter window"),
            "extra_usd": Threshold(1.0, 0.01, 1e9, "dollars more than expected over the longer window"),
        }
        | notified_from("dollars per hour above the expected rate")
        | usual_up_to(),
        window_ms=long_ms,
        planned_quiets=True,
        yields_to=yields_to,
        usual_by="rate",
        cause=partial(_cause, long_ms),
        shares=partial(dearer_price, long_ms),
        margins=partial(_margins, name, long_ms, short_ms),
        evidence=lambda of: burn_evidence(of.job_id, of.held_ms, of.window_ms, of.expected_nano_per_hour),
        goes_on="extra",
        long_ms=long_ms,
        long_ratio=long_ratio,
        short_ms=short_ms,
        short_ratio=short_ratio,
    )


def span_of(ms: int) -> str:
    """Return the length of a window in words."""
    return f"{ms // HOUR_MS} h" if ms >= HOUR_MS else f"{ms // MINUTE_MS} min"


def _cause(long_ms: int, at: JobAt) -> str:
    from_ms = at.at_ms - long_ms
    paid = at.rates()
    return "" if paid is None else burn_cause(paid, from_ms, at.at_ms)


def dearer_price(window_ms: int, at: JobAt, _job: AlertDimensions) -> str:
    """The shared cause of a job that pays more by a revision of a price in the window; '': by something else."""
    from_ms = at.at_ms - window_ms
    paid = at.rates()
    sku = "" if paid is None else dearer_sku(paid, from_ms, at.at_ms)
    return cause_text(PRICE, sku) if sku else ""


def _margins(name: str, long_ms: int, short_ms: int, at: JobAt) -> list[Margin]:
    figures, of = at.figures, at.settings[name]
    assert figures is not None  # margins are asked for with figures
    accrued_nano = {
        window_ms: figures.cost_nano[window_ms] - figures.traffic_nano[window_ms]
        for window_ms in (long_ms, short_ms)
    }
    ratios = {
        window_ms: accrued_nano[window_ms] / figures.expected_nano[window_ms]
        if figures.expected_nano[window_ms] >= LEAST_EXPECTED_NANO
        else None
        for window_ms in (long_ms, short_ms)
    }
    extra_nano = accrued_nano[long_ms] - figures.expected_nano[long_ms]
    least_nano = of["extra_usd"] * NANO_PER_USD
    extra = Margin(
        f"dollars more than expected over {span_of(long_ms)}",
        extra_nano / NANO_PER_USD,
        of["extra_usd"],
        max(extra_nano / least_nano, 1.0)
        if extra_nano >= least_nano - NOISE_NANO
        else extra_nano / least_nano,
    )
    pays = figures.paid_whole[short_ms] and not figures.is_over
    return [
        _ratio(f"cost / expected over {span_of(long_ms)}", ratios[long_ms], of["long_ratio"]),
        _ratio(f"cost / expected over {span_of(short_ms)}", ratios[short_ms], of["short_ratio"]),
        extra,
        flag(f"accrues cost for all of {span_of(short_ms)}", pays),
    ]


def _ratio(what: str, value: float | None, threshold: float) -> Margin:
    found = from_threshold_on(what, value, threshold)
    if value is not None and value >= threshold * (1.0 - NOISE_RATIO):
        return found._replace(share=max(value / threshold, 1.0))
    return found
