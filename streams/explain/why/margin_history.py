"""How far one rule about a job was from firing, instant by instant: the course of each of its conditions before and while its alert fired."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from schemas.durations import HOUR_MS, MINUTE_MS
from schemas.events import ControlEvent
from sinks.clickhouse import ClickHouseStore
from streams.engine.kernels.episode import TICK_MS
from streams.engine.rules.registry import NAMES
from streams.engine.rules.rule import JOB
from streams.explain.why.judged import JudgedRule, condition, judging, restored

#: At how many instants at most the judge is asked.
POINTS_MAX: Final = 61
_BEFORE_MS: Final = 30 * MINUTE_MS
_AFTER_MS: Final = 10 * MINUTE_MS
#: Of an alert that fires for longer the course is that of its beginning.
_LONGEST_MS: Final = 48 * HOUR_MS
#: Every record that was in the log by an instant, oldest first.
_RECORDS: Final = """
SELECT kind, name, value, removed, toUnixTimestamp64Milli(time) AS time_ms FROM controls FINAL
WHERE kind IN ('rule', 'planned') AND time <= fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
ORDER BY offset"""


class ConditionCourse(msgspec.Struct):
    """One condition of the rule; each point is [instant in ms, value, threshold, share, whether the rule holds], of which those that are unknown are null."""

    what: str
    way: int
    points: list[tuple[int, float | None, float, float | None, bool]]


class MarginHistory(msgspec.Struct, frozen=True):
    """The course of a rule's conditions; `missing`: why there is none, '' if there is one."""

    rule: str
    from_ms: int
    until_ms: int
    conditions: list[ConditionCourse]
    missing: str = ""


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
    store: ClickHouseStore, alert: Mapping[str, Any], now_ms: int, state_max_bytes: int | None = None
) -> MarginHistory:
    """The course of the conditions of the rule of an alert.

    Raises:
        SinkError: The store does not answer.
        UnknownFormatError: Another version of the program wrote the snapshots.
    """
    rule, job_id = str(alert["rule"]), str(alert["subject_name"])
    from_ms, until_ms = span_of(alert, now_ms)
    if alert["subject_kind"] != JOB or rule not in NAMES:
        return MarginHistory(rule, from_ms, until_ms, [], "not_of_a_job")
    known = restored(store, job_id, state_max_bytes)
    if known.job is None:
        return MarginHistory(rule, from_ms, until_ms, [], known.missing)
    found = store.ask(_RECORDS, {"until_ms": until_ms})
    records = [dict(zip(found.names, row, strict=True)) for row in found.rows()]
    judged = [
        (at_ms, [*_of_rule(rule, known.job.margins(at_ms, standing))])
        for at_ms, standing in _standing(records, instants_of(from_ms, until_ms, int(alert["started_ms"])))
    ]
    return MarginHistory(rule, from_ms, until_ms, _courses(reversed(judged)))


def _of_rule(rule: str, margins: Iterable[Any]) -> Iterator[JudgedRule]:
    for each in margins:
        if each.rule == rule:
            yield from (condition(rule, one, holds=each.holds, enabled=each.enabled) for one in each.margins)


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
