"""Which rule would have fired earlier about a job, and under which threshold: read off how far each rule was from firing before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple

from schemas.durations import MINUTE_MS
from streams.engine.rules.rule import IS_FLAG
from streams.explain.why.margin_history import MarginHistory

#: A threshold that would have to be less than half as strict is none that anybody would set.
LEAST_SHARE: Final = 0.5
SHOWN_MAX: Final = 5
_Point = tuple[str, int, float | None, float, float | None, bool]


class EarlierRule(NamedTuple):
    """A rule that held before an alert opened, or whose one condition that was not met was near its threshold.

    `what`, `value`, `threshold`: of that condition; '', None and None where the rule held. `alert_id`: what it opened then, '' if nothing.
    """

    at_ms: int
    rule: str
    enabled: bool
    what: str
    value: float | None
    threshold: float | None
    alert_id: str
    spent_usd: Decimal  # by the job, from then until the alert opened


def earlier(
    histories: Iterable[MarginHistory],
    alert: Mapping[str, Any],
    others: Sequence[Mapping[str, Any]],
    minutes: Sequence[Mapping[str, Any]],
) -> list[EarlierRule]:
    """What would have fired earlier, the earliest first; of each rule its first instant.

    Args:
        histories: The course of each rule before the alert opened.
        alert: Its row.
        others: Rows of the other alerts about its job.
        minutes: What the job paid by minute until the alert opened.
    """
    found = [each for history in histories for each in _first(history, alert, others, minutes)]
    return sorted(found, key=lambda each: (each.at_ms, each.rule))[:SHOWN_MAX]


def _first(
    history: MarginHistory,
    alert: Mapping[str, Any],
    others: Sequence[Mapping[str, Any]],
    minutes: Sequence[Mapping[str, Any]],
) -> Iterator[EarlierRule]:
    """Yield the first instant at which a rule held, else at which one condition alone was not met and was near."""
    own = history.rule == alert["rule"]
    points = {at_ms: each for at_ms, each in _by_instant(history) if at_ms < int(alert["started_ms"])}
    held = next((at_ms for at_ms, each in points.items() if not own and each[0][-1]), None)
    if held is not None:
        opened = (
            str(each["alert_id"])
            for each in others
            if each["rule"] == history.rule and held <= int(each["started_ms"]) < int(alert["started_ms"])
        )
        spent_usd = _spent(minutes, held)
        yield EarlierRule(held, history.rule, history.enabled, "", None, None, next(opened, ""), spent_usd)
        return
    for at_ms, each in points.items():
        near = _nearly(each)
        if near is not None:
            what, _, value, threshold, _, _ = near
            spent_usd = _spent(minutes, at_ms)
            yield EarlierRule(at_ms, history.rule, history.enabled, what, value, threshold, "", spent_usd)
            return


def _by_instant(history: MarginHistory) -> list[tuple[int, list[_Point]]]:
    found: dict[int, list[_Point]] = {}
    for course in history.conditions:
        for at_ms, value, threshold, share, holds in course.points:
            found.setdefault(at_ms, []).append((course.what, course.way, value, threshold, share, holds))
    return sorted(found.items())


def _nearly(conditions: Iterable[_Point]) -> _Point | None:
    """The condition of a way that alone is not met, and is near; None: there is none."""
    ways: dict[int, list[_Point]] = {}
    for each in conditions:
        ways.setdefault(each[1], []).append(each)
    for of_way in ways.values():
        unmet = [each for each in of_way if each[4] is None or each[4] < 1]
        if len(unmet) == 1:
            what, _, value, threshold, share, _ = unmet[0]
            is_number = value is not None and share is not None and not what.endswith(IS_FLAG)
            if is_number and threshold and share is not None and share >= LEAST_SHARE:
                return unmet[0]
    return None


def _spent(minutes: Iterable[Mapping[str, Any]], since_ms: int) -> Decimal:
    """What was paid from the minute of an instant on."""
    paid = (
        Decimal(str(each["cost_usd"])) for each in minutes if int(each["minute_ms"]) + MINUTE_MS > since_ms
    )
    return sum(paid, Decimal(0))
