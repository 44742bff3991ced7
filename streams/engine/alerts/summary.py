"""Writes the one-line summary of an alert: how much, against what, since when, and whose job.

It must not decide anything. Except the shorter window's ratio, every figure in it is also a column of the alert.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from streams.engine.alerts.dimensions import AlertDimensions
from streams.engine.alerts.formatting import (
    gpus,
    instant,
    one_line,
    rounded_usd,
    short_instant,
    span,
    times,
    usd,
)
from streams.engine.alerts.rules import (
    BASIS_RULE,
    BURN_RULES,
    IDLE_RULE,
    RETRY_RULE,
    RUNAWAY_RULE,
    SILENT_RULE,
    TRAFFIC_RULE,
    UNPRICED_RULE,
)
from streams.engine.kernels.burn import HOUR_MS
from streams.engine.kernels.episode import ENDED, HELD, OPENED, OUTRANKED, SWITCHED_OFF

_RULES: Final = {rule.name: rule for rule in BURN_RULES}
_UNHEEDED_MS: Final = 8 * HOUR_MS
_COVERED_BY: Final = {
    "burn_fast": "traffic",
    "burn_sustained": "burn_fast or traffic",
    "burn_drift": "another alert",
}


class AlertFigures(NamedTuple):
    """The figures of a summary."""

    rule: str
    kind: int  # of the change, as the kernel has it
    started_ms: int
    at_ms: int  # when it cleared, if it did
    firings: int
    usd_nano_per_hour: int
    expected_nano_per_hour: int
    cost_nano: int
    expected_nano: int
    elapsed_ms: int  # the part of the longer window in which the job existed
    ratio: float
    short_ratio: float
    cause: str = ""  # of a fact, when it opens


def summary(shown: AlertFigures, dimensions: AlertDimensions) -> str:
    """Return one line of plain text."""
    job = one_line(dimensions.job_id)
    if shown.rule in _RULES:
        text = _burn(job, shown)
    elif shown.kind == SWITCHED_OFF:
        text = f"the rule {shown.rule} does not apply to {job} any more; {_from_to(shown)}"
    else:
        text = _TEXTS[shown.rule](job, shown)
    # The cause of a burn says where and what the job holds, as far as it matters.
    where = [] if shown.cause and shown.rule in _RULES else _where(dimensions)
    return "; ".join((text, *where, *_who(dimensions)))


def _burn(job: str, shown: AlertFigures) -> str:
    rule = _RULES[shown.rule]
    if shown.kind in (OPENED, HELD):
        return (
            f"{job} burns {_rate(shown)}, {times(shown.ratio)} the {usd(shown.expected_nano_per_hour)}/h expected:"
            f" {shown.cause or f'since {instant(shown.started_ms)}; stop it or declare it'},"
            f" else {_more(shown)}{_again(shown)}"
        )
    figures = (
        f"{usd(shown.usd_nano_per_hour)}/h, {times(shown.ratio)} the {usd(shown.expected_nano_per_hour)}/h expected"
        f" ({times(shown.short_ratio)} over {span(rule.short_ms)}):"
        f" {usd(shown.cost_nano)} in {span(shown.elapsed_ms)},"
        f" {usd(shown.cost_nano - shown.expected_nano)} more than expected"
    )
    if shown.kind == ENDED:
        end = "has ended"
    elif shown.kind == OUTRANKED:
        end = f"is covered by {_COVERED_BY[shown.rule]} now"
    elif shown.kind == SWITCHED_OFF:
        end = f"is not judged by {shown.rule} any more"
    else:
        end = (
            f"burns less than {times(rule.clear_ratio)} of what is expected over {span(rule.short_ms)} again"
        )
    return f"{job} {end}; it burnt {figures}; {_from_to(shown)}"


def _more(shown: AlertFigures) -> str:
    """Return what it costs above what is expected if nothing is done for 8 h: for a night, or a working day."""
    until_ms = (shown.at_ms + _UNHEEDED_MS) // HOUR_MS * HOUR_MS
    per_hour = shown.usd_nano_per_hour - shown.expected_nano_per_hour
    more = rounded_usd(per_hour * (until_ms - shown.at_ms) // HOUR_MS)
    return f"{more} more by {short_instant(until_ms, shown.at_ms)} UTC at this rate"


def _unpriced(job: str, shown: AlertFigures) -> str:
    what = shown.cause or "GPU-time"
    if shown.kind == OPENED:
        return (
            f"{job} has {what} without a price, its cost reads too low until one is loaded;"
            f" since {instant(shown.started_ms)}{_again(shown)}"
        )
    return f"{job} has a price for everything again; {_from_to(shown)}"


def _silent(job: str, shown: AlertFigures) -> str:
    if shown.kind == OPENED:
        return (
            f"{job} is billed as running, but sent neither a heartbeat nor a sample for {shown.cause or '10 min'}:"
            f" its end event may be lost; since {instant(shown.started_ms)}{_again(shown)}"
        )
    return f"{job} sent a heartbeat or sample again, or has ended; {_from_to(shown)}"


def _retry(job: str, shown: AlertFigures) -> str:
    if shown.kind == OPENED:
        return (
            f"{job} breaks off again and again: {shown.cause}; it costs {_rate(shown)} while that goes on:"
            f" stop it or remove the reason{_again(shown)}"
        )
    return f"{job} has not broken off for an hour, or is done; {_from_to(shown)}"


def _idle(job: str, shown: AlertFigures) -> str:
    if shown.kind == OPENED:
        return (
            f"{job} leaves its GPUs idle: {shown.cause}; it costs {_rate(shown)} while that goes on:"
            f" stop it or give GPUs back{_again(shown)}"
        )
    return f"{job} uses its GPUs again, or has ended; {_from_to(shown)}"


def _runaway(job: str, shown: AlertFigures) -> str:
    if shown.kind == OPENED:
        return (
            f"{job} runs too long: {shown.cause}; it costs {_rate(shown)} until it ends:"
            f" stop it, set a later deadline, or publish its end if it is over{_again(shown)}"
        )
    return f"{job} is billed no longer, or has a later deadline; {_from_to(shown)}"


def _traffic(job: str, shown: AlertFigures) -> str:
    figures = f"{usd(shown.cost_nano)} in 1 h against {usd(shown.expected_nano)} for everything else"
    if shown.kind == OPENED:
        cause = f", {shown.cause}" if shown.cause else ""
        return (
            f"{job} pays more for traffic than for computing: {figures}{cause}; it goes on at that rate:"
            f" keep the data where the job runs; since {instant(shown.started_ms)}{_again(shown)}"
        )
    return f"{job} no longer pays more for traffic than for computing; it paid {figures}; {_from_to(shown)}"


def _basis(job: str, shown: AlertFigures) -> str:
    if shown.kind == OPENED:
        return (
            f"{job} pays a higher price than before: {shown.cause}:"
            f" move it back, or declare what you expect{_again(shown)}"
        )
    return f"{job} no longer pays a higher price than its attempt before; {_from_to(shown)}"


def _rate(shown: AlertFigures) -> str:
    return f"{usd(shown.usd_nano_per_hour)}/h"


_TEXTS: Final = {
    UNPRICED_RULE: _unpriced,
    SILENT_RULE: _silent,
    RETRY_RULE: _retry,
    IDLE_RULE: _idle,
    RUNAWAY_RULE: _runaway,
    TRAFFIC_RULE: _traffic,
    BASIS_RULE: _basis,
}


def _from_to(shown: AlertFigures) -> str:
    length = span(shown.at_ms - shown.started_ms)
    return f"from {instant(shown.started_ms)} for {length}{_again(shown)}"


def _again(shown: AlertFigures) -> str:
    return f", fired {shown.firings} times" if shown.firings > 1 else ""


def _where(dimensions: AlertDimensions) -> list[str]:
    """Return GPUs and place; unknown ones are left out."""
    what = [gpus(dimensions.gpu_milli)] if dimensions.gpu_milli else []
    what += [one_line(name) for name in (dimensions.gpu_type, dimensions.region, dimensions.cluster) if name]
    return [", ".join(what)] if what else []


def _who(dimensions: AlertDimensions) -> list[str]:
    """Return owner and team; unknown ones are left out."""
    who = [
        f"{label} {one_line(name)}"
        for label, name in (("owner", dimensions.owner), ("team", dimensions.team))
        if name
    ]
    return [", ".join(who)] if who else []
