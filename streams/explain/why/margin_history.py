"""How far rules about a job were from firing, instant by instant: the course of each condition of an alert's rule, and of all rules before it opened."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from schemas.durations import HOUR_MS, MINUTE_MS
from schemas.events import ControlEvent
from streams.engine.burn.margins import RuleMargins
from streams.engine.kernels.episode import TICK_MS
from streams.engine.rules.registry import NAMES
from streams.engine.rules.rule import JOB
from streams.explain.stored import ExplainedStore
from streams.explain.why.judged import JudgedRule, condition, judging, restored

#: At how many instants at most the judge is asked.
POINTS_MAX: Final = 61
_BEFORE_MS: Final = 30 * MINUTE_MS
_AFTER_MS: Final = 10 * MINUTE_MS
#: Of an alert that fires for longer the course is that of its beginning.
_LONGEST_MS: Final = 48 * HOUR_MS
#: Of a job that ran for longer before its alert opened, what came before is not looked at.
_LONGEST_BEFORE_MS: Final = 24 * HOUR_MS
_FIRST_EVENT: Final = "SELECT toUnixTimestamp64Milli(first_event) FROM jobs FINAL WHERE job_id = {job:String}"
#: Every record that was in the log by an instant, oldest first.
RECORDS: Final = """
SELECT kind, name, value, removed, toUnixTimestamp64Milli(time) AS time_ms FROM controls FINAL
WHERE kind IN ('rule', 'planned') AND time <= fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
ORDER BY offset"""


class ConditionCourse(msgspec.Struct):
    """One condition of the rule; each point is [instant in ms, value, threshold, share, whether the rule holds], of which those that are unknown are null."""

    what: str
    way: int
    points: list[tuple[int, float | None, float, float | None, bool]]


class MarginHistory(msgspec.Struct, frozen=True):
    """The course of a rule's conditions; `missing`: why there is none, '' if there is one; `enabled`: at the end of it."""

    rule: str
    from_ms: int
    until_ms: int
    conditions: list[ConditionCourse]
    missing: str = ""
    enabled: bool = True


def span_of(alert: Mapping[str, Any], now_ms: int) -> tuple[int, int]:
    """The instants between which the course of an alert's rule is looked at: from before it opened until after it cleared, or now."""
    started_ms, resolved_ms = int(alert["started_ms"]), alert["resolved_ms"]
    from_ms = max(0, started_ms - max(_BEFORE_MS, int(alert["window_ms"])))
    until_ms = (
        now_ms if resolved_ms is None else min(int(resolved_ms) + _AFTER_MS, max(now_ms, int(resolved_ms)))
    )
    return from_ms, min(max(until_ms, started_ms + TICK_MS), from_ms + _LONGEST_MS)


def instants_of(from_ms: int, until_ms: int, started_ms: int) -> list[int]:
    """The ticks that are asked for, the tick of the opening among them, latest first."""
    step_ms = max(TICK_MS, (until_ms - from_ms) // (POINTS_MAX - 2))
    ticks = {at_ms // TICK_MS * TICK_MS for at_ms in range(from_ms, until_ms + 1, step_ms)}
    return sorted({*ticks, started_ms // TICK_MS * TICK_MS}, reverse=True)


def margin_history(
    store: ExplainedStore, alert: Mapping[str, Any], now_ms: int, state_max_bytes: int | None = None
) -> MarginHistory:
    """The course of the conditions of the rule of an alert.

    Raises:
        SinkError: The store does not answer.
        UnknownFormatError: Another version of the program wrote the snapshots.
    """
    rule = str(alert["rule"])
    from_ms, until_ms = span_of(alert, now_ms)
    if alert["subject_kind"] != JOB or rule not in NAMES:
        return MarginHistory(rule, from_ms, until_ms, [], "not_of_a_job")
    instants = instants_of(from_ms, until_ms, int(alert["started_ms"]))
    judged, missing = _judged_at(store, str(alert["subject_name"]), instants, state_max_bytes)
    return _history(rule, from_ms, until_ms, judged, missing)


def histories_before(
    store: ExplainedStore, alert: Mapping[str, Any], state_max_bytes: int | None = None
) -> list[MarginHistory]:
    """The course of each rule about the job of an alert until the alert opened, from the job's first event on, of 24 h at most.

    Raises:
        SinkError: The store does not answer.
        UnknownFormatError: Another version of the program wrote the snapshots.
    """
    if alert["subject_kind"] != JOB:
        return []
    job_id, started_ms = str(alert["subject_name"]), int(alert["started_ms"])
    found = store.ask(_FIRST_EVENT, {"job": job_id})
    first_ms = min((int(str(row[0])) for row in found.rows()), default=started_ms)
    from_ms = min(max(first_ms, started_ms - _LONGEST_BEFORE_MS), started_ms)
    instants = instants_of(from_ms, started_ms, started_ms)
    judged, missing = _judged_at(store, job_id, instants, state_max_bytes)
    return [_history(rule, from_ms, started_ms, judged, missing) for rule in NAMES]


def _judged_at(
    store: ExplainedStore, job_id: str, instants: Sequence[int], state_max_bytes: int | None
) -> tuple[list[tuple[int, list[JudgedRule]]], str]:
    """What the judge says of all rules at each instant, the earliest first; with why it is not asked, '' if it is."""
    known = restored(store, job_id, state_max_bytes)
    if known.job is None:
        return [], known.missing
    records = store.ask(RECORDS, {"until_ms": instants[0]}).records()
    judged = [
        (at_ms, list(_conditions(known.job.margins(at_ms, standing))))
        for at_ms, standing in _standing(records, instants)
    ]
    return judged[::-1], ""


def _conditions(margins: Iterable[RuleMargins]) -> Iterator[JudgedRule]:
    for each in margins:
        yield from (condition(each.rule, one, holds=each.holds, enabled=each.enabled) for one in each.margins)


def _history(
    rule: str, from_ms: int, until_ms: int, judged: Iterable[tuple[int, list[JudgedRule]]], missing: str
) -> MarginHistory:
    """The history of one of the rules that were judged."""
    of_rule = [(at_ms, [each for each in rules if each.rule == rule]) for at_ms, rules in judged]
    enabled = next((rules[0].enabled for _, rules in reversed(of_rule) if rules), True)
    return MarginHistory(rule, from_ms, until_ms, _courses(of_rule), missing, enabled)


def _standing(
    records: Sequence[Mapping[str, Any]], instants: Iterable[int]
) -> Iterator[tuple[int, list[ControlEvent]]]:
    """Yield each instant with the rules and plans that stood then."""
    before: tuple[int, list[ControlEvent]] | None = None
    for at_ms in instants:
        count = sum(1 for row in records if row["time_ms"] <= at_ms)
        if before is None or before[0] != count:
            newest = {(row["kind"], row["name"]): row for row in records[:count]}
            before = count, judging([*newest.values()])[0]
        yield at_ms, before[1]


def _courses(judged: Iterable[tuple[int, Sequence[JudgedRule]]]) -> list[ConditionCourse]:
    found: dict[tuple[str, int], ConditionCourse] = {}
    for at_ms, conditions in judged:
        for each in conditions:
            course = found.setdefault((each.what, each.way), ConditionCourse(each.what, each.way, []))
            course.points.append((at_ms, each.value, each.threshold, each.share, each.holds))
    return list(found.values())
