"""`trainfare alerts list`: the history of alerts, the newest first, each with what became of its message."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from schemas.counting import how_many
from schemas.durations import DATETIME_END_MS
from schemas.escaping import visible
from schemas.lengths import duration
from streams.cli.options import DataOption, UrlOption, check_one_of
from streams.cli.output import FormatOption, Grid, OutputFormat, minute_text, to_json, usd, write
from streams.cli.reading import reader_for
from streams.cli.rule_titles import title_of
from streams.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from streams.cli.reading import Reader
    from streams.explain.alert_list import AlertsAsked

_COLUMNS: Final = (
    "alert",
    "fired",
    "for",
    "severity",
    "rule",
    "about",
    "owner",
    "$/h",
    "message",
    "sentence",
)


def list_(
    firing: Annotated[bool, typer.Option("--firing", help="Only those that fire.")] = False,
    team: Annotated[str, typer.Option(metavar="NAME", help="Of this team.")] = "",
    owner: Annotated[str, typer.Option(metavar="NAME", help="Of this owner.")] = "",
    rule: Annotated[str, typer.Option(metavar="RULE", help="Of this rule, e.g. burn_fast.")] = "",
    severity: Annotated[str, typer.Option(metavar="WORD", help="page, ticket or digest.")] = "",
    job: Annotated[
        str, typer.Option(metavar="ID", help="About this job; `train-*` for all that begin so.")
    ] = "",
    message: Annotated[
        str,
        typer.Option(
            metavar="WORD",
            help="What became of the message: sent, waiting, failed, nobody, silenced, inhibited, incident, digest, usual, superseded, none, planned.",
        ),
    ] = "",
    text: Annotated[
        str, typer.Option(metavar="WORDS", help="With these words in names, id or sentence.")
    ] = "",
    since: Annotated[
        str, typer.Option(metavar="AGO", help="That fired since then, e.g. 12h, 2d, 1w ago.")
    ] = "",
    every: Annotated[
        bool, typer.Option("--all", help="The alerts of jobs that an incident tells of, too, one by one.")
    ] = False,
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=1000, help="So many rows at most.")] = 50,
    data: DataOption = None,
    url: UrlOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """List alerts, the newest first: an incident is one row, with how many alerts of jobs it tells of."""
    check_one_of(data, url)
    from streams.explain.alert_list import ago_ms, alerts_asked  # loads the engine

    now_ms = SystemClock().now_ms()
    given = {"team": team, "owner": owner, "rule": rule, "severity": severity, "subject": job, "message": message, "text": text}  # fmt: skip
    asked = alerts_asked(
        {
            **given,
            "kind": "job" if job else "",
            "status": "firing" if firing else "",
            "order": "started",
            "folded": "0" if every else "1",
            **({"from_ms": str(ago_ms(since, now_ms, "--since"))} if since else {}),
        },
        limit,
    )
    with reader_for(data, url) as store:
        found, count = _found(store, asked)
        acts = _acts(store, found, now_ms)
    found = [{**alert, **done} for alert, done in zip(found, acts, strict=True)]
    if form is OutputFormat.json:
        sys.stdout.write(to_json({"alerts": found, "count": count}) + "\n")
        return
    name = title_of if form is OutputFormat.table else str
    if form is OutputFormat.table:
        rows = [_row(each, name, f"{each['message']}{_acted(each, now_ms)}") for each in found]
        write(Grid(_COLUMNS, rows), form)
    else:
        rows = [(*_row(each, name, each["message"]), _acted(each, now_ms)[2:]) for each in found]
        write(Grid((*_COLUMNS, "acts"), rows), form)
    if form is OutputFormat.table:
        left = count - len(found)
        if not found:
            sys.stdout.write("no alert is like that\n")
        elif left:
            sys.stdout.write(
                f"{how_many(left, 'older row is', 'older rows are')} not shown: a larger --limit shows more\n"
            )


def _found(store: Reader, asked: AlertsAsked) -> tuple[list[dict[str, Any]], int]:
    """The rows that are asked for, in order, and how many there are in all."""
    from streams.explain import alert_list

    places = store.records(asked.sql(), **asked.parameters())
    count = int(str(store.records(asked.count_sql(), **asked.count_parameters())[0]["rows"]))
    ids = [str(place["alert_id"]) for place in places]
    if not ids:
        return [], count
    rows = {str(row["alert_id"]): row for row in store.records(alert_list.ROWS, alerts=ids)}
    message = {
        str(row["alert_id"]): row["message"] for row in store.records(alert_list.MESSAGES_OF, alerts=ids)
    }
    heads = [
        each
        for each in ids
        if asked.folded and rows[each]["shared_cause"] and rows[each]["subject_kind"] != "job"
    ]
    of = {}
    if heads:
        of = {str(row.pop("head")): row for row in store.records(alert_list.MEMBERS, alerts=heads)}
    return [{**rows[each], "message": message[each], "members": of.get(each)} for each in ids], count


def _acts(store: Reader, alerts: list[dict[str, Any]], now_ms: int) -> list[dict[str, Any]]:
    """Who has acknowledged or silenced each alert, as far as that holds now: no tick has to have judged it."""
    from streams.explain import acts
    from streams.explain.why.sql import NEWEST_TICK

    at_ms = max(now_ms, *(int(str(row["at_ms"])) for row in store.records(NEWEST_TICK)))
    index = acts.ActIndex(store.records(acts.IN_FORCE, at_ms=DATETIME_END_MS), at_ms)
    jobs = acts.jobs_of(alerts) if index.matches_jobs else []
    rows = store.records(acts.DIMENSIONS, jobs=jobs) if jobs else []
    dimensions: dict[str, dict[str, Any]] = {str(row["job_id"]): row for row in rows}
    return [index.of(alert, acts.facts_of(alert, dimensions)) for alert in alerts]


def _acted(alert: dict[str, Any], now_ms: int) -> str:
    """What somebody did about an alert, behind a comma; '': nothing."""
    found = (("acknowledged", alert["acknowledged"]), ("silenced", alert["silenced_by"]))
    return "".join(
        f", {word} {_until(control, now_ms)} by {visible(control['by'] or 'a record of the log')}"
        for word, control in found
        if control is not None
    )


def _until(control: dict[str, Any], now_ms: int) -> str:
    """Until when a control holds: the minute, with its day if that is not today."""
    until_ms = control["until_ms"]
    if until_ms is None:
        return control["recurs"] or "for ever"
    text, today = minute_text(until_ms), minute_text(now_ms)[:11]
    return f"until {text.removeprefix(today)}"


def _row(alert: dict[str, Any], name: Callable[[object], str], message: str) -> tuple[object, ...]:
    started_ms, resolved_ms = alert["started_ms"], alert["resolved_ms"]
    lasted = "firing" if resolved_ms is None else duration(resolved_ms - started_ms)
    members = alert["members"]
    inside = (
        f" ({how_many(members['alerts'], 'alert')} of {how_many(members['jobs'], 'job')})" if members else ""
    )
    about = f"{'' if alert['subject_kind'] == 'job' else alert['subject_kind'] + ' '}{alert['subject_name']}"
    fired = datetime.fromtimestamp(started_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    owner = ", ".join(filter(None, (alert["owner"], alert["team"])))
    return (alert["alert_id"], fired, lasted, alert["severity"], name(alert["rule"]), about, owner, usd(alert["usd_per_hour"]), message, visible(alert["summary"]) + inside)  # fmt: skip
