"""What an alert says in one line: how much, against what, since when, and who runs it.

It must not decide anything, nor hold a figure that the alert's columns lack, but for the shorter window's ratio.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from streams.engine.alerts.dimensions import AlertDimensions
from streams.engine.alerts.formatting import gpus, instant, one_line, span, times, usd
from streams.engine.alerts.rules import BURN_RULES, SILENT_RULE, UNPRICED_RULE
from streams.engine.kernels.episode import ENDED, OUTRANKED, RECOVERED

_RULES: Final = {rule.name: rule for rule in BURN_RULES}
_COVERED_BY: Final = {"burn_sustained": "burn_fast", "burn_drift": "a page"}


class AlertFigures(NamedTuple):
    """The figures that a summary tells."""

    rule: str
    kind: int  # of the change, as the kernel has it
    started_ms: int
    at_ms: int  # when it cleared, if it did
    firings: int
    usd_nano_per_hour: int
    expected_nano_per_hour: int
    cost_nano: int
    expected_nano: int
    elapsed_ms: int  # how much of the longer window the job has been there
    ratio: float
    short_ratio: float


def summary(told: AlertFigures, dimensions: AlertDimensions) -> str:
    """One line of plain text."""
    job = one_line(dimensions.job_id)
    text = _TEXTS.get(told.rule, _burn)(job, told)
    return "; ".join((text, *_who(dimensions)))


def _burn(job: str, told: AlertFigures) -> str:
    rule = _RULES[told.rule]
    figures = (
        f"{usd(told.usd_nano_per_hour)}/h, {times(told.ratio)} the {usd(told.expected_nano_per_hour)}/h expected"
        f" ({times(told.short_ratio)} over {span(rule.short_ms)}):"
        f" {usd(told.cost_nano)} in {span(told.elapsed_ms)},"
        f" {usd(told.cost_nano - told.expected_nano)} more than expected"
    )
    if told.kind not in (RECOVERED, ENDED, OUTRANKED):
        return f"{job} burns {figures}; since {instant(told.started_ms)}{_again(told)}"
    if told.kind == ENDED:
        end = "has ended"
    elif told.kind == OUTRANKED:
        end = f"is told by {_COVERED_BY[told.rule]} now"
    else:
        end = (
            f"burns less than {times(rule.clear_ratio)} of what is expected over {span(rule.short_ms)} again"
        )
    return f"{job} {end}; it burnt {figures}; {_from_to(told)}"


def _unpriced(job: str, told: AlertFigures) -> str:
    if told.kind != RECOVERED:
        return (
            f"{job} has GPU-time without a price, its cost reads too low until one is loaded;"
            f" since {instant(told.started_ms)}{_again(told)}"
        )
    return f"{job} has a price for all of its GPU-time again; {_from_to(told)}"


def _silent(job: str, told: AlertFigures) -> str:
    if told.kind != RECOVERED:
        return (
            f"{job} is paid as running, and neither a heartbeat nor a sample of it came for 10 min: its end may be lost;"
            f" since {instant(told.started_ms)}{_again(told)}"
        )
    return f"{job} was heard of again, or runs no more; {_from_to(told)}"


_TEXTS: Final = {UNPRICED_RULE: _unpriced, SILENT_RULE: _silent}


def _from_to(told: AlertFigures) -> str:
    length = span(told.at_ms - told.started_ms)
    return f"from {instant(told.started_ms)} for {length}{_again(told)}"


def _again(told: AlertFigures) -> str:
    return f", fired {told.firings} times" if told.firings > 1 else ""


def _who(dimensions: AlertDimensions) -> list[str]:
    """GPUs and place, owner and team; what is not known is left out."""
    what = [gpus(dimensions.gpu_milli)] if dimensions.gpu_milli else []
    what += [one_line(name) for name in (dimensions.gpu_type, dimensions.region, dimensions.cluster) if name]
    who = [
        f"{label} {one_line(name)}"
        for label, name in (("owner", dimensions.owner), ("team", dimensions.team))
        if name
    ]
    return [", ".join(part) for part in (what, who) if part]
