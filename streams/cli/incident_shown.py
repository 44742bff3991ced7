"""The report of an incident as Markdown. Whatever a stranger named is escaped; no figure is computed here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

from schemas.counting import how_many
from schemas.durations import HOUR_MS
from streams.cli.alerts_why import NO_RULES, figure_text
from streams.cli.markdown import block, code, prose, table
from streams.cli.output import plain, usd
from streams.engine.alerts.titles import title_of
from streams.engine.rules.formatting import instant, span
from streams.engine.rules.rule import IS_FLAG
from streams.explain.incident.report import EVIDENCE_MAX, IncidentReport, JobSpend

_SENT: Final = ("delivered", "repeated")
#: A message so long after all that the log knows was timed by another clock than the log's.
OTHER_CLOCK_MS: Final = 6 * HOUR_MS


def markdown_of(report: IncidentReport) -> str:
    """The whole report, ending in a newline."""
    sections = (_head, _happened, _dollars, _timeline, _opened, _evidence, _earlier)
    return "\n".join(text for section in sections for text in section(report))


def _head(report: IncidentReport) -> Iterator[str]:
    alert = report.alert
    yield f"# {_title(alert)}: {alert['subject_kind']} {code(alert['subject_name'])}\n"
    whose = [f"{name} {code(alert[name])}" for name in ("owner", "team", "project") if alert[name]]
    rows = [
        ("alert", code(alert["alert_id"])),
        ("rule", f"{_title(alert)} ({code(alert['rule'])}), {alert['severity']}"),
        ("whose", ", ".join(whose) or "nobody's"),
        ("opened", instant(alert["started_ms"])),
        ("ended", "still fires" if alert["resolved_ms"] is None else instant(alert["resolved_ms"])),
        ("as of", f"{instant(report.as_of_ms)}, of the meter's log"),
    ]
    if report.part_of is not None:
        head = report.part_of
        rows.insert(1, ("part of", f"{code(head['alert_id'])}: {prose(head['summary'])}"))
    yield table(("", ""), rows)


def _title(alert: Mapping[str, Any]) -> str:
    return prose(title_of(alert["rule"]))


def _happened(report: IncidentReport) -> Iterator[str]:
    """One paragraph."""
    alert = report.alert
    lasted = span(max(0, report.until_ms - alert["started_ms"]))
    how = "still fires after" if alert["resolved_ms"] is None else "ended after"
    said = [
        f"At {instant(alert['started_ms'])} {_title(alert)} opened about {alert['subject_kind']} {code(alert['subject_name'])}; it {how} {lasted}.",
        f"What it says, as of {instant(max(alert['held_ms'], alert['changed_ms']))}: {prose(alert['summary'])}.",
    ]
    if report.member_count:
        said.append(
            f"It tells of {how_many(report.member_count, 'alert')} about {how_many(report.member_jobs, 'job')}."
        )
    if report.jobs:
        whose = "Its job" if len(report.jobs) == 1 and not report.member_count else "Its jobs"
        lost = f", of which ${usd(report.lost_usd)} is lost work" if report.lost_usd else ""
        said.append(f"{whose} cost ${usd(report.spent_usd)} meanwhile{lost}.")
    said += [_sent(report), _acted(report)]
    yield "## What happened\n"
    yield " ".join(said) + "\n"


def _sent(report: IncidentReport) -> str:
    sent = [row for row in report.deliveries if row["outcome"] in _SENT and row["status"] == "firing"]
    if sent:
        first = sent[0]
        names = ", ".join(dict.fromkeys(code(row["receiver"]) for row in sent))
        return f"The first message went to {code(first['receiver'])} {_after(report, first['time_ms'])}; in all: {names}."
    because = "; ".join(prose(each["because"]) for each in report.messages if each["because"])
    message = "; ".join(prose(each["message"]) for each in report.messages) or "not sent"
    return f"Nobody got a message that it fires ({message}{f': {because}' if because else ''})."


def _after(report: IncidentReport, sent_ms: int) -> str:
    """How long after the opening a message was sent.

    Messages are timed by the wall clock. In a demo and a replay of a log of the past that is another clock than the
    log's, and a difference of both would be a delay that nobody had.
    """
    if sent_ms > report.as_of_ms + OTHER_CLOCK_MS:
        return f"at {instant(sent_ms)}, by the wall clock, which is not that of this log (a demo, a replay, or a meter that was behind)"
    return f"{span(max(0, sent_ms - report.alert['started_ms']))} after it opened"


def _acted(report: IncidentReport) -> str:
    acked = [row for row in report.acted if row["kind"] == "ack"]
    if not acked:
        return "Nobody acknowledged it."
    first = min(acked, key=lambda row: row["time_ms"])
    after = span(max(0, first["time_ms"] - report.alert["started_ms"]))
    return f"{code(first['by'] or first['source'])} acknowledged it {after} after it opened."


def _dollars(report: IncidentReport) -> Iterator[str]:
    alert = report.alert
    yield "## Dollars\n"
    figures = [
        (name, usd(alert[column]).within(f"${{}}{unit}"))
        for name, column, unit in (
            ("it burnt", "usd_per_hour", "/h"),
            ("expected", "expected_usd_per_hour", "/h"),
            ("its subject paid when it opened", "opened_usd_per_hour", "/h"),
            ("cost that it is about", "cost_usd", ""),
        )
        if alert[column]
    ]
    if figures:
        yield f"As the alert says it, as of {instant(alert['held_ms'])}:\n"
        yield table(("figure", "USD"), figures)
    if not report.jobs:
        yield "It is about no job, so that no job's cost is its own.\n"
        return
    if report.member_count:
        yield f"Its {len(report.jobs)} dearest jobs of {report.member_jobs}, from its opening until its end:\n"
    else:
        yield "From its opening until its end:\n"
    columns = ("job", "owner", "team", "state", "spent meanwhile", "lost of it", "in all", "lost in all")
    yield table(columns, (_job(each) for each in report.jobs))
    if any(each.is_by_hour for each in report.jobs):
        yield "(h): of whole hours, as the minutes are deleted.\n"


def _job(each: JobSpend) -> tuple[str, ...]:
    words = "{} (h)" if each.is_by_hour else "{}"
    names = (code(each.job_id), code(each.owner), code(each.team), prose(each.state))
    spent, lost = usd(each.spent_usd).within(words), usd(each.lost_usd).within(words)
    return (*names, spent, lost, usd(each.total_usd), usd(each.total_lost_usd))


def _timeline(report: IncidentReport) -> Iterator[str]:
    yield "## Timeline\n"
    if report.entries_left_out:
        yield f"{report.entries_left_out} earlier entries are left out.\n"
    if any(row["time_ms"] > report.as_of_ms + OTHER_CLOCK_MS for row in report.deliveries):
        yield "Messages stand by the wall clock, which is not that of this log.\n"
    rows = (
        (instant(each.at_ms).removesuffix(" UTC"), prose(each.what), code(each.about), prose(each.detail))
        for each in report.entries
    )
    yield table(("UTC", "what", "of, by or to", "detail"), rows)


def _opened(report: IncidentReport) -> Iterator[str]:
    yield "## Why it opened\n"
    if not report.conditions:
        yield "The store has not kept how far its conditions were beyond their thresholds.\n"
        return
    yield "The conditions of its rule when it opened; a share of 1 and more is met, and of several ways one is enough:\n"
    rows = (
        (
            str(each["way"]),
            _condition(each["what"]),
            figure_text(each["what"], each["value"]),
            figure_text(each["what"], each["threshold"]),
            "" if each["share"] is None else f"{min(max(each['share'], 0), 999):.2f}",
        )
        for each in report.conditions
    )
    yield table(("way", "condition", "value", "threshold", "share"), rows)


def _condition(what: str) -> str:
    return prose(what.removesuffix(IS_FLAG).replace("`", ""))


def _evidence(report: IncidentReport) -> Iterator[str]:
    found = report.evidence
    yield "## Evidence\n"
    if found.missing:
        yield prose(found.missing[:1].upper() + found.missing[1:]) + ".\n"
    elif not found.rows:
        yield "The query finds no row any more.\n"
    else:
        if found.row_count > len(found.rows):
            yield f"The first {EVIDENCE_MAX} of {found.row_count} rows:\n"
        cells = ([_cell(value) for value in row] for row in found.rows)
        yield table([prose(name) for name in found.columns], cells)
    if found.statement:
        yield "As `trainfare sql` takes it:\n"
        yield block(found.statement, "sql")


def _cell(value: object) -> str:
    if isinstance(value, Decimal):
        return usd(value)
    text = plain(value)
    return code(text) if isinstance(value, str | bytes | dict | list | tuple) else prose(text)


def _earlier(report: IncidentReport) -> Iterator[str]:
    yield "## What would have fired earlier\n"
    about = report.earlier_about
    if about is None:
        yield (
            "Its rule is judged across jobs, of which no earlier instant is stored. The table above has how far each condition was "
            "beyond its threshold; `trainfare backtest` of the log says what another one would have done.\n"
        )
        return
    whose = "" if about is report.alert else f" of {code(about['subject_name'])}, its dearest job,"
    if report.earlier_missing:
        yield f"That is not known{whose}: {NO_RULES[report.earlier_missing]}.\n"
        return
    if not report.earlier:
        yield f"Nothing that the meter computes{whose}: before it opened no other rule held, and none was one condition and half a threshold away.\n"
        return
    yield (
        f"By the judge's figures{whose} before it opened. A rule is here if it held, or if one condition alone was not met and was half-way to its "
        "threshold or nearer: then with the value that it had, which is the threshold under which the rule would have held.\n"
    )
    opened_ms = int(about["started_ms"])
    rows = (
        (
            instant(each.at_ms).removesuffix(" UTC"),
            span(max(0, opened_ms - each.at_ms)),
            each.rule + ("" if each.enabled else " (switched off)"),
            _condition(each.what) if each.what else f"held, opened {code(each.alert_id) or 'nothing'}",
            "" if each.value is None else figure_text(each.what, each.value),
            "" if each.threshold is None else figure_text(each.what, each.threshold),
            usd(each.spent_usd),
        )
        for each in report.earlier
    )
    columns = ("UTC", "earlier by", "rule", "condition", "value then", "threshold", "USD from then on")
    yield table(columns, rows)
