"""Reads by which ratio a figure counts as usual for the kind of its job: what records of rules said when its alert opened.

From the stored controls, so that a restart, another worker and a backtest decide the same. All calls block, so they belong in a thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, NamedTuple, TypeVar

import orjson

from schemas.column_types import MILLI
from schemas.columns import rows_of, times_as_integers
from schemas.control_table import CONTROLS
from schemas.events import ControlEvent
from schemas.tables import JOBS
from sinks.rows import Condition, Rows
from streams.engine.alerts.alert import Alert
from streams.engine.alerts.controls import Controls
from streams.engine.alerts.rule_records import UNSTORED
from streams.engine.rules.own_days import OwnDays
from streams.engine.rules.registry import NAMES
from streams.engine.rules.rule import USUAL_RATIO
from streams.engine.rules.usual_figures import UsualFigure
from streams.engine.state.dimensions import MATCHED, AlertDimensions
from streams.notify.history import pieces

_Usual = TypeVar("_Usual", UsualFigure, OwnDays)

_STORED: Final = tuple(name for name in MATCHED if name not in UNSTORED)


class _StoredRule(NamedTuple):
    """A record of a rule as it was stored; without a value it was removed."""

    offset: int
    time_ms: int
    name: str
    value: str


class UsualRatios:
    """Call `applied` with what is usual for alerts."""

    def __init__(self, store: Rows) -> None:
        self._store = store

    def applied(self, usual: Sequence[_Usual | None], alerts: Sequence[Alert]) -> list[_Usual | None]:
        """What is usual for each of these alerts, by the ratio of the records that were in force when it opened."""
        if not any(each is not None for each in usual):
            return list(usual)
        log = self._log()
        if not any(USUAL_RATIO in each.value for each in log):
            return list(usual)
        asked = [alert for each, alert in zip(usual, alerts, strict=True) if each is not None]
        jobs = self._jobs(alert.subject_name for alert in asked)
        controls = {at_ms: _in_force(log, at_ms) for at_ms in {alert.started_ms for alert in asked}}
        return [
            each
            if each is None
            else each._replace(
                factor=_factor(controls[alert.started_ms], alert, jobs.get(alert.subject_name))
            )
            for each, alert in zip(usual, alerts, strict=True)
        ]

    def _log(self) -> list[_StoredRule]:
        """The records of rules, in their order in the log."""
        names = ("offset", "time", "name", "value")
        page = self._store.select(CONTROLS, [Condition("kind", "=", "rule")], names)
        rows = rows_of(times_as_integers(page, {"time": MILLI}))
        return sorted(_StoredRule(row["offset"], row["time"], row["name"], row["value"]) for row in rows)

    def _jobs(self, names: Iterable[str]) -> dict[str, Mapping[str, Any]]:
        found: dict[str, Mapping[str, Any]] = {}
        for some in pieces(sorted(set(names))):
            where = [Condition("job_id", "in", some)]
            for row in rows_of(self._store.select(JOBS, where, (*_STORED, "labels"))):
                found[row["job_id"]] = row
        return found


def _in_force(log: Iterable[_StoredRule], at_ms: int) -> Controls:
    """The rules that were in force at an instant; what has no effect changes nothing."""
    last = {each.name: each for each in log if each.time_ms <= at_ms}
    return Controls.from_events(
        ControlEvent(
            source="",
            id="",
            time_ms=each.time_ms,
            kind="rule",
            name=each.name,
            value=orjson.loads(each.value),
        )
        for each in last.values()
        if each.value
    )


def _factor(controls: Controls, alert: Alert, job: Mapping[str, Any] | None) -> Fraction:
    """By which ratio the figure of the alert's rule counts as usual."""
    facts = {"job_id": alert.subject_name} if job is None else {name: job[name] for name in _STORED}
    labels = [] if job is None else dict(job["labels"]).items()
    profile = controls.profile_for(AlertDimensions(**facts), labels)
    return Fraction(str(profile.threshold(NAMES.index(alert.rule), USUAL_RATIO)))
