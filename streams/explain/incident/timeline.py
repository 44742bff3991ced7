"""The timeline of an incident: what its jobs did, what its alerts did, who got a message, and what people and budgets did about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from streams.engine.alerts.titles import title_of
from streams.engine.rules.formatting import span
from streams.engine.rules.rule import DIGEST, PAGE, TICKET
from streams.explain.acts import matches, recurs, touching
from streams.explain.incident.sizes import AttemptSize
from streams.explain.why.messages import said

Row = Mapping[str, Any]
_ACTS: Final = {"ack": "acknowledged", "silence": "silenced", "planned": "planned rate set"}


class TimelineEntry(NamedTuple):
    """One thing that happened; `what` is in the program's words, `about` is a name and `detail` a text that may be of anybody."""

    at_ms: int
    what: str
    about: str
    detail: str


def attempts_of(
    rows: Iterable[Row],
    from_ms: int,
    until_ms: int,
    sizes: Mapping[tuple[str, int], Sequence[AttemptSize]],
) -> Iterator[TimelineEntry]:
    """Yield when attempts of jobs started, changed their size and ended, within a span; `sizes`: by (job, attempt)."""
    for row in rows:
        known = sizes.get((row["job_id"], row["attempt"]), ())
        gpus = _gpus(known[0].gpus if known else row["gpu_count"])
        facts = ", ".join(filter(None, (gpus, row["gpu_type"], row["purchase"], row["region"])))
        for before, size in pairwise(known):
            if from_ms <= size.from_ms <= until_ms:
                scaled = f"from {_gpus(before.gpus)} to {_gpus(size.gpus)}"
                yield TimelineEntry(size.from_ms, f"attempt {row['attempt']} scaled", row["job_id"], scaled)
        if row["started_ms"] is not None and from_ms <= row["started_ms"] <= until_ms:
            yield TimelineEntry(row["started_ms"], f"attempt {row['attempt']} started", row["job_id"], facts)
        if row["ended_ms"] is not None and from_ms <= row["ended_ms"] <= until_ms:
            ended = f"attempt {row['attempt']} {row['state']}"
            yield TimelineEntry(row["ended_ms"], ended, row["job_id"], row["reason"])


def _gpus(number: float) -> str:
    return f"{number:g} {'GPU' if number == 1 else 'GPUs'}" if number else ""


def alerts_of(rows: Iterable[Row]) -> Iterator[TimelineEntry]:
    """Yield when alerts opened, became more urgent, and ended."""
    for row in rows:
        rule, about, alert_id = title_of(row["rule"]), row["subject_name"], row["alert_id"]
        ticket_ms, page_ms = row["ticket_since_ms"], row["page_since_ms"]
        opened_as = DIGEST if ticket_ms is not None else TICKET if page_ms is not None else row["severity"]
        yield TimelineEntry(row["started_ms"], f"{rule} opened ({opened_as})", about, alert_id)
        if ticket_ms is not None and ticket_ms != page_ms:
            yield TimelineEntry(ticket_ms, f"{rule} became a {TICKET}", about, alert_id)
        if page_ms is not None:
            yield TimelineEntry(page_ms, f"{rule} became a {PAGE}", about, alert_id)
        if row["resolved_ms"] is not None:
            lasted = span(max(0, row["resolved_ms"] - row["started_ms"]))
            again = f", fired {row['firings']} times" if row["firings"] > 1 else ""
            yield TimelineEntry(row["resolved_ms"], f"{rule} ended after {lasted}{again}", about, alert_id)


def messages_of(rows: Iterable[Row], rules: Mapping[str, str]) -> Iterator[TimelineEntry]:
    """Yield each attempt to tell somebody, or why there was none; `rules`: by the id of the alert."""
    for row in rows:
        words, because = said(row)
        what = f"message that {rules.get(row['alert_id'], 'it')} is {row['status']}: {words}"
        yield TimelineEntry(row["time_ms"], what, row["receiver"], because)


def controls_of(
    alert: Row, records: Sequence[Row], facts: Mapping[str, str], now_ms: int
) -> list[TimelineEntry]:
    """The acknowledgements, silences and plans for an alert, and what took them back.

    Args:
        alert: A row of `alerts`.
        records: Every record of these kinds, newest first.
        facts: What controls can match of the alert.
        now_ms: Log time.
    """
    found, names = [], set()
    for row in records:
        if row["kind"] != "ack" and not matches(row, facts):
            continue
        if not touching(alert, [row], facts, now_ms):
            continue
        names.add((row["kind"], row["name"]))
        until = "" if row["until_ms"] is None else f"for {span(max(0, row['until_ms'] - row['time_ms']))}"
        rate = f"${float(str(row['usd_per_hour'])):g}/h" if row["usd_per_hour"] is not None else ""
        detail = ", ".join(filter(None, (rate, until, recurs(row), row["comment"])))
        found.append(TimelineEntry(row["time_ms"], _ACTS[row["kind"]], _named(row), detail))
    gone = (row for row in records if row["removed"] and (row["kind"], row["name"]) in names)
    found.extend(TimelineEntry(row["time_ms"], "taken back", _named(row), row["comment"]) for row in gone)
    return found


def _named(control: Row) -> str:
    """A control by its name, with who set it where that is known: a record without a value says nothing of it."""
    by = control["by"] or control["source"]
    return f"{control['kind']}/{control['name']}{f' by {by}' if by else ''}"


def actions_of(rows: Iterable[Row]) -> Iterator[TimelineEntry]:
    """Yield each state of what budgets asked for."""
    for row in rows:
        again = f", attempt {row['attempt']}" if row["attempt"] > 1 else ""
        what = f"action {row['rung']} ({row['mode']}) {row['state']}{again}"
        detail = "; ".join(filter(None, (f"budget {row['budget']}", row["detail"])))
        yield TimelineEntry(row["time_ms"], what, row["job_id"], detail)
