"""Writes the one-line summary of an alert: the cause with its figures, what to do, and what it costs until then.

A person has to understand it on a phone: amounts are rounded, the exact ones are columns of the alert, and so
are its owner and team.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from streams.engine.alerts.resolving import FLAPS
from streams.engine.alerts.titles import title_of
from streams.engine.kernels.episode import ENDED, HELD, OPENED, OUTRANKED, RAISED, SWITCHED_OFF
from streams.engine.rules.burn_cause import IS_BACK
from streams.engine.rules.formatting import (
    gpus,
    rounded_usd,
    sentence,
    short,
    short_instant,
    span,
    times,
    unheeded,
)
from streams.engine.rules.registry import BURN_RULES, JOB_RULES
from streams.engine.state.dimensions import AlertDimensions

_RULES: Final = {rule.name: rule for rule in BURN_RULES}
_WORDS: Final = {rule.name: rule.words for rule in JOB_RULES if rule.words is not None}
_FAST, _CEILING, _BASIS = (f'"{title_of(name)}"' for name in ("burn_fast", "ceiling", "price_basis"))
_COVERED_BY: Final = {
    "burn_fast": _BASIS,
    "burn_sustained": f"{_FAST}, {_CEILING} or {_BASIS}",
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
    cause: str = ""  # of a condition rule, when it opens
    now_nano_per_hour: int = 0  # what accrues with time at that tick alone; of burn rules that fire
    extra_nano_per_hour: int = 0  # above the expected rate, at that tick alone; of burn rules that fire
    flaps: bool = False  # it stays open until its rule was quiet for an hour


def summary(shown: AlertFigures, dimensions: AlertDimensions) -> str:
    """Return one line of plain text."""
    if shown.kind in (OPENED, HELD, RAISED):
        text = _burns(shown) if shown.rule in _RULES else _fires(shown)
        # The cause of a burn says where and what the job holds, as far as it matters.
        more = "" if shown.cause and shown.rule in _RULES else _where(dimensions)
        return sentence(
            lambda at_most: f"{short(dimensions.job_id, at_most)} {text}", FLAPS if shown.flaps else "", more
        )
    if shown.rule in _RULES:
        over = _burnt(shown)
    elif shown.kind == SWITCHED_OFF:
        over = f'is not judged by "{title_of(shown.rule)}" any more'
    else:
        over = _WORDS[shown.rule].over
        over = "has ended" if shown.kind == ENDED and "{" not in over else over.format_map(_amounts(shown))
    length = span(shown.at_ms - shown.started_ms)
    since = short_instant(shown.started_ms, shown.at_ms)
    return sentence(
        lambda at_most: (
            f"{short(dimensions.job_id, at_most)} {over}; from {since} UTC for {length}{_again(shown)}"
        )
    )


def _fires(shown: AlertFigures) -> str:
    words = _WORDS[shown.rule]
    cause = shown.cause or words.unknown
    more = unheeded(shown.usd_nano_per_hour, shown.at_ms)
    cost = words.costs_for(cause, more)
    return f"{words.fires.format_map(_amounts(shown) | {'cause': cause})}; {words.advice_for(cause)}{cost}{_again(shown)}"


def _amounts(shown: AlertFigures) -> dict[str, str]:
    return {"cost": rounded_usd(shown.cost_nano), "rest": rounded_usd(shown.expected_nano)}


def _burns(shown: AlertFigures) -> str:
    since = short_instant(shown.started_ms, shown.at_ms)
    # What goes on is the rate of now, or of the window where it changes.
    extra_nano = max(shown.extra_nano_per_hour, shown.usd_nano_per_hour - shown.expected_nano_per_hour)
    cause = shown.cause or f"since {since} UTC; stop it or declare it"
    more = "" if cause.endswith(IS_BACK) else f", else {unheeded(extra_nano, shown.at_ms)}"
    return f"burns {_rates_of_now(shown)}: {cause}{more}{_again(shown)}"


def _burnt(shown: AlertFigures) -> str:
    if shown.kind == ENDED:
        end = "has ended"
    elif shown.kind == OUTRANKED:
        end = f"is covered by {_COVERED_BY[shown.rule]} now"
    elif shown.kind == SWITCHED_OFF:
        end = f'is not judged by "{title_of(shown.rule)}" any more'
    else:
        end = f"is below {times(_RULES[shown.rule].clear_ratio)} its expected cost again"
    extra = rounded_usd(shown.cost_nano - shown.expected_nano)
    short_window = f"{times(shown.short_ratio)} over {span(_RULES[shown.rule].short_ms)}"
    return f"{end}; it burnt {_mean(shown)} ({short_window}), {extra} too much"


def _rates_of_now(shown: AlertFigures) -> str:
    """Return the rate of the tick, and the window's mean where it is another one."""
    now, mean = rounded_usd(shown.now_nano_per_hour), rounded_usd(shown.usd_nano_per_hour)
    # A job that burnt before and does no more accrues no more than expected.
    if now == mean or shown.extra_nano_per_hour <= 0:
        return _mean(shown)
    return f"{now}/h, {_mean(shown)}"


def _mean(shown: AlertFigures) -> str:
    mean, expected = rounded_usd(shown.usd_nano_per_hour), rounded_usd(shown.expected_nano_per_hour)
    return f"{mean}/h over {span(shown.elapsed_ms)}, {times(shown.ratio)} the {expected}/h expected"


def _again(shown: AlertFigures) -> str:
    return f", fired {shown.firings} times" if shown.firings > 1 else ""


def _where(dimensions: AlertDimensions) -> str:
    """Return GPUs and place; unknown ones are left out."""
    what = [gpus(dimensions.gpu_milli)] if dimensions.gpu_milli else []
    what += [short(name) for name in (dimensions.gpu_type, dimensions.region, dimensions.cluster) if name]
    return ", ".join(what)
