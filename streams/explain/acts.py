"""Which controls cover an alert: its acknowledgement, a silence, a planned rate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Final

import msgspec

from streams.engine.alerts.matching import Matching, may_match
from streams.engine.alerts.recurrence import Recurrence, recurrence_of

_RECORD: Final = """toUnixTimestamp64Milli(time) AS time_ms, offset, kind, name, alert_id, match, toUnixTimestamp64Milli(begins) AS begins_ms, toUnixTimestamp64Milli(until) AS until_ms,
       planned_usd_per_hour AS usd_per_hour, by, comment, source, removed, fault,
       if(match(value, '"(weekdays|hours)"'), value, '') AS recurring"""
_BY_THEN: Final = """
FROM controls FINAL
WHERE kind IN ('ack', 'silence', 'planned') AND time <= fromUnixTimestamp64Milli({at_ms:Int64}, 'UTC')"""
#: In force at an instant: of each control the newest record that was in the log then.
IN_FORCE: Final = f"""
SELECT {_RECORD}{_BY_THEN}
ORDER BY offset DESC LIMIT 1 BY kind, name LIMIT 10000"""
#: Every record that was in the log by an instant, those that took a control back included, the newest first.
RECORDS_BY: Final = f"""
SELECT {_RECORD}{_BY_THEN}
ORDER BY offset DESC LIMIT 10000"""
#: What silences and planned rates may match of jobs; zone and account are those of the newest attempt.
DIMENSIONS: Final = """
SELECT j.job_id AS job_id, j.owner AS owner, j.team AS team, j.project AS project, j.experiment AS experiment, j.cluster AS cluster,
       j.region AS region, j.cloud AS cloud, j.purchase AS purchase, j.gpu_type AS gpu_type, j.instance_type AS instance_type,
       a.newest.1 AS zone, a.newest.2 AS account
