"""The figures of an alert for people: a few labelled values, and its state in a word.

Names are as they are: whoever shows them escapes them.
"""

from __future__ import annotations

from collections.abc import Sequence

from streams.engine.alerts.alert import RESOLVED, Alert
from streams.engine.alerts.meter_rules import METER
from streams.engine.alerts.titles import title_of
from streams.engine.rules.formatting import times, usd
from streams.notify.notice import Figure, Notice, instant_figure


def sign(alert: Alert) -> str:
    """A sign for the alert's state."""
    return "\u2705" if alert.status == RESOLVED else "\U0001f6a8" if alert.severity == "page" else "\u26a0"


def figures(alert: Alert) -> list[Figure]:
    """The figures; what an alert does not have is left out."""
    if isinstance(alert, Notice):
        return list(alert.figures)
    shown: list[Figure] = []
    if alert.usd_nano_per_hour:
        label = "Burns" if alert.status != RESOLVED else "Burnt"
        shown.append(Figure(label, f"{usd(alert.usd_nano_per_hour)}/h"))
    if alert.expected_nano_per_hour:
        ratio = f" ({times(alert.ratio)})" if alert.ratio else ""
        shown.append(Figure("Expected", f"{usd(alert.expected_nano_per_hour)}/h{ratio}"))
    if alert.subject_kind != METER:  # the meter has no owner
        shown.append(Figure("Owner", alert.owner or "nobody"))
        shown += [
            Figure(label, name) for label, name in (("Team", alert.team), ("Project", alert.project)) if name
        ]
    shown.append(instant_figure("Since", alert.started_ms))
    if alert.resolved_ms is not None:
        shown.append(instant_figure("Until", alert.resolved_ms))
    return shown


def title(alerts: Sequence[Alert]) -> str:
    """The title of a message: its alert, or how many of a group fire and have resolved."""
    first = alerts[0]
    if isinstance(first, Notice):
        return first.title
    if len(alerts) == 1:
        how = RESOLVED if first.status == RESOLVED else f"({first.severity})"
        return f"{sign(first)} {first.subject_name}: {title_of(first.rule)} {how}"
    resolved = sum(alert.status == RESOLVED for alert in alerts)
    firing = len(alerts) - resolved
    counts = [f"{count} {word}" for count, word in ((firing, "firing"), (resolved, "resolved")) if count]
    whose = [f"{label} {name}" for label in ("owner", "project") if (name := _shared(alerts, label))]
    if not whose:
        team, rule = _shared(alerts, "team"), _shared(alerts, "rule")
        whose = [*([f"team {team}"] if team else []), *([title_of(rule)] if rule else [])]
    nobody = "no owner" if not any(alert.owner for alert in alerts) else "several owners"
    worst = max(alerts, key=lambda alert: (alert.status != RESOLVED, alert.severity == "page"))
    return f"{sign(worst)} {', '.join(counts)}: {', '.join(whose) or nobody}"


def _shared(alerts: Sequence[Alert], field: str) -> str:
    """The value of a field that all alerts have, '' if they do not."""
    found = {str(getattr(alert, field)) for alert in alerts}
    return found.pop() if len(found) == 1 else ""