FROM (SELECT * FROM jobs FINAL WHERE job_id IN {jobs:Array(String)}) AS j
LEFT ANY JOIN
(
    SELECT job_id, argMax((zone, account), attempt) AS newest FROM attempts FINAL
    WHERE job_id IN {jobs:Array(String)} GROUP BY job_id
) AS a ON a.job_id = j.job_id"""
_FIELDS: Final = {"ack": "acknowledged", "silence": "silenced_by", "planned": "planned_by"}
_FOR_EVER: Final = float("inf")
_SHOWN: Final = ("kind", "name", "by", "comment", "begins_ms", "until_ms")


def covers(control: Mapping[str, Any], at_ms: int) -> bool:
    """Whether a control has an effect at an instant."""
    begins_ms, until_ms = control["begins_ms"], control["until_ms"]
    return (
        not control["removed"]
        and not control["fault"]
        and (begins_ms is None or begins_ms <= at_ms)
        and (until_ms is None or at_ms < until_ms)
        and (not control["recurring"] or _recurrence(control["recurring"]).covers(at_ms))
    )


def covers_until_ms(control: Mapping[str, Any], at_ms: int) -> float:
    """The end of the time, with an instant in it, that a control covers, in ms since 1970; infinite: it has none."""
    ends_ms = [_end(control)]
    if control["recurring"]:
        ends_ms += [end_ms for _, end_ms in _recurrence(control["recurring"]).spans(at_ms, at_ms)]
    return min(ends_ms)


def who(control: Mapping[str, Any]) -> str:
    """Who set a control: the name of a token, or the source of its record."""
    return str(control["by"] or control["source"])


def recurs(control: Mapping[str, Any]) -> str:
    """When a control recurs, in words; '': it does not."""
    return _recurrence(control["recurring"]).words if control["recurring"] else ""


@lru_cache(maxsize=1_000)
def _recurrence(value: str) -> Recurrence:
    """The recurrence of a control that has one, and no fault."""
    found = recurrence_of(msgspec.json.decode(value))
    assert found is not None
    return found


def facts_of(alert: Mapping[str, Any], dimensions: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """What a control can match of an alert.

    Args:
        alert: A row of `alerts`.
        dimensions: Rows of `DIMENSIONS` by job.
    """
    kind, name = alert["subject_kind"], alert["subject_name"]
    job = dimensions.get(name, {}) if kind == "job" else {}
    about = {"job_id": name} if kind == "job" else {kind: name}
    mine = {field: alert[field] for field in ("owner", "team", "project", "rule", "severity")}
    return {**job, **mine, **about}


def may_silence(control: Mapping[str, Any], alert: Mapping[str, Any]) -> bool:
    """Whether notifiers take a silence for one of the alert: match fields that its row lacks may be what is asked.

    Args:
        control: A row of `IN_FORCE`.
        alert: A row of `alerts`.
    """
    known = {field: alert[field] for field in ("owner", "team", "project", "rule", "severity")}
    known["job_id"] = alert["subject_name"] if alert["subject_kind"] == "job" else ""
    return control["kind"] == "silence" and may_match(dict(control["match"]), known)


def matches(control: Mapping[str, Any], facts: Mapping[str, str]) -> bool:
    """Whether all match fields of a control equal those of an alert."""
    return all(facts.get(field, "") == wanted for field, wanted in dict(control["match"]).items())


class ActIndex:
    """The controls that have an effect at an instant, found by alert without a look at each of them."""

    def __init__(self, controls: Iterable[Mapping[str, Any]], at_ms: int) -> None:
        known = [control for control in controls if covers(control, at_ms)]
        self._by_alert: dict[str, list[Mapping[str, Any]]] = {}
        for control in known:
            if control["kind"] == "ack":
                self._by_alert.setdefault(control["alert_id"], []).append(control)
        matched = [(dict(each["match"]), each) for each in known if each["kind"] != "ack"]
        self.matches_jobs = bool(matched)
        self._matching = Matching(matched, tuple)
        self._fields = {field: "" for match, _ in matched for field in match}

    def of(self, alert: Mapping[str, Any], facts: Mapping[str, str]) -> dict[str, dict[str, Any] | None]:
        """The control of each kind that covers the alert longest; None where there is none."""
        found: dict[str, dict[str, Any] | None] = dict.fromkeys(_FIELDS.values())
        mine = chain.from_iterable(self._matching.of({**self._fields, **facts}))
        for control in chain(self._by_alert.get(alert["alert_id"], ()), mine):
            field = _FIELDS[control["kind"]]
            best = found[field]
            if best is None or _end(control) > _end(best):
                found[field] = shown(control)
        return found


def touching(
    alert: Mapping[str, Any], controls: Iterable[Mapping[str, Any]], facts: Mapping[str, str], now_ms: int
) -> list[dict[str, Any]]:
    """The controls that were for an alert at any time from its window until its end, or are now, the newest first.

    Args:
        alert: A row of `alerts`.
        controls: Rows of `IN_FORCE`.
        facts: What controls can match of the alert.
        now_ms: Log time; `state` of each is as of it: `in_force`, `later` or `over`.
    """
    from_ms = alert["started_ms"] - alert["window_ms"]
    until_ms = now_ms if alert["resolved_ms"] is None else max(alert["resolved_ms"], from_ms + 1)
    found = []
    for control in controls:
        if control["removed"] or control["fault"]:
            continue
        is_mine = (
            control["alert_id"] == alert["alert_id"] if control["kind"] == "ack" else matches(control, facts)
        )
        begins_ms, ends_ms = control["begins_ms"], control["until_ms"]
        is_late = begins_ms is not None and begins_ms > max(until_ms, now_ms)
        is_past = ends_ms is not None and ends_ms <= from_ms
        if is_mine and not is_late and not is_past:
            state = (
                "in_force" if covers(control, now_ms) else "later" if is_coming(control, now_ms) else "over"
            )
            found.append({**shown(control), "state": state})
    return found


def is_coming(control: Mapping[str, Any], at_ms: int) -> bool:
    """Whether a control that is not in force at an instant will be: it begins later, or recurs."""
    begins_ms, until_ms = control["begins_ms"], control["until_ms"]
    return (begins_ms is not None and begins_ms > at_ms) or (
        bool(control["recurring"]) and (until_ms is None or at_ms < until_ms)
    )


def shown(control: Mapping[str, Any]) -> dict[str, Any]:
    """A control as the API shows it."""
    some = {**{name: control[name] for name in _SHOWN}, "recurs": recurs(control)}
    if control["kind"] == "ack":
        some["alert_id"] = control["alert_id"]
    else:
        some["match"] = dict(control["match"])
    if control["kind"] == "planned":
        some["usd_per_hour"] = control["usd_per_hour"]
    return some


def jobs_of(alerts: Sequence[Mapping[str, Any]]) -> list[str]:
    """The jobs that alerts are about, each once."""
    return list(dict.fromkeys(row["subject_name"] for row in alerts if row["subject_kind"] == "job"))


def _end(control: Mapping[str, Any]) -> float:
    return _FOR_EVER if control["until_ms"] is None else float(control["until_ms"])
